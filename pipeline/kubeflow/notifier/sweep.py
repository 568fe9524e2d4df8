"""A sweep: the runs that have ended since the last one, each told once to the receivers that want it.

for notice in sweep(session, open_results(config)):
    print(notice)

A receiver that was not reached is tried again by the next sweeps, for a day. What was told is recorded after each run:
a sweep that is killed between sending and recording makes the next one send the same event again, with the same id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.common.errors import HeadraceError
from headrace.common.store_lock import HeldLock
from headrace.configs.schema.notify import Receiver
from headrace.pipeline.kubeflow.notifier.ended import end_key, read_ended
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
from headrace.pipeline.kubeflow.server.tasks import ENDED
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.deliver import Outside
from headrace.pipeline.notify.event import timestamp
from headrace.pipeline.notify.record import Delivery
from headrace.pipeline.notify.send import DeliveryOutcome, messages, report, send

DAY = 86_400.0
"""Seconds for which a receiver that is not reached is tried again, and after which the first sweep takes no end for
news."""
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
    outside, home = outside or Outside.of_process(), _home(session)
    with sweeping(store, home) as (prompt, lock):
        began = now()
        before = read_record(prompt, home)
        work = _Sweep(session, store, outside, prompt, lock, before or SweepRecord(since=began - DAY))
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
            lock.check()
            write_record(prompt, home, after)


def _home(session: Session) -> str:
    """The folder of the record and the claims: one of its own for a pipeline that only predicts."""
    return f"{session.home()}/{session.pipeline}" if session.config.only_predicts else session.home()


@dataclass
class _Sweep:
    """A sweep in progress. prompt: the store for the record; known: what it and those before have done."""

    session: Session
    store: Store
    outside: Outside
    prompt: Store
    lock: HeldLock
    known: SweepRecord

    def tell(self, run: Any, *, metrics: bool) -> Notice | None:
        """Tell of one end whoever is still to be told, and record it; None if nobody is.

        metrics: whether receivers of metrics get them, which are those of the newest run alone.
        """
        key, finished, name = end_key(run), run.finished_at.timestamp(), run.display_name
        if run.state == "SUCCEEDED":
            self.known = self.known.with_success(finished)
        earlier = self.known.ends.get(key)
        receivers = {
            receiver: settings
            for receiver, settings in self.session.config.notify.items()
            if (earlier is None or receiver in earlier.missed) and (metrics or isinstance(settings, Receiver))
        }
        if earlier is not None and not receivers:
            return None
        try:
            now = runs.get_run(self.session.server, run.run_id)
            if now.finished_at != run.finished_at or now.state not in ENDED:  # it was retried in the meantime
                return None
            event = read_ended(self.session, now, self.store)
        except (OSError, HeadraceError) as error:  # the next sweep tries again; meanwhile the others are told
            return Notice(name, (), error=f"cannot be told: {str(error).splitlines()[0]}")
        found = messages(receivers, event, (), self.known.last_success)
        self.lock.check()
        outcomes = send(receivers, found, self.outside)
        at = timestamp(time.time())
        new = {one.receiver: Delivery(found[one.receiver].id, at, one.error) for one in outcomes}
        self.known = self.known.with_end(
            key, End(finished=finished, deliveries={**(earlier.deliveries if earlier else {}), **new})
        )
        self.lock.check()
        write_record(self.prompt, _home(self.session), self.known)
        report(outcomes, found)
        return Notice(name, event.happened, outcomes)
