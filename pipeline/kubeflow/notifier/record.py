"""What sweeps remember, `notified.json` next to the runs of a pipeline, and that only one sweep is in progress.

with sweeping(store, "s3://bucket/root/taxi") as (prompt, lock):
    known = read_record(prompt, "s3://bucket/root/taxi")
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from pydantic import BaseModel

from headrace.common import store_lock
from headrace.common.checksums import with_checksum
from headrace.common.store_lock import HeldLock
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.record import FILE_NAME, Delivery

CLAIMS = "notifying"
"""The folder of the lock."""
PATIENCE = 60.0
"""Seconds to wait for another sweep: longer than the claim of one that was killed counts."""


class End(BaseModel, frozen=True, extra="forbid"):
    """One end of a run. finished: Unix seconds; deliveries: by receiver, without those that wanted nothing of it."""

    finished: float
    deliveries: dict[str, Delivery] = {}

    @property
    def missed(self) -> frozenset[str]:
        """The receivers that were not reached."""
        return frozenset(name for name, one in self.deliveries.items() if one.error is not None)


class SweepRecord(BaseModel, frozen=True, extra="forbid"):
    """What sweeps have done. Times are Unix seconds.

    since: of the runs that ended before, nobody is to be told any more; ends: those after it that were told, by
    `end_key`; last_success: when the newest successful run ended.
    """

    since: float
    ends: dict[str, End] = {}
    last_success: float | None = None

    def with_end(self, key: str, end: End) -> SweepRecord:
        """The record after an end was told."""
        return self.model_copy(update={"ends": {**self.ends, key: end}})

    def with_success(self, finished: float) -> SweepRecord:
        """The record after a successful run."""
        return self.model_copy(update={"last_success": max(finished, self.last_success or finished)})

    def swept(self, since: float) -> SweepRecord:
        """The record after a whole sweep. since: what ended before is settled."""
        since = max(since, self.since)
        return self.model_copy(
            update={"since": since, "ends": {key: end for key, end in self.ends.items() if end.finished >= since}}
        )


def read_record(store: Store, home: str) -> SweepRecord | None:
    """The record in the pipeline's folder; None if there is none. Raises RunError if it is damaged."""
    uri = f"{home}/{FILE_NAME}"
    try:
        way_out = "receivers are then notified again of what ended within the last day."
        return store.record(uri, SweepRecord, "the record of who was notified", way_out)
    except FileNotFoundError:
        return None


def write_record(store: Store, home: str, record: SweepRecord) -> None:
    """Replace the record in the pipeline's folder."""
    store.write(f"{home}/{FILE_NAME}", with_checksum(record.model_dump_json()))


def sweeping(store: Store, home: str) -> AbstractContextManager[tuple[Store, HeldLock]]:
    """Hold the right to sweep, as of `Store.held`. Raises LockedError if another sweep has it for too long."""
    return store.held(f"{home}/{CLAIMS}/sweep", replace(store_lock.USUAL, patience=PATIENCE))


def missed_since(ends: Mapping[str, End], earliest: float) -> list[float]:
    """When those runs ended of which a receiver is still to be told. earliest: older ones are given up."""
    return [end.finished for end in ends.values() if end.missed and end.finished >= earliest]
