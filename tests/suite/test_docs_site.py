"""The documentation as a site: built in strict mode, without the network, and complete in itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVERY_PROXY = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built where every request to another machine would fail."""
    target = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=ROOT,
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "1", **dict.fromkeys(EVERY_PROXY, "http://127.0.0.1:9")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.mark.slow
def test_every_page_of_the_docs_and_the_repository_is_on_the_site(site: Path) -> None:
    pages = {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")}
    pages |= {"index.html", "contributing.html", "security.html", "changelog.html"}
    assert pages <= {path.name for path in site.glob("*.html")}
    assert (site / "notebook.ipynb").is_file()
    assert "Headrace" in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loading = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^"'> ]+""")
    for page in site.glob("*.html"):
        assert loading.findall(page.read_text(encoding="utf-8")) == [], page.name


def test_links_to_files_of_the_repository_are_plain_text(site: Path) -> None:
    for page in site.glob("*.html"):
        assert not re.search(r"""href=["']?\.\./""", page.read_text(encoding="utf-8")), page.name
