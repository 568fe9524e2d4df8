"""A log of events in an object store, to which runs that end at the same time add without losing any.

    blessed/<time>-<kind>-<digest>.json    an event, with a checksum
    blessed/before.json                    what `blessed.json` said before the first event, if it was there
    blessed.json                           what all events add up to

Pods have no lock in common, and not every object store supports conditional writes. If two runs that end together both
read `blessed.json`, changed it and wrote it, the later one would undo what the earlier one did. So each event is an
object of its own, which nobody writes over, and the state is what they add up to in the order of their names, which is
that of their times. An event without a time of its own comes after all that its pod has read, whatever its clock says.

The file next to the folder is for people and tools, and saves readers most of the objects. It has a digest of the names
of the first objects, up to the last one that it includes, so a reader adds those that follow. If the digest fits
nothing, because another run wrote an earlier event meanwhile, or somebody removed an object, or if the file is damaged,
a reader adds up all objects. So it does not matter which state of the file was written last.

On a volume, pods change the file itself under a lock (common/locks.py), and there are no objects. Paths in events and
states are relative to the pipeline's folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from headrace.common.checksums import with_checksum, without_checksum
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.common.records import parse_record
from headrace.pipeline.kubeflow.pod.paths import sibling
from headrace.pipeline.kubeflow.store import Store

logger = logging.getLogger(__name__)

State = TypeVar("State", bound=BaseModel)
Record = TypeVar("Record", bound=BaseModel)

NO_CLOCK = datetime.fromtimestamp(0, UTC)
_NAME = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT[\d:.]+\+00:00)-(?P<kind>[a-z]+)-[0-9a-f]{16}\.json")
_INCLUDES = "includes"
"""Field of the file with the SHA-256 of the names that it includes."""
_BEFORE = "before.json"
"""The object with what the file said before the first event, as one that was copied from a volume."""
_READERS = 16
"""Objects that are read at a time."""


@dataclass(frozen=True)
class LoggedEvent(Generic[Record]):
    """What changed. kind: a word; time: when, in ISO 8601; "" to come after all that is known."""

    kind: str
    record: Record
    time: str = ""


@dataclass(frozen=True)
class EventLog(Generic[State, Record]):
    """A kind of log.

    Args:
        folder: the folder of the objects, next to the file.
        state: the class of what they add up to. Without arguments it is the state before all events.
        record: the class of an event's content.
        what: what an object is, for messages.
        way_out: what follows if a damaged object is removed.
        news: returns the events that lead from one state to another.
        after: returns the state after an event of a kind.
    """

    folder: str
    state: type[State]
    record: type[Record]
    what: str
    way_out: str
    news: Callable[[State, State], Iterable[LoggedEvent[Record]]]
    after: Callable[[State, str, Record], State]

    def read(self, uri: str, store: Store) -> State:
        """The state. uri: that of the file in the store.

        Raises RunError if an object is damaged, or the file if there are no objects.
        """
        if names := self._names(uri, store):
            return self._sum(uri, names, store)
        text = store.text_if_there(uri)
        return self.state() if text is None else self._parsed(uri, text)

    def fetch(self, uri: str, path: Path, store: Store) -> State:
        """Write the state to `path`, or remove that if there is none yet, and return it; as `read` otherwise."""
        state = self.read(uri, store)
        if state == self.state():
            path.unlink(missing_ok=True)
        else:
            write_text(path, with_checksum(state.model_dump_json()))
        return state

    def publish(self, uri: str, path: Path, store: Store, known: State, now: datetime = NO_CLOCK) -> None:
        """Write an object for each event that led from `known` to the file at `path`; then the file, with others' too.

        now: the earliest time of events without one.
        """
        news = list(self.news(known, self._parsed(str(path), path.read_bytes()))) if path.exists() else []
        if not news:
            return
        folder, names = sibling(uri, self.folder), self._names(uri, store)
        if not names and known != self.state():
            store.write(f"{folder}/{_BEFORE}", with_checksum(known.model_dump_json()))
        for event in news:
            text = with_checksum(event.record.model_dump_json())
            names.append(_name(event, text, names, now))
            store.write(f"{folder}/{names[-1]}", text)
        names = self._names(uri, store)
        state = self._sum(uri, names, store)
        write_text(path, with_checksum(state.model_dump_json()))
        content = {**json.loads(state.model_dump_json()), _INCLUDES: [*_digests(names)][-1]}
        store.write(uri, with_checksum(json.dumps(content)))

    def _names(self, uri: str, store: Store) -> list[str]:
        """The objects, in the order in which they are added up."""
        folder = sibling(uri, self.folder)
        there = store.children(folder)
        for stray in (name for name in there if name != _BEFORE and not _NAME.fullmatch(name)):
            logger.warning(f"{folder}/{stray} is not {self.what}; it is ignored")
        return [*({_BEFORE} & {*there}), *filter(_NAME.fullmatch, there)]

    def _sum(self, uri: str, names: Sequence[str], store: Store) -> State:
        state, number = self._known(uri, names, store)
        objects = [f"{sibling(uri, self.folder)}/{name}" for name in names[number:]]
        with ThreadPoolExecutor(_READERS) as threads:
            for name, text in zip(objects, threads.map(store.text_if_there, objects), strict=True):
                if text is None:
                    continue
                if name.endswith(f"/{_BEFORE}"):
                    state = self._parsed(name, text)
                else:
                    state = self.after(state, name.rsplit("-", 2)[1], self._event(name, text))
        return state

    def _event(self, name: str, text: str) -> Record:
        try:
            return parse_record(self.record, text)
        except ValueError as error:
            raise RunError(f"{name}: {self.what} is damaged: {error}\n  Remove the object; {self.way_out}") from None

    def _known(self, uri: str, names: Sequence[str], store: Store) -> tuple[State, int]:
        """The state in the file, and how many of the objects it includes."""
        try:
            content, digest = _split(store.text(uri))
            if number := _digests(names).get(digest, 0):
                return parse_record(self.state, content), number
        except FileNotFoundError:
            pass
        except ValueError as error:
            logger.warning(f"{uri} is damaged: {error}. It is read from the objects in {self.folder}/ instead")
        return self.state(), 0

    def _parsed(self, name: str, text: str | bytes) -> State:
        try:
            return parse_record(self.state, _split(text)[0])
        except ValueError as error:
            raise RunError(
                f"{name} is damaged: {error}\n  Restore it from a backup. If you edited it yourself, remove its"
                " `checksum`. Or remove the file, and nothing that it says is known any more."
            ) from None


def _split(text: str | bytes) -> tuple[str, str]:
    """What a file says, without the digest of the names that it includes; and that, or "". Raises ValueError."""
    content = json.loads(without_checksum(text))
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    digest = content.pop(_INCLUDES, "")
    return json.dumps(content), str(digest)


def _digests(names: Iterable[str]) -> dict[str, int]:
    """The digest of the first name, of the first two, and so on, with their number."""
    total, found = hashlib.sha256(), {}
    for number, name in enumerate(names, 1):
        total.update(f"{name}\n".encode())
        found[total.hexdigest()] = number
    return found


def _name(event: LoggedEvent[Record], text: str, names: Sequence[str], now: datetime) -> str:
    """The name of an event's object. names: those that are there."""
    if event.time:
        time = datetime.fromisoformat(event.time)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    else:
        times = (datetime.fromisoformat(match["time"]) for name in names if (match := _NAME.fullmatch(name)))
        time = max([now, *(one + timedelta(microseconds=1) for one in times)])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{time.isoformat(timespec='microseconds')}-{event.kind}-{digest}.json"
