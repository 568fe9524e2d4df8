"""What sweeps remember, `notified.json` next to the runs of a pipeline, and that only one sweep is in progress.

    with claimed(store, "s3://bucket/root/taxi/notifying") as claim:
        known = read_record(store, "s3://bucket/root/taxi/notified.json")

Not every object store supports conditional writes. A sweep writes an object of its own and then lists all of them: of
two at once, at least the later one finds the other's, and then withdraws its own and waits. So a store whose listings
show what was written before lets one sweep at most continue.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from headrace.common.checksums import with_checksum
from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.record import FILE_NAME, Delivery

CLAIMS = "notifying"
"""The folder of the objects of sweeps in progress."""
LEASE = 900.0
"""Seconds after which a sweep that has not renewed its claim counts as killed, by the times of the store."""
WAITS = (1.0, 2.0, 4.0)
"""Seconds, of which up to half is left out by chance, before a sweep that found another one tries again."""


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


class BusyError(RunError):
    """Another sweep of the pipeline is in progress."""


@dataclass(frozen=True)
class Claim:
    """The right to sweep."""

    store: Store
    folder: str
    name: str

    def renew(self) -> None:
        """Show that this sweep is alive. Raises BusyError if it took so long that another one took its place."""
        if not self.store.exists(f"{self.folder}/{self.name}"):
            raise BusyError(f"{self.folder}: this sweep took so long that another one took its place")
        self._write()

    def is_alone(self) -> bool:
        """Write the claim; whether there is no other. Claims of sweeps that were killed are removed."""
        self._write()
        found = self.store.listing(self.folder)
        own = found.pop(self.name, None)
        killed = [name for name, one in found.items() if own is not None and own.written - one.written > LEASE]
        for name in killed:
            self.store.remove(f"{self.folder}/{name}")
        return own is not None and not found.keys() - {*killed}

    def withdraw(self) -> None:
        """Let others sweep."""
        self.store.remove(f"{self.folder}/{self.name}")

    def _write(self) -> None:
        self.store.write(f"{self.folder}/{self.name}", "a sweep of `headrace notify --kubeflow` is in progress\n")


@contextlib.contextmanager
def claimed(store: Store, folder: str, sleep: Callable[[float], None] = time.sleep) -> Iterator[Claim]:
    """Hold the right to sweep. Raises BusyError if another sweep holds it for longer than it makes sense to wait."""
    claim = Claim(store, folder, secrets.token_hex(8))
    try:
        for wait in WAITS:
            if claim.is_alone():
                break
            claim.withdraw()
            sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - so that two do not meet again
        else:
            minutes = LEASE / 60
            raise BusyError(
                f"{folder}: another sweep is in progress and tells the receivers; if it was killed,"
                f" one that starts in {minutes:.0f} minutes takes its place"
            )
        yield claim
    finally:
        claim.withdraw()


def missed_since(ends: Mapping[str, End], earliest: float) -> list[float]:
    """When those runs ended of which a receiver is still to be told. earliest: older ones are given up."""
    return [end.finished for end in ends.values() if end.missed and end.finished >= earliest]
