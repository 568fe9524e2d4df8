"""Edits of files, for tests of what follows from an edit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    """What replaces a text, where it first occurs, in the file of that name in a folder."""

    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change
