"""Removal of cached spans from the object store that no recent run has used.

found = plan(store, "s3://bucket/root/taxi/spans", keep=10, older_than=time.time(), now=time.time())
remove(store, found)

The spans that the newest runs used stay, and so does everything that the next run will find there: the spans of its
window except the new one. Nothing that was written within the last day is removed, because a run in progress may have
stored it and not yet recorded that it uses it. A run that asks for a span while it is removed reads it again from the
data, and logs that. Of the spans that stay, objects go that no list names, as a killed pod leaves them.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.pod.spans import LIST, RUNS, parse_keys, parse_list
from headrace.pipeline.kubeflow.store import Store, StoredObject

GRACE = 86_400.0
"""Seconds for which nothing is removed after it was written, however few runs are to stay."""
_OBJECT_DEPTH = 2
"""Slashes in the name of an object of a part, `<key>/<part>/<SHA-256>`."""


@dataclass(frozen=True)
class SpanPrunePlan:
    """What will be removed.

    uri: the folder of cached spans; runs: how many runs have used spans; kept_runs: those whose spans stay, the newest
    last; spans: the objects of each key to remove; unlisted: of each other key, those that no list names; notes: the
    records of which spans the other runs used.
    """

    uri: str
    runs: int
    kept_runs: Sequence[str]
    spans: Mapping[str, Mapping[str, StoredObject]] = field(default_factory=dict)
    notes: Mapping[str, StoredObject] = field(default_factory=dict)
    unlisted: Mapping[str, Mapping[str, StoredObject]] = field(default_factory=dict)
    before: float = 0.0
    """Objects written at this Unix time or later stay."""

    @cached_property
    def freed(self) -> int:
        """Bytes."""
        return sum(one.size for one in self._objects())

    def _objects(self) -> Iterator[StoredObject]:
        for objects in (*self.spans.values(), *self.unlisted.values(), self.notes):
            yield from objects.values()


def plan(store: Store, uri: str, keep: int, older_than: float, now: float) -> SpanPrunePlan:
    """Everything except what the newest `keep` runs used, runs that used spans at `older_than` (Unix seconds) or later,
    and whatever was written in the day before `now`.

    Raises RunError if the record of which spans a run used cannot be read.
    """
    spans, notes = _objects_below(store, uri)
    runs = {run: max(one.written for one in own.values()) for run, own in notes.items()}
    order = sorted(runs, key=lambda run: (runs[run], run))
    if len(order) <= keep:
        return SpanPrunePlan(uri, len(order), order)
    since = min(older_than, now - GRACE, runs[order[-keep]])
    kept = [run for run in order if runs[run] >= since]
    needed = {key for run in kept for name in notes[run] for key in _used_keys(store, f"{uri}/{name}")}
    doomed = {
        key: objects
        for key, objects in spans.items()
        if key not in needed and max(one.written for one in objects.values()) < since
    }
    old = {name: one for run in order if run not in kept for name, one in notes[run].items()}
    stay = {key: objects for key, objects in spans.items() if key not in doomed}
    unlisted = {key: found for key, objects in stay.items() if (found := _unlisted(store, uri, objects, since))}
    return SpanPrunePlan(uri, len(order), kept, doomed, old, unlisted, since)


def _unlisted(store: Store, uri: str, objects: Mapping[str, StoredObject], since: float) -> dict[str, StoredObject]:
    """The objects of a key, written before `since`, that the list of their part does not name, or whose part has none.
    Those of a part with a damaged list stay, as its own pods deal with it.
    """
    parts: dict[str, dict[str, StoredObject]] = defaultdict(dict)
    for name, one in objects.items():
        if name.count("/") == _OBJECT_DEPTH:
            parts[name.rpartition("/")[0]][name] = one
    found: dict[str, StoredObject] = {}
    for part, own in parts.items():
        with contextlib.suppress(ValueError):
            text = store.text_if_there(f"{uri}/{part}{LIST}")
            listed = {file.object for file in parse_list(text).values()} if text is not None else set[str]()
            found |= {name: one for name, one in own.items() if name.rpartition("/")[2] not in listed}
    return {name: one for name, one in found.items() if one.written < since}


def remove(store: Store, found: SpanPrunePlan) -> None:
    """Remove what the plan lists.

    The list of each part goes first, so that no reader trusts a part that is half removed. The records of runs go last,
    so that an interrupted removal is completed by the next one.
    """
    for key, objects in found.spans.items():
        now = store.listing(f"{found.uri}/{key}")
        if any(one.written >= found.before for one in now.values()):  # a run has used it since
            continue
        for name in sorted({*objects, *(f"{key}/{one}" for one in now)}, key=lambda name: not name.endswith(LIST)):
            store.remove(f"{found.uri}/{name}")
        store.remove_if_empty(f"{found.uri}/{key}")
    for key, objects in found.unlisted.items():
        now = store.listing(f"{found.uri}/{key}")
        for name in objects:
            if (one := now.get(name.partition("/")[2])) is not None and one.written < found.before:  # not stored again
                store.remove(f"{found.uri}/{name}")
    for name in found.notes:
        store.remove(f"{found.uri}/{name}")
    for run in sorted({name.rpartition("/")[0] for name in found.notes}):
        store.remove_if_empty(f"{found.uri}/{run}")


def _objects_below(
    store: Store, uri: str
) -> tuple[dict[str, dict[str, StoredObject]], dict[str, dict[str, StoredObject]]]:
    """The objects of each key, and those of each run, by their path below `uri`."""
    spans: dict[str, dict[str, StoredObject]] = defaultdict(dict)
    notes: dict[str, dict[str, StoredObject]] = defaultdict(dict)
    for name, one in store.listing(uri).items():
        first, _, rest = name.partition("/")
        if first == RUNS and name.endswith(LIST):
            notes[rest.partition("/")[0]][name] = one
        elif rest and first != RUNS:
            spans[first][name] = one
    return spans, notes


def _used_keys(store: Store, uri: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        try:
            return parse_keys(store.text(uri))
        except ValueError as error:
            raise RunError(
                f"{uri}: the record of the spans that this run used cannot be read: {str(error).splitlines()[0]}\n"
                "  Remove that object; the spans that newer runs used stay."
            ) from None
    return []
