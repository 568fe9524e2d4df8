"""What is kept of spans, in the object store: a pod's disk goes with the pod, and the next night goes on from it.

    <pipeline root>/<pipeline name>/spans/<key>/<part>/<SHA-256>   a file of a part, by its content
                                          <key>/<part>.json        which files make up the part: written last
                                          runs/<run>/<task>.json   the keys that a run used, for `headrace prune`
                                          seen.json                size and mark of each file when it was last read

A part is trusted only as far as its list goes: each file must have the size and the CRC32C that stand there. So an
upload that was broken off is never seen, and of two runs that keep the same part at once either one's list is right, as
files of other content have other names. A store that fails costs time, and no run: what it does not give is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
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

from headrace.pipeline.kubeflow.store import CHUNK, Store

AT_ONCE = 16
"""Files that are copied at the same time."""
FAULTS = 3
"""After so many failures of the store in a row it is not asked again by this pod."""
LIST = ".json"
RUNS = "runs"

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Item:
    """A file of a part. `object`: its name in the store; `size`: bytes; `crc32c`: of its content."""

    object: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: int
    crc32c: int


Items = dict[str, Item]
"""The files of a part by their path in the folder of the span."""
_INSIDE = re.compile(r"(?!\.)[\w.@+=-]+(/(?!\.)[\w.@+=-]+)*")
_ITEMS: TypeAdapter[Items] = TypeAdapter(Items)
_KEYS: TypeAdapter[list[str]] = TypeAdapter(list[str])


def items_in(text: str) -> Items:
    """The files that a part's list names. Raises ValueError for a text that is none, or names a file elsewhere."""
    found = _ITEMS.validate_json(text, strict=True)
    if odd := next((name for name in found if not _INSIDE.fullmatch(name)), None):
        raise ValueError(f"{odd!r} is not a path below the folder of a span")
    return found


def keys_in(text: str) -> list[str]:
    """The keys that a run used. Raises ValueError for a text that is no such list."""
    return _KEYS.validate_json(text, strict=True)


@dataclass
class SpanObjects:
    """The `headrace.components.example_gen.shared_spans.SharedSpans` of a pod. `folder`: the store of spans on its
    disk; `uri`: what stands for that in the object store; `user`: `<run>/<task>`.
    """

    folder: Path
    uri: str
    store: Store
    user: str
    known: dict[tuple[str, str], Items] = field(default_factory=dict)
    """The parts that are in the object store, as this pod read or wrote them: by key and part."""
    used: set[str] = field(default_factory=set)
    got: list[int] = field(default_factory=list)
    put: list[int] = field(default_factory=list)
    """Bytes of each file that was fetched, and of each that was put there."""
    faults: int = 0
    """Of the store, one after the other."""
    counting: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while `faults` changes: up to `AT_ONCE` threads ask the store."""

    @contextlib.contextmanager
    def open(self) -> Iterator[SpanObjects]:
        """Afterwards, note what was used. Before, nothing asks the store: a component may have to fork first."""
        yield self
        if self.used:
            note = f"{self.uri}/{RUNS}/{self.user}{LIST}"
            self._ask(lambda: self.store.write(note, json.dumps(sorted(self.used))), f"{note} cannot be written")
            print(f"spans: fetched {_amount(self.got)} from {self.uri}, kept {_amount(self.put)} there", flush=True)

    def fetch(self, keys: Iterable[str], part: str) -> list[str]:
        """Have that part of spans in the folder; the keys of those that are there, whole."""
        wanted = list(dict.fromkeys(keys))
        self.used.update(wanted)
        lists = zip(wanted, _at_once(partial(self._list, part=part), wanted), strict=True)
        found = {key: items for key, items in lists if items is not None}
        jobs = [(key, name, item) for key, items in found.items() for name, item in items.items()]
        whole = _at_once(partial(self._fetch, part=part), jobs)
        for key in {key for (key, *_), is_whole in zip(jobs, whole, strict=True) if not is_whole}:
            for name in found.pop(key):
                (self.folder / key / name).unlink(missing_ok=True)
        self.known.update({(key, part): items for key, items in found.items()})
        return list(found)

    def publish(self, key: str, part: str, files: Sequence[Path]) -> None:
        """Put these files of a span's folder there, then the list of them; nothing where all of it is there already."""
        self.used.add(key)
        known = self.known.get((key, part), {})
        items = {str(file.relative_to(self.folder / key)): _item(file) for file in files}
        if not items or items == known:
            return
        new = {name: item for name, item in items.items() if known.get(name) != item}
        where = f"{self.uri}/{key}/{part}"
        if self._ask(partial(self._put, key, part, items, new), f"{where} is not kept, so the next run makes it again"):
            self.known[key, part] = items
            self.put += [item.size for item in new.values()]

    def fetch_file(self, name: str) -> None:
        """Have a file about all spans in the folder, as it was published last."""
        uri = f"{self.uri}/{name}"
        self._ask(lambda: self.store.get(uri, self.folder / name), f"{uri} cannot be read")

    def publish_file(self, name: str) -> None:
        """Offer a file about all spans to other machines, in the place of what was there."""
        uri = f"{self.uri}/{name}"
        self._ask(lambda: self.store.put(self.folder / name, uri), f"{uri} cannot be written")

    def _put(self, key: str, part: str, items: Items, new: Items) -> bool:
        folder, where = self.folder / key, f"{self.uri}/{key}/{part}"
        _at_once(lambda name: self.store.put(folder / name, f"{where}/{new[name].object}"), list(new))
        self.store.write(f"{where}{LIST}", json.dumps({name: asdict(item) for name, item in items.items()}))
        return True

    def _list(self, key: str, part: str) -> Items | None:
        """The files of a part; None where it is not kept."""
        uri = f"{self.uri}/{key}/{part}{LIST}"
        text = self._ask(lambda: self.store.text(uri), f"{uri} cannot be read, so {_AGAIN}")
        try:
            return None if text is None else items_in(text)
        except ValueError as error:
            _tell(f"{uri} is damaged, so {_AGAIN}: {str(error).splitlines()[0]}")
            return None

    def _fetch(self, job: tuple[str, str, Item], part: str) -> bool:
        """Whether a file of a part is in the folder now, as it was written."""
        key, name, item = job
        uri, path = f"{self.uri}/{key}/{part}/{item.object}", self.folder / key / name
        there = self._ask(lambda: self.store.get(uri, path), f"{uri} ({name}) cannot be read, so {_AGAIN}")
        if not there:
            if there is False:
                _tell(f"{uri} ({name}) is gone, so {_AGAIN}")
            return False
        size, crc32c = path.stat().st_size, _crc32c(path)
        if (size, crc32c) != (item.size, item.crc32c):
            wanted, came = (
                f"{one:,} bytes with CRC32C {two:08x}" for one, two in ((item.size, item.crc32c), (size, crc32c))
            )
            _tell(f"{uri} ({name}) is damaged, so {_AGAIN}: {wanted} were written, {came} are there")
            return False
        self.got.append(size)
        return True

    def _ask(self, ask: Callable[[], _Answer], told: str) -> _Answer | None:
        """What the store answers; None where there is no such file, and where it fails, of which `told` is said."""
        if self.faults >= FAULTS:
            return None
        try:
            answer = ask()
        except FileNotFoundError:
            return None
        except OSError as error:
            with self.counting:
                self.faults += 1
                faults = self.faults
            if faults <= FAULTS:
                _tell(f"{told}: {error}")
            if faults == FAULTS:
                _tell(f"the object store failed {FAULTS} times in a row: this pod goes on without it")
            return None
        with self.counting:
            if self.faults < FAULTS:
                self.faults = 0
        return answer


_AGAIN = "it is made again from the data"


def _at_once(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """The results in the order of the tasks. No thread is left: ExampleGen's process may fork afterwards."""
    if not tasks:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(tasks))) as pool:
        return list(pool.map(function, tasks))


def _item(file: Path) -> Item:
    digest, crc32c = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
            crc32c = google_crc32c.extend(crc32c, block)
    return Item(digest.hexdigest(), file.stat().st_size, crc32c)


def _crc32c(file: Path) -> int:
    """3 to 9 GB a second."""
    value = 0
    with file.open("rb") as stream:
        while block := stream.read(CHUNK):
            value = google_crc32c.extend(value, block)
    return value


def _amount(sizes: Sequence[int]) -> str:
    return f"{len(sizes)} file{'' if len(sizes) == 1 else 's'} ({sum(sizes):,} bytes)"


def _tell(text: str) -> None:
    print(f"spans: {text}", flush=True)
