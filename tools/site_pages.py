"""A MkDocs hook that adds the pages outside of docs/ to the site, and adapts links.

README.md is the home page; CONTRIBUTING.md, SECURITY.md and CHANGELOG.md are pages too. On GitHub the pages link to
files all over the repository. On the site, links between pages stay, and links to other files become plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages outside of docs/, by their paths in the repository and on the site."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    for path, page in PAGES.items():
        content = adapt_links((ROOT / path).read_text(encoding="utf-8"), "")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Adapt the links of a page in docs/."""
    return markdown if page.file.src_uri in PAGES.values() else adapt_links(markdown, "docs")


def adapt_links(markdown: str, folder: str) -> str:
    """Adapt links to the site; `folder` is the page's folder in the repository."""
    parts = _CODE.split(markdown)
    return "".join(
        part if number % 2 and part.startswith("```") else _LINK.sub(lambda link: _adapted(link, folder), part)
        for number, part in enumerate(_joined(parts))
    )


def _joined(parts: list[str]) -> list[str]:
    """Alternate text and fenced code. Inline code stays in its text, since a link may contain it."""
    joined = [""]
    for part in parts:
        if part.startswith("```"):
            joined += [part, ""]
        else:
            joined[-1] += part
    return joined


def _adapted(link: re.Match[str], folder: str) -> str:
    image, text, target = link.groups()
    path, mark, anchor = target.partition("#")
    if "://" in path or not path:
        return link[0]
    inside = posixpath.normpath(posixpath.join(folder, path))
    page = PAGES.get(inside) or (inside.removeprefix("docs/") if inside.startswith("docs/") else None)
    return f"{image}[{text}]({page}{mark}{anchor})" if page else text
