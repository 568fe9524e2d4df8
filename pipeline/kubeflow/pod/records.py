"""What the runs of a pipeline record in an object store: logs of events (event_log.py), each with its state in a file.

    blessed/<time>-blessed-<digest>.json      a model was blessed, restored by a rollback, or promoted
    blessed/<time>-judged-<digest>.json       it was blessed again while it awaits approval
    blessed/<time>-lite-<digest>.json         it got another `.tflite` file
    blessed/<time>-withdrawn-<digest>.json    a rollback from it withdrew it
    trained/<time>-judged-<digest>.json       the data of a training whose model was judged, and not blessed
    trained/<time>-blessed-<digest>.json      the data of a training whose model was blessed
    trained/<time>-passed-<digest>.json       data that did not drift
    pushed/<time>-pushed-<digest>.json        a model was pushed, as a version of a destination

`<time>` of what happened to a blessing is the time in the list, so that the names have the list's order.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.kubeflow.pod.event_log import EventLog, LoggedEvent

_BLESSED, _JUDGED, _LITE, _WITHDRAWN, _PASSED, _PUSHED = "blessed", "judged", "lite", "withdrawn", "passed", "pushed"
_CHANGES = {_JUDGED: ("judged_at", "compared_with"), _LITE: ("lite",), _WITHDRAWN: ("withdrawn_at",)}
"""What the events change that leave a blessing's time as it is."""


def _new_blessings(known: Registry, now: Registry) -> Iterator[LoggedEvent[Entry]]:
    """Each with the whole entry, of which readers take what its event changed."""
    for entry in now.models:
        before = known.find(entry.uri)
        if before is None or before.blessed_at != entry.blessed_at:
            yield LoggedEvent(_BLESSED, entry, entry.blessed_at)
            continue
        times = {_JUDGED: entry.judged, _LITE: "", _WITHDRAWN: entry.withdrawn_at or ""}
        for kind, fields in _CHANGES.items():
            if any(getattr(before, field) != getattr(entry, field) for field in fields):
                yield LoggedEvent(kind, entry, times[kind])


def _after_blessing(listed: Registry, kind: str, entry: Entry) -> Registry:
    """Two rules hold for the entry of a run that had read the list before somebody withdrew or promoted the same model,
    as they do for a run that reads it afterwards: a model that is withdrawn stays so until a rollback or a promotion
    restores it, and one that is listed does not await approval again.
    """
    known = listed.find(entry.uri)
    if kind == _BLESSED:
        restored = entry.judged_at is not None and not entry.awaiting_approval
        if known and not restored and (known.withdrawn_at or (entry.awaiting_approval and not known.awaiting_approval)):
            return listed
        return listed.with_newest(entry)
    if known is None or (kind == _JUDGED and known.blessed_at != entry.blessed_at):  # promoted meanwhile
        return listed
    changed = known.model_copy(update={field: getattr(entry, field) for field in _CHANGES.get(kind, ())})
    return Registry(models=tuple(changed if each is known else each for each in listed.models))


def _new_trainings(known: TrainingRecord, now: TrainingRecord) -> Iterator[LoggedEvent[TrainingRecord]]:
    if now.judged is not None and now.judged != known.judged:
        if now.blessed == now.judged:
            yield LoggedEvent(_BLESSED, TrainingRecord(judged=now.judged, blessed=now.judged))
        else:
            yield LoggedEvent(_JUDGED, TrainingRecord(judged=now.judged))
    elif now.passed is not None and now.passed != known.passed:
        yield LoggedEvent(_PASSED, TrainingRecord(passed=now.passed))


def _after_training(known: TrainingRecord, kind: str, record: TrainingRecord) -> TrainingRecord:
    if record.judged is not None:
        return known.with_judged(record.judged, blessed=kind == _BLESSED)
    return known.with_passed(*record.passed) if record.passed is not None else known


def _new_pushes(known: PushRecord, now: PushRecord) -> Iterator[LoggedEvent[PushRecord]]:
    for there, push in now.last.items():
        if push != known.last.get(there):
            yield LoggedEvent(_PUSHED, PushRecord(last={there: push}, models={there: {push.version: push.uri}}))


def _after_push(known: PushRecord, kind: str, record: PushRecord) -> PushRecord:
    del kind
    return record.merged_with(known)


BLESSINGS = EventLog(
    "blessed",
    Registry,
    Entry,
    "the record of a blessing",
    "its model then no longer serves as a baseline.",
    _new_blessings,
    _after_blessing,
)
TRAININGS = EventLog(
    "trained",
    TrainingRecord,
    TrainingRecord,
    "the record of a training",
    "the next run then trains, unless another record shows that it need not.",
    _new_trainings,
    _after_training,
)
PUSHES = EventLog(
    "pushed",
    PushRecord,
    PushRecord,
    "the record of a push",
    "the next run then compares the model with the newest version in service.",
    _new_pushes,
    _after_push,
)
