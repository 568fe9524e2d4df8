"""What is kept of spans between runs, so that each is read once: what was seen in it, and its shards.

    <store>/<key>/columns.json                 the columns of a span
    <store>/<key>/survey.json                  rows and kinds of a span
    <store>/<key>/ingested.json, Split-.../    its shards, and what is to be said of them
    <store>/seen.json                          size and mark of each file when it was last read

A key is a digest of all that decides the content, so nothing kept is ever changed. Shards are hard-linked from here
into the Examples artifacts; removing the store costs time, and nothing else. What is kept and cannot be read counts as
not kept, and so do shards that are not all there, byte for byte as they were written: a disk that damages a file tells
nobody. Transform reads them all anyhow; to look through them first takes 20 ms for 70 MB, 30 days of the taxi data.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from headrace.components.example_gen.rounding import Rounding
from headrace.components.example_gen.shared_spans import SharedSpans
from headrace.components.example_gen.sources import ScanResult, Skipped
from headrace.components.example_gen.storage import UNKNOWN, FileState
from headrace.configs.checksums import file_checksum
from headrace.configs.durable import sync_folder, sync_tree, write_text


@dataclass(frozen=True)
class Written:
    """The shards of a span: their folder, the rows of each split, one line about them, what float32 does to the columns
    of doubles, and rows left out because of it.
    """

    folder: Path
    rows: Mapping[str, int]
    plan: str
    roundings: Mapping[str, Rounding] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)


@dataclass(frozen=True)
class _Shards:
    """What is kept about shards. `files`: the bytes of each, when they were written (nanoseconds since 1970), and their
    checksum; `seen`: the keys under which the columns and the survey of their span are kept.
    """

    rows: dict[str, int]
    plan: str
    files: dict[str, tuple[int, int, int]]
    seen: tuple[str, ...]
    roundings: dict[str, Rounding] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)


SHARDS = "ingested.json"
"""In the folder of shards: what is to be said of them."""
SEEN = "seen.json"
"""In the store: what was read, as it was then."""
COLUMNS, SURVEY, WRITTEN = "columns", "survey", "shards"
"""The parts of a span that machines share (see `shared_spans`)."""
_Form = TypeVar("_Form")
_COLUMNS: TypeAdapter[list[str]] = TypeAdapter(list[str])
_SURVEY: TypeAdapter[ScanResult] = TypeAdapter(ScanResult)
_SHARDS: TypeAdapter[_Shards] = TypeAdapter(_Shards)
_SEEN: TypeAdapter[dict[str, tuple[int, str]]] = TypeAdapter(dict[str, tuple[int, str]])


def key_of(*parts: object) -> str:
    """A digest of parts that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()[:32]


class SpanStore:
    """The kept spans of one pipeline. `folder`: None keeps nothing; `code`: a digest of the code that reads them;
    `shared`: where they lie too, if the folder does not stay.
    """

    def __init__(self, folder: Path | None = None, code: str = "", shared: SharedSpans | None = None) -> None:
        self._folder, self.code, self._shared = folder, code, shared

    def fetch(self, part: str, keys: Iterable[str]) -> None:
        """Have a part of several spans in the folder, where another machine kept it."""
        for key in self._shared.fetch(keys, part) if self._shared else ():
            if part == WRITTEN:
                self._settle(key)

    def columns(self, key: str) -> list[str] | None:
        """The columns of a span, as they were found before."""
        return self._read(key, "columns.json", _COLUMNS)

    def keep_columns(self, key: str, columns: Sequence[str]) -> None:
        """Remember the columns of a span."""
        self._write(key, "columns.json", list(columns))
        self._publish(key, COLUMNS, "columns.json")

    def survey(self, key: str) -> ScanResult | None:
        """What was seen in a span before."""
        found = self._read(key, "survey.json", _SURVEY)
        return found if found and found.rows else None

    def keep_survey(self, key: str, survey: ScanResult) -> None:
        """Remember what was seen in a span."""
        self._write(key, "survey.json", asdict(survey))
        self._publish(key, SURVEY, "survey.json")

    def shards(self, key: str) -> Written | None:
        """The shards of a span, if they are all there as `keep_shards` took them."""
        told = self._read(key, SHARDS, _SHARDS)
        if told is None or self._folder is None:
            return None
        folder = self._folder / key
        if {name: state[:2] for name, state in told.files.items()} != _states(folder):
            return None
        for name, (*_, checksum) in told.files.items():
            if file_checksum(folder / name) != checksum:
                print(
                    f"{folder / name} is not as it was written, though nothing wrote to it since: the disk may be bad"
                )
                return None
        return Written(folder, told.rows, told.plan, told.roundings, told.skipped)

    def keep_shards(self, key: str, written: Written, seen: Sequence[str]) -> Written:
        """Take shards into the store, where there is one, in place of what is there; where they lie from now on.

        seen: the keys of the columns and the survey of their span.
        """
        if self._folder is None:
            return written
        target = self._folder / key
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        sync_tree(written.folder)
        written.folder.rename(target)
        sync_folder(target.parent)
        files = {name: (*state, file_checksum(target / name)) for name, state in _states(target).items()}
        told = _Shards(dict(written.rows), written.plan, files, tuple(seen), dict(written.roundings), written.skipped)
        self._write(key, SHARDS, asdict(told))
        self._publish(key, WRITTEN, SHARDS, *files)
        return replace(written, folder=target)

    def changed(self, files: Iterable[FileState]) -> Iterator[str]:
        """A line about each file that is not as it was when it was last read."""
        if self._shared is not None:
            self._shared.fetch_file(SEEN)
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
            self._put(self._folder / SEEN, {**self._seen(), **now})
            if self._shared is not None:
                self._shared.publish_file(SEEN)

    def _seen(self) -> dict[str, list[Any]]:
        seen = None if self._folder is None else _parsed(self._folder / SEEN, _SEEN)
        return {path: list(state) for path, state in (seen or {}).items()}

    def _settle(self, key: str) -> None:
        """Note when fetched shards, which are whole, were written to this disk."""
        told = self._read(key, SHARDS, _SHARDS)
        if told is not None and self._folder is not None:
            now = _states(self._folder / key)
            files = {
                name: (size, now.get(name, (0, written))[1], checksum)
                for name, (size, written, checksum) in told.files.items()
            }
            self._write(key, SHARDS, asdict(replace(told, files=files)))

    def _publish(self, key: str, part: str, *names: str) -> None:
        if self._shared is not None and self._folder is not None:
            self._shared.publish(key, part, [self._folder / key / name for name in names])

    def _read(self, key: str, name: str, form: TypeAdapter[_Form]) -> _Form | None:
        return None if self._folder is None else _parsed(self._folder / key / name, form)

    def _write(self, key: str, name: str, told: object) -> None:
        if self._folder is not None:
            self._put(self._folder / key / name, told)

    @staticmethod
    def _put(path: Path, told: object) -> None:
        """Whole or not at all."""
        write_text(path, json.dumps(told))


def kept_with(folder: Path, key: str) -> tuple[str, ...]:
    """The keys in a store without which shards that are kept there would have to be read again."""
    told = _parsed(folder / key / SHARDS, _SHARDS)
    return (key,) if told is None else (key, *told.seen)


def _parsed(path: Path, form: TypeAdapter[_Form]) -> _Form | None:
    """What a file holds, if it is there and whole."""
    try:
        return form.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("Split-*/*"))


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    """The bytes of each shard, and when they were written."""
    found = {str(path.relative_to(folder)): path.stat() for path in _shards(folder)}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in found.items()}


def link(source: Path, target: Path) -> None:
    """The same file under a second name; where the file system has no links, a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
