"""What is stored of spans between runs, so that each span is read only once: the result of its scan, and its shards.

    <store>/<key>/columns.json                 the columns of a span
    <store>/<key>/scan.json                    its rows and the kinds of its columns
    <store>/<key>/ingested.json, Split-.../    its shards, and what is known about them
    <store>/seen.json                          size and mark of each file when it was last read

A key is a digest of everything that determines the content, so stored files never change. Shards are hard-linked from
here into the Examples artifacts; deleting the store costs time, and nothing else. Whatever cannot be read counts as not
stored, and so do shards that are not all there, byte for byte as they were written: disks damage files silently.
Checking them takes 20 ms for 70 MB (30 days of the taxi data), and Transform reads them in any case.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from headrace.common.checksums import file_checksum
from headrace.common.durable import sync_folder, sync_tree, write_text
from headrace.common.storage.files import UNKNOWN, FileState
from headrace.components.example_gen.shards.group_split import GroupRows
from headrace.components.examples.column_files import shards_and_columns
from headrace.components.examples.skips import Skipped
from headrace.components.examples.tfexample.rounding import ColumnRounding
from headrace.components.sources import ScanResult
from headrace.components.spans.shared_spans import SharedSpans

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpanShards:
    """The shards of a span.

    Attributes:
        folder: the folder of the shards.
        rows: the rows of each split.
        plan: one line about the number and size of the shards.
        roundings: what float32 does to the columns of doubles.
        skipped: rows that were skipped because of that.
        dropped: the number of rows that were dropped because they have no label.
        classes: with `data.stratify`, the rows of each class in each split.
        groups: with `data.split_key`, the rows of each group.
    """

    folder: Path
    rows: Mapping[str, int]
    plan: str
    roundings: Mapping[str, ColumnRounding] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)
    dropped: int = 0
    classes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: GroupRows = field(default_factory=GroupRows)


@dataclass(frozen=True)
class _StoredShards:
    """The content of `ingested.json`; its field names are the keys on disk.

    Attributes:
        rows, plan, roundings, skipped, dropped, classes, groups: as in SpanShards.
        files: the size of each shard in bytes, its time of writing (nanoseconds since 1970), and its checksum.
        seen: the keys of the columns and of the scan of the same span.
    """

    rows: dict[str, int]
    plan: str
    files: dict[str, tuple[int, int, int]]
    seen: tuple[str, ...]
    roundings: dict[str, ColumnRounding] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)
    dropped: int = 0
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: GroupRows = field(default_factory=GroupRows)


SHARDS_FILE = "ingested.json"
"""The file in the folder of shards that describes them."""
SEEN_FILE = "seen.json"
"""The file in the store that lists what was read, as it was then."""
COLUMNS, SCAN, SHARDS = "columns", "scan", "shards"
"""The parts of a span that machines share (see `shared_spans`)."""
_Form = TypeVar("_Form")
_COLUMNS: TypeAdapter[list[str]] = TypeAdapter(list[str])
_SCAN: TypeAdapter[ScanResult] = TypeAdapter(ScanResult)
_SHARDS: TypeAdapter[_StoredShards] = TypeAdapter(_StoredShards)
_SEEN: TypeAdapter[dict[str, tuple[int, str]]] = TypeAdapter(dict[str, tuple[int, str]])


def digest_of(*parts: object) -> str:
    """A key: the digest of values that JSON can represent."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()[:32]


class SpanStore:
    def __init__(self, folder: Path | None = None, code: str = "", shared: SharedSpans | None = None) -> None:
        """Open a store.

        Args:
            folder: where it is; None stores nothing.
            code: a digest of the code that reads spans.
            shared: where spans are shared with other machines, if the folder does not outlive the run.
        """
        self._folder, self.code, self._shared = folder, code, shared

    def fetch(self, part: str, keys: Iterable[str]) -> None:
        """Copy a part of these spans into the folder, if another machine has published it."""
        for key in self._shared.fetch(keys, part) if self._shared else ():
            if part == SHARDS:
                self._accept_fetched(key)

    def columns(self, key: str) -> list[str] | None:
        return self._read(key, "columns.json", _COLUMNS)

    def store_columns(self, key: str, columns: Sequence[str]) -> None:
        self._write(key, "columns.json", list(columns))
        self._publish(key, COLUMNS, "columns.json")

    def scan(self, key: str) -> ScanResult | None:
        """The stored result of a span's scan."""
        found = self._read(key, "scan.json", _SCAN)
        return found if found and found.rows else None

    def store_scan(self, key: str, result: ScanResult) -> None:
        """Store the result of a span's scan."""
        self._write(key, "scan.json", asdict(result))
        self._publish(key, SCAN, "scan.json")

    def shards(self, key: str) -> SpanShards | None:
        """The stored shards of a span, if they are all there as `store_shards` left them."""
        stored = self._read(key, SHARDS_FILE, _SHARDS)
        if stored is None or self._folder is None:
            return None
        folder = self._folder / key
        if {name: state[:2] for name, state in stored.files.items()} != _states(folder):
            return None
        for name, (*_, checksum) in stored.files.items():
            if file_checksum(folder / name) != checksum:
                logger.warning(f"{folder / name} has changed although nothing wrote to it: the disk may be failing")
                return None
        names = ("rows", "plan", "roundings", "skipped", "dropped", "classes", "groups")
        found = {name: getattr(stored, name) for name in names}
        return SpanShards(folder, **found)

    def store_shards(self, key: str, shards: SpanShards, seen: Sequence[str]) -> SpanShards:
        """Move shards into the store, if there is one, replacing those of the same key; the shards where they are now.

        seen: the keys of the columns and of the scan of their span.
        """
        if self._folder is None:
            return shards
        target = self._folder / key
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        sync_tree(shards.folder)
        shards.folder.rename(target)
        sync_folder(target.parent)
        files = {name: (*state, file_checksum(target / name)) for name, state in _states(target).items()}
        stored = _StoredShards(
            dict(shards.rows),
            shards.plan,
            files,
            tuple(seen),
            dict(shards.roundings),
            shards.skipped,
            shards.dropped,
            {value: dict(rows) for value, rows in shards.classes.items()},
            shards.groups,
        )
        self._write(key, SHARDS_FILE, asdict(stored))
        self._publish(key, SHARDS, SHARDS_FILE, *files)
        return replace(shards, folder=target)

    def changed(self, files: Iterable[FileState]) -> Iterator[str]:
        """A line about each file that has changed since it was last read."""
        if self._shared is not None:
            self._shared.fetch_file(SEEN_FILE)
        seen = self._seen()
        for file in files:
            before = seen.get(file.path)
            if before is not None and file.size != UNKNOWN and before != [file.size, file.mark]:
                sizes = f"{before[0]:,} bytes then, {file.size:,} now" if before[0] != file.size else "same size"
                yield f"{file.path} changed since it was last read ({sizes})"

    def remember(self, files: Iterable[FileState]) -> None:
        """Note that these files have been read, as they are now."""
        if self._folder is not None:
            now = {file.path: [file.size, file.mark] for file in files}
            self._write_json(self._folder / SEEN_FILE, {**self._seen(), **now})
            if self._shared is not None:
                self._shared.publish_file(SEEN_FILE)

    def _seen(self) -> dict[str, list[Any]]:
        seen = None if self._folder is None else _parsed(self._folder / SEEN_FILE, _SEEN)
        return {path: list(state) for path, state in (seen or {}).items()}

    def _accept_fetched(self, key: str) -> None:
        """Note when fetched shards, which are complete, were written to this disk."""
        stored = self._read(key, SHARDS_FILE, _SHARDS)
        if stored is not None and self._folder is not None:
            now = _states(self._folder / key)
            files = {
                name: (size, now.get(name, (0, written))[1], checksum)
                for name, (size, written, checksum) in stored.files.items()
            }
            self._write(key, SHARDS_FILE, asdict(replace(stored, files=files)))

    def _publish(self, key: str, part: str, *names: str) -> None:
        if self._shared is not None and self._folder is not None:
            self._shared.publish(key, part, [self._folder / key / name for name in names])

    def _read(self, key: str, name: str, form: TypeAdapter[_Form]) -> _Form | None:
        return None if self._folder is None else _parsed(self._folder / key / name, form)

    def _write(self, key: str, name: str, content: object) -> None:
        if self._folder is not None:
            self._write_json(self._folder / key / name, content)

    @staticmethod
    def _write_json(path: Path, content: object) -> None:
        write_text(path, json.dumps(content))


def keys_used_by(folder: Path, key: str) -> tuple[str, ...]:
    """The keys in a store without which the shards stored under `key` would have to be read again."""
    stored = _parsed(folder / key / SHARDS_FILE, _SHARDS)
    return (key,) if stored is None else (key, *stored.seen)


def _parsed(path: Path, form: TypeAdapter[_Form]) -> _Form | None:
    """The content of a file; None if it is missing or damaged."""
    try:
        return form.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    """The size of each shard in bytes, and its time of writing; and those of its columns."""
    found = {str(path.relative_to(folder)): path.stat() for path in shards_and_columns(folder)}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in found.items()}


def link(source: Path, target: Path) -> None:
    """Give a file a second name; on file systems without hard links, copy it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
