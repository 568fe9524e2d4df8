"""A page of docs/, followed line by line in an empty folder: its files are saved, and its commands executed.

followed = follow("images.md", folder)
followed.of("run")[0].ending("blessing")

A file is a block of Python or YAML whose first line is a comment with its name, or what is added to one. A command is
an indented line that begins with `headrace`, `python`, `head` or `rm`.
"""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from command import ROOT, Finished, headrace
from installed import without_pythonpath

FILE = re.compile(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    ((?:headrace|python|head|rm) .*)$", re.MULTILINE)


@dataclass
class Followed:
    """What the commands of a page left, by their verb, in their order."""

    folder: Path
    done: dict[str, list[Finished]] = field(default_factory=dict)

    def of(self, verb: str) -> list[Finished]:
        return self.done[verb]

    def rows(self, file: str) -> list[dict[str, str]]:
        """The rows of a CSV file that the commands wrote."""
        with (self.folder / file).open(newline="", encoding="utf-8") as stream:
            return list(csv.DictReader(stream))


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def follow(page: str, folder: Path, instead: Mapping[str, str] | None = None) -> Followed:
    """instead: what stands in the files in place of something that the tests do not have, such as a server."""
    text, story = text_of(page), Followed(folder)
    found = [(match.start(), match[1], match[2]) for match in FILE.finditer(text)]
    found += [(match.start(), "", match[1]) for match in COMMAND.finditer(text)]
    for _, file, content in sorted(found):
        if file:
            saved = content
            for old, new in (instead or {}).items():
                saved = saved.replace(old, new)
            with (folder / file).open("a", encoding="utf-8") as target:
                target.write(saved)
        else:
            _execute(content, story)
    return story


def _execute(command: str, story: Followed) -> None:
    program, *arguments = shlex.split(command)
    if program == "headrace":
        story.done.setdefault(arguments[0], []).append(headrace(story.folder, *arguments))
    else:
        ours = re.sub("^python ", f"{shlex.quote(sys.executable)} ", command)
        subprocess.run(ours, shell=True, check=True, cwd=story.folder, env=without_pythonpath())
