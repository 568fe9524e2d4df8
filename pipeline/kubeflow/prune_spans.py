"""What the object store keeps of spans that no run of late has used, and taking it away.

found = plan(store, "s3://bucket/root/taxi/spans", keep=10, older_than=time.time(), now=time.time())
remove(store, found)

Needed is what the newest runs used, so all that the next one will find there: the spans of its window but the new one.
Nothing goes that was written within the last day: a run that is in progress may have put it there, and not yet said
that it uses it. A run that looks for a span while it is removed reads it again from the data, and says so.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.configs.errors import RunError
from headrace.pipeline.kubeflow.span_objects import LIST, RUNS, keys_in
from headrace.pipeline.kubeflow.store import Found, Store

GRACE = 86_400.0
"""Seconds for which nothing is removed that was written, however few runs are kept."""


@dataclass(frozen=True)
class RemotePlan:
    """`uri`: the folder of kept spans; `runs`: how many have used some; `kept_runs`: those whose spans stay, the newest
    last; `spans`: the keys that go, with their objects; `notes`: which spans the other runs used.
    """

    uri: str
    runs: int
    kept_runs: Sequence[str]
    spans: Mapping[str, Mapping[str, Found]] = field(default_factory=dict)
    notes: Mapping[str, Found] = field(default_factory=dict)
    before: float = 0.0
    """What was written later than this, in seconds of Unix time, stays."""

    @cached_property
    def freed(self) -> int:
        """Bytes."""
        return sum(found.size for found in self._found())

    def _found(self) -> Iterator[Found]:
        for objects in (*self.spans.values(), self.notes):
            yield from objects.values()


def plan(store: Store, uri: str, keep: int, older_than: float, now: float) -> RemotePlan:
    """What goes: all but what the newest `keep` runs used, runs that used something at `older_than` (Unix seconds) or
    later, and whatever was written in the last day before `now`. RunError if a note of what a run used cannot be read.
    """
    spans, notes = _there(store, uri)
    runs = {run: max(found.written for found in own.values()) for run, own in notes.items()}
    order = sorted(runs, key=lambda run: (runs[run], run))
    if len(order) <= keep:
        return RemotePlan(uri, len(order), order)
    since = min(older_than, now - GRACE, runs[order[-keep]])
    kept = [run for run in order if runs[run] >= since]
    needed = {key for run in kept for name in notes[run] for key in _used(store, f"{uri}/{name}")}
    doomed = {
        key: objects
        for key, objects in spans.items()
        if key not in needed and max(found.written for found in objects.values()) < since
    }
    old = {name: found for run in order if run not in kept for name, found in notes[run].items()}
    return RemotePlan(uri, len(order), kept, doomed, old, since)


def remove(store: Store, found: RemotePlan) -> None:
    """Take away what goes: of each part its list first, so that no reader trusts what is half gone; then the notes of
    runs, so that what is left when this is interrupted is found again.
    """
    for key, objects in found.spans.items():
        now = store.listing(f"{found.uri}/{key}")
        if any(one.written >= found.before for one in now.values()):  # a run has just made use of it
            continue
        for name in sorted({*objects, *(f"{key}/{one}" for one in now)}, key=lambda name: not name.endswith(LIST)):
            store.remove(f"{found.uri}/{name}")
        store.remove_if_empty(f"{found.uri}/{key}")
    for name in found.notes:
        store.remove(f"{found.uri}/{name}")
    for run in sorted({name.rpartition("/")[0] for name in found.notes}):
        store.remove_if_empty(f"{found.uri}/{run}")


def _there(store: Store, uri: str) -> tuple[dict[str, dict[str, Found]], dict[str, dict[str, Found]]]:
    """The objects of each key, and of each run; by their path below `uri`."""
    spans: dict[str, dict[str, Found]] = defaultdict(dict)
    notes: dict[str, dict[str, Found]] = defaultdict(dict)
    for name, found in store.listing(uri).items():
        first, _, rest = name.partition("/")
        if first == RUNS and name.endswith(LIST):
            notes[rest.partition("/")[0]][name] = found
        elif rest and first != RUNS:
            spans[first][name] = found
    return spans, notes


def _used(store: Store, uri: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        try:
            return keys_in(store.text(uri))
        except ValueError as error:
            raise RunError(
                f"{uri}: which spans this run used cannot be read: {str(error).splitlines()[0]}\n"
                "  Remove that object: the spans that newer runs used stay all the same."
            ) from None
    return []
