"""What is kept of spans between runs, so that each is read once: what was seen in it, and its shards.

    <store>/<key>/columns.json                 the columns of a span
    <store>/<key>/survey.json                  rows and kinds of a span
    <store>/<key>/ingested.json, Split-.../    its shards, and what is to be said of them
    <store>/seen.json                          size and mark of each file when it was last read

A key is a digest of all that decides the content, so nothing kept is ever changed. Shards are hard-linked from here
into the Examples artifacts; removing the store costs time, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from components.example_gen.sources import Skipped, Survey
from components.example_gen.storage import UNKNOWN, FileState


def key_of(*parts: object) -> str:
    """A digest of parts that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()[:32]


class SpanStore:
    """The kept spans of one pipeline. `folder`: None keeps nothing; `code`: a digest of the code that reads them."""

    def __init__(self, folder: Path | None = None, code: str = "") -> None:
        self._folder, self.code = folder, code

    def columns(self, key: str) -> list[str] | None:
        """The columns of a span, as they were found before."""
        told: list[str] | None = self._read(key, "columns.json")
        return told

    def keep_columns(self, key: str, columns: Sequence[str]) -> None:
        """Remember the columns of a span."""
        self._write(key, "columns.json", list(columns))

    def survey(self, key: str) -> Survey | None:
        """What was seen in a span before."""
        told = self._read(key, "survey.json")
        if told is None:
            return None
        skipped = Skipped(told["skipped"]["count"], tuple(told["skipped"]["told"]))
        return Survey(**{**told, "skipped": skipped})

    def keep_survey(self, key: str, survey: Survey) -> None:
        """Remember what was seen in a span."""
        self._write(key, "survey.json", asdict(survey))

    def shards(self, key: str) -> tuple[Path, dict[str, Any]] | None:
        """The folder of a span's shards, and what was told with `keep_shards`."""
        told = self._read(key, "ingested.json")
        return None if told is None or self._folder is None else (self._folder / key, told)

    def keep_shards(self, key: str, folder: Path, told: dict[str, Any]) -> Path:
        """Take a folder of shards into the store, where there is one; where it lies from now on."""
        if self._folder is None:
            return folder
        target = self._folder / key
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
        self._write(key, "ingested.json", told)
        return target

    def changed(self, files: Iterable[FileState]) -> Iterator[str]:
        """A line about each file that is not as it was when it was last read."""
        seen = self._seen()
        for file in files:
            before = seen.get(file.path)
            if before is not None and file.size != UNKNOWN and before != [file.size, file.mark]:
                sizes = f"{before[0]:,} bytes then, {file.size:,} now" if before[0] != file.size else "same size"
                yield f"{file.path} changed since it was last read ({sizes})"

    def remember(self, files: Iterable[FileState]) -> None:
        """These files are read, as they are now."""
        if self._folder is not None:
            now = {file.path: [file.size, file.mark] for file in files}
            self._put(self._folder / "seen.json", {**self._seen(), **now})

    def _seen(self) -> dict[str, list[Any]]:
        path = self._folder and self._folder / "seen.json"
        seen: dict[str, list[Any]] = json.loads(path.read_text()) if path and path.exists() else {}
        return seen

    def _read(self, key: str, name: str) -> Any:
        path = self._folder and self._folder / key / name
        return json.loads(path.read_text()) if path and path.exists() else None

    def _write(self, key: str, name: str, told: object) -> None:
        if self._folder is not None:
            self._put(self._folder / key / name, told)

    @staticmethod
    def _put(path: Path, told: object) -> None:
        """Whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_text(json.dumps(told))
        half.replace(path)


def link(source: Path, target: Path) -> None:
    """The same file under a second name; where the file system has no links, a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
