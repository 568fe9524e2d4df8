"""A sweep: the runs that have ended since the last one, each told once to the receivers that want it.

for notice in sweep(session, open_results(config)):
    print(notice)

A receiver that was not reached is tried again by the next sweeps, for a day. What was told is recorded after each run:
a sweep that is killed between sending and recording makes the next one send the same event again, with the same id.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.common.errors import HeadraceError, ServerError
from headrace.common.store_lock import HeldLock
from headrace.configs.schema.notify import Receiver
from headrace.pipeline.kubeflow.notifier.ended import end_key, key_at, read_ended
from headrace.pipeline.kubeflow.notifier.record import (
    End,
    SweepRecord,
    missed_since,
    read_record,
    sweeping,
    write_record,
)
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.tasks import ENDED, exit_group
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.deliver import Outside
from headrace.pipeline.notify.event import timestamp
from headrace.pipeline.notify.record import Delivery
from headrace.pipeline.notify.send import DeliveryOutcome, messages, report, send

DAY = 86_400.0
"""Seconds for which a receiver that is not reached is tried again, and after which the first sweep takes no end for
news."""
WEEK = 7 * DAY
"""Seconds after which an exit handler forgets what was told, in case no sweep does."""
MARGIN = 3_600.0
"""Seconds before the last sweep within which ends are looked for: the server may learn of one late, and its clock may
differ."""


@dataclass(frozen=True)
class Notice:
    """One end of a run, and what became of the messages about it. error: why its results could not be read."""

    run: str
    happened: Sequence[str]
    outcomes: Sequence[DeliveryOutcome] = ()
    error: str | None = None

    @property
    def failed(self) -> bool:
        return self.error is not None or any(one.error is not None for one in self.outcomes)

    def __str__(self) -> str:
        receivers = ", ".join(one.receiver for one in self.outcomes if one.error is None)
        what = (
            self.error
            or f"{', '.join(self.happened) or 'ended'}: {f'told {receivers}' if receivers else 'told nobody'}"
        )
        return f"run       {self.run}  {what}"


def sweep(
    session: Session, store: Store, outside: Outside | None = None, now: Callable[[], float] = time.time
) -> Iterator[Notice]:
    """Tell the receivers of what has ended, the earliest first.

    Raises LockedError if another sweep is in progress, RunError if the record is damaged or the right to sweep was
    lost, ServerError, and OSError if the store fails.
    """
    with start_sweep(session, store, outside, now) as work:
        began, before = now(), work.written
        ended = session.ended_since(work.known.since)
        newest = next((run.run_id for run in reversed(ended) if not runs.is_cancelled(run)), None)
        unreadable = []
        for run in ended:
            if (notice := work.tell(run, metrics=run.run_id == newest)) is not None:
                if notice.error is not None:
                    unreadable.append(run.finished_at.timestamp())
                yield notice
        unsettled = [*missed_since(work.known.ends, began - DAY), *(at for at in unreadable if at >= began - DAY)]
        after = work.known.swept(min([began - MARGIN, *unsettled]))
        if before is None or after.ends != before.ends or after.since > before.since + MARGIN:
            work.write(after)


@contextlib.contextmanager
def start_sweep(session: Session, store: Store, outside: Outside | None, now: Callable[[], float]) -> Iterator[Sweep]:
    """Hold the right to sweep, with what was told before. Raises LockedError if another sweep has it for too long."""
    home = _home(session)
    with sweeping(store, home) as (prompt, lock):
        written = read_record(prompt, home)
        known = written or SweepRecord(since=now() - DAY)
        yield Sweep(session, store, outside or Outside.of_process(), prompt, lock, known, written)


def _home(session: Session) -> str:
    """The folder of the record and the claims: one of its own for a pipeline that only predicts."""
    return f"{session.home()}/{session.pipeline}" if session.config.only_predicts else session.home()


@dataclass
class Sweep:
    """A sweep in progress.

    prompt: the store for the record; known: what it and those before have done; written: what those before have.
    """

    session: Session
    store: Store
    outside: Outside
    prompt: Store
    lock: HeldLock
    known: SweepRecord
    written: SweepRecord | None

    def tell(self, run: Any, *, metrics: bool, reread: bool = True) -> Notice | None:
        """Tell of one end whoever is still to be told, and record it; None if nobody is.

        metrics: whether receivers of metrics get them, which are those of the newest run alone; reread: whether the
        run is from a list, so without its tasks, and may have been retried since.
        """
        finished, name = run.finished_at.timestamp(), run.display_name
        if run.state == "SUCCEEDED":
            self.known = self.known.with_success(finished)
        try:
            key = self._key(run)
        except ServerError as error:
            return _untold(name, error)
        earlier = self.known.ends.get(key)
        if earlier is not None and earlier.finished < finished:  # an exit handler told it before it was over
            self.known = self.known.with_end(key, earlier.model_copy(update={"finished": finished}))
        receivers = {
            receiver: settings
            for receiver, settings in self.session.config.notify.items()
            if (earlier is None or receiver in earlier.missed) and (metrics or isinstance(settings, Receiver))
        }
        if earlier is not None and not receivers:
            return None
        try:
            now = runs.get_run(self.session.server, run.run_id) if reread else run
            if now.finished_at != run.finished_at or now.state not in ENDED:  # it was retried in the meantime
                return None
            event = replace(read_ended(self.session, now, self.store), end=key)
        except (OSError, HeadraceError) as error:  # the next sweep tries again; meanwhile the others are told
            return _untold(name, error)
        found = messages(receivers, event, (), self.known.last_success)
        self.lock.check()
        outcomes = send(receivers, found, self.outside)
        at = timestamp(time.time())
        new = {one.receiver: Delivery(found[one.receiver].id, at, one.error) for one in outcomes}
        self.known = self.known.with_end(
            key, End(finished=finished, deliveries={**(earlier.deliveries if earlier else {}), **new})
        )
        self.write(self.known)
        report(outcomes, found)
        return Notice(name, event.happened, outcomes)

    def is_newest(self, run: Any) -> bool:
        """Whether no run was told that ended later."""
        return all(end.finished <= run.finished_at.timestamp() for end in self.known.ends.values())

    def forget_old(self, now: float) -> None:
        """Record that what ended more than a week ago is settled, if that makes the record shorter."""
        after = self.known.swept(now - WEEK)
        if len(after.ends) < len(self.known.ends):
            self.write(after)

    def write(self, record: SweepRecord) -> None:
        """Replace the record. Raises RunError if the right to sweep was lost."""
        self.lock.check()
        write_record(self.prompt, _home(self.session), record)

    def _key(self, run: Any) -> str:
        """What the end of a run is recorded by: when the run ended, or, if its exit handler told it, when all its
        components had.
        """
        key = end_key(run)
        if key in self.known.ends or not any(other.startswith(f"{run.run_id}/") for other in self.known.ends):
            return key
        group = exit_group(runs.get_run(self.session.server, run.run_id))
        told = key if group is None or group.end_time is None else key_at(run.run_id, group.end_time)
        return told if told in self.known.ends else key


def _untold(name: str, error: Exception) -> Notice:
    return Notice(name, (), error=f"cannot be told: {str(error).splitlines()[0]}")
