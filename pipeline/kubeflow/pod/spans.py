"""Cached spans in the object store: a pod's disk is lost with the pod, and the next night reads from here.

    <pipeline root>/<pipeline name>/spans/<key>/<part>/<SHA-256>   a file of a part, named by its content
                                          <key>/<part>.json        the list of the part's files: written last
                                          runs/<run>/<task>.json   the keys that a run used, for `headrace prune`
                                          seen.json                size and mark of each file when it was last read

A part is trusted only as far as its list goes: each file must have the size and CRC32C in the list. So a broken-off
upload is never read; and when two runs store the same part at once, either list is right, because files with different
content have different names. A failing store costs time and no run: what cannot be fetched is recomputed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import google_crc32c
from pydantic import Field, TypeAdapter

from headrace.common.figures import plural
from headrace.pipeline.kubeflow.store import CHUNK, Store

logger = logging.getLogger(__name__)

PARALLEL_COPIES = 16
MAX_FAILURES = 3
"""Consecutive failures of the store after which this pod no longer asks it."""
LIST = ".json"
RUNS = "runs"

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class PartFile:
    """A file of a part. object: its name in the store; size: bytes; crc32c: checksum of its content."""

    object: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: int
    crc32c: int


PartFiles = dict[str, PartFile]
"""The files of a part by their path in the folder of the span."""
_INSIDE = re.compile(r"(?!\.)[\w.@+=-]+(/(?!\.)[\w.@+=-]+)*")
_PART_FILES: TypeAdapter[PartFiles] = TypeAdapter(PartFiles)
_KEYS: TypeAdapter[list[str]] = TypeAdapter(list[str])


def parse_list(text: str) -> PartFiles:
    """The files in a part's list. Raises ValueError for any other text, and for a path outside the span's folder."""
    found = _PART_FILES.validate_json(text, strict=True)
    if outside := next((name for name in found if not _INSIDE.fullmatch(name)), None):
        raise ValueError(f"{outside!r} is not a path below the folder of a span")
    return found


def parse_keys(text: str) -> list[str]:
    """The keys that a run used. Raises ValueError for a text that is not such a list."""
    return _KEYS.validate_json(text, strict=True)


@dataclass
class SpanObjects:
    """The `headrace.components.spans.shared_spans.SharedSpans` of a pod.

    folder: the cached spans on the pod's disk; uri: their folder in the object store; user: `<run>/<task>`.
    """

    folder: Path
    uri: str
    store: Store
    user: str
    known: dict[tuple[str, str], PartFiles] = field(default_factory=dict)
    """The parts in the object store that this pod has read or written, by key and part."""
    used: set[str] = field(default_factory=set)
    fetched: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    """Bytes of each file that was fetched, and of each that was stored."""
    failures: int = 0
    """Consecutive failures of the store."""
    counting: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while `failures` changes: up to `PARALLEL_COPIES` threads use the store."""

    @contextlib.contextmanager
    def open(self) -> Iterator[SpanObjects]:
        """Record at the end which keys were used. Nothing uses the store on entry: a component may have to fork first.

        (The store's client starts threads, which a forked process would lack.)
        """
        yield self
        if self.used:
            note = f"{self.uri}/{RUNS}/{self.user}{LIST}"
            self._ask(lambda: self.store.write(note, json.dumps(sorted(self.used))), f"{note} cannot be written")
            logger.info(f"spans: fetched {_amount(self.fetched)} from {self.uri}, stored {_amount(self.stored)}")

    def fetch(self, keys: Iterable[str], part: str) -> list[str]:
        """Fetch that part of spans into the folder. Returns the keys of those that are complete there."""
        wanted = list(dict.fromkeys(keys))
        self.used.update(wanted)
        lists = zip(wanted, _in_parallel(partial(self._list, part=part), wanted), strict=True)
        found = {key: files for key, files in lists if files is not None}
        jobs = [(key, name, file) for key, files in found.items() for name, file in files.items()]
        complete = _in_parallel(partial(self._fetch, part=part), jobs)
        for key in {key for (key, *_), is_complete in zip(jobs, complete, strict=True) if not is_complete}:
            for name in found.pop(key):
                (self.folder / key / name).unlink(missing_ok=True)
        self.known.update({(key, part): files for key, files in found.items()})
        return list(found)

    def publish(self, key: str, part: str, files: Sequence[Path]) -> None:
        """Store these files of a span's folder, then the list of them. Does nothing if all of it is stored already."""
        self.used.add(key)
        known = self.known.get((key, part), {})
        listed = {str(file.relative_to(self.folder / key)): _described(file) for file in files}
        if not listed or listed == known:
            return
        new = {name: file for name, file in listed.items() if known.get(name) != file}
        failure = f"{self.uri}/{key}/{part} is not stored, so the next run recomputes it"
        if self._ask(partial(self._store, key, part, listed, new), failure):
            self.known[key, part] = listed
            self.stored += [file.size for file in new.values()]

    def fetch_file(self, name: str) -> None:
        """Fetch the latest version of a file about all spans."""
        uri = f"{self.uri}/{name}"
        self._ask(lambda: self.store.get(uri, self.folder / name), f"{uri} cannot be read")

    def publish_file(self, name: str) -> None:
        """Store a file about all spans, replacing the version in the store."""
        uri = f"{self.uri}/{name}"
        self._ask(lambda: self.store.put(self.folder / name, uri), f"{uri} cannot be written")

    def _store(self, key: str, part: str, listed: PartFiles, new: PartFiles) -> bool:
        folder, part_uri = self.folder / key, f"{self.uri}/{key}/{part}"
        _in_parallel(lambda name: self.store.put(folder / name, f"{part_uri}/{new[name].object}"), list(new))
        self.store.write(f"{part_uri}{LIST}", json.dumps({name: asdict(file) for name, file in listed.items()}))
        return True

    def _list(self, key: str, part: str) -> PartFiles | None:
        """The files of a part, or None if it is not stored."""
        uri = f"{self.uri}/{key}/{part}{LIST}"
        text = self._ask(lambda: self.store.text(uri), f"{uri} cannot be read, so {_RECOMPUTED}")
        try:
            return None if text is None else parse_list(text)
        except ValueError as error:
            _report(f"{uri} is damaged, so {_RECOMPUTED}: {str(error).splitlines()[0]}")
            return None

    def _fetch(self, job: tuple[str, str, PartFile], part: str) -> bool:
        """Fetch a file of a part. Returns whether it is in the folder, undamaged."""
        key, name, file = job
        uri, path = f"{self.uri}/{key}/{part}/{file.object}", self.folder / key / name
        there = self._ask(lambda: self.store.get(uri, path), f"{uri} ({name}) cannot be read, so {_RECOMPUTED}")
        if not there:
            if there is False:
                _report(f"{uri} ({name}) is gone, so {_RECOMPUTED}")
            return False
        size, crc32c = path.stat().st_size, _crc32c(path)
        if (size, crc32c) != (file.size, file.crc32c):
            wanted, found = (
                f"{one:,} bytes with CRC32C {two:08x}" for one, two in ((file.size, file.crc32c), (size, crc32c))
            )
            _report(f"{uri} ({name}) is damaged, so {_RECOMPUTED}: expected {wanted}, found {found}")
            return False
        self.fetched.append(size)
        return True

    def _ask(self, ask: Callable[[], _Answer], failure: str) -> _Answer | None:
        """The answer of the store; None if there is no such file, or if the store fails, which is then reported."""
        if self.failures >= MAX_FAILURES:
            return None
        try:
            answer = ask()
        except FileNotFoundError:
            return None
        except OSError as error:
            with self.counting:
                self.failures += 1
                failures = self.failures
            if failures <= MAX_FAILURES:
                _report(f"{failure}: {error}")
            if failures == MAX_FAILURES:
                _report(f"the object store failed {MAX_FAILURES} times in a row: this pod continues without it")
            return None
        with self.counting:
            if self.failures < MAX_FAILURES:
                self.failures = 0
        return answer


_RECOMPUTED = "it is recomputed from the data"


def _in_parallel(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """The results in the order of the items. No thread is left behind: ExampleGen's process may fork afterwards."""
    if not items:
        return []
    with ThreadPoolExecutor(min(PARALLEL_COPIES, len(items))) as pool:
        return list(pool.map(function, items))


def _described(file: Path) -> PartFile:
    digest, crc32c = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
            crc32c = google_crc32c.extend(crc32c, block)
    return PartFile(digest.hexdigest(), file.stat().st_size, crc32c)


def _crc32c(file: Path) -> int:
    """The checksum of a file, at 3 to 9 GB a second."""
    value = 0
    with file.open("rb") as stream:
        while block := stream.read(CHUNK):
            value = google_crc32c.extend(value, block)
    return value


def _amount(sizes: Sequence[int]) -> str:
    return f"{plural(len(sizes), 'file')} ({sum(sizes):,} bytes)"


def _report(text: str) -> None:
    logger.info(f"spans: {text}")
