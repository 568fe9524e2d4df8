"""Which steps are profiled, and the step markers by which xprof finds them.

xprof takes each iteration of a TensorFlow loop for a step, finds no marker around it, and reports "No step time
measured". Keras runs `steps_per_execution` steps as such a loop. If all events claim to be from iteration 0, xprof sees
no loop and uses the markers, one for each execution. (In xprof's sources, `ProcessTensorFlowLoop` in
`xla/tsl/profiler/utils/group_events.cc` skips a loop with only an iteration 0; events are joined by `id` and
`iter_num`.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.trainer.checkpointing.checkpoints import TrainingPosition
from headrace.trainer.profiling.facts import MARKER, SESSIONS

ITERATION = "iter_num"
STEP = "step_num"


@dataclass(frozen=True)
class ProfileWindow:
    """The steps to profile."""

    first: int
    """The first step, counted from 1."""
    last: int
    note: str = ""
    """Why they are not the steps of the config."""


def profile_window(
    asked: tuple[int, int], execution: int, epoch: int | None, epochs: int, done: int = 0
) -> ProfileWindow:
    """Choose the steps to profile.

    Keras traces the graph in the first execution, which takes seconds, so that execution is left out if others follow.
    If training is known to end before the range starts, steps of its last epoch are profiled. If it resumes from a
    checkpoint after the start of the range, the range is counted from the checkpoint.

    Args:
        asked: First and last step of the config.
        execution: Steps in the first execution.
        epoch: Steps in an epoch, as far as known.
        epochs: Number of epochs.
        done: Steps before the checkpoint.
    """
    first, last = asked
    execution = execution if epoch is None else min(execution, epoch)
    length, total, built = last - first, None if epoch is None else epoch * epochs, done + execution
    note = ""
    if first <= done:
        note = f"training resumed after step {done:,}, so later steps were profiled and not {first:,} to {last:,}"
        first, last = first + done, last + done
    if epoch is not None and total is not None and first > total:
        note = note or f"training has only {total:,} steps, so late ones were profiled and not {first:,} to {last:,}"
        return ProfileWindow(max(total - length, total - epoch + 1, min(built + 1, total)), total, note)
    if first <= built and (total is None or total > built):
        note = note or "the first execution was left out, because Keras builds the graph in it"
        return ProfileWindow(built + 1, built + 1 + length, note)
    if first <= built:
        note = "the only execution includes building the graph: the verdict excludes that, xprof does not"
    return ProfileWindow(first, last, note)


@dataclass(frozen=True)
class ProfileRequest:
    """The steps that the config asks to profile, and what is known about the training before it starts."""

    steps: tuple[int, int]
    """First and last, counted from 1."""
    execution: int
    """Maximum number of steps in an execution."""
    epoch: int | None
    """Steps in an epoch, if that is known."""
    epochs: int
    begin: TrainingPosition = field(default_factory=TrainingPosition)
    """Where training resumes."""

    def window(self, first: int | None = None, epoch: int | None = None) -> ProfileWindow:
        """Choose the steps, given what training shows: the steps of its first execution, and of its first epoch."""
        return profile_window(self.steps, first or self.execution, epoch or self.epoch, self.epochs, self.begin.batches)


def keep_markers(model_run: Path, steps: set[int]) -> None:
    """Rewrite the profile of a model's run without loops, and only with the markers of the given steps.

    An execution that met the end of the data leaves a marker without a step, which is removed.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2  # imports all of TensorFlow, which the Trainer has done

    for file in (model_run / SESSIONS).glob("*/*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
        for plane in space.planes:
            _rewrite(plane, steps)
        file.write_bytes(space.SerializeToString())


def _rewrite(plane: Any, steps: set[int]) -> None:
    names = {number: stat.name for number, stat in plane.stat_metadata.items()}
    iterations = {number for number, name in names.items() if name == ITERATION}
    markers = {number for number, event in plane.event_metadata.items() if event.name == MARKER}
    for line in plane.lines:
        dropped = [
            index
            for index, event in enumerate(line.events)
            if event.metadata_id in markers and step_of(event, names) not in steps
        ]
        for index in reversed(dropped):
            del line.events[index]
        for event in line.events:
            for stat in event.stats:
                if stat.metadata_id in iterations:
                    setattr(stat, stat.WhichOneof("value"), 0)


def step_of(event: Any, names: dict[int, str]) -> int | None:
    """`step_num` of a marker. names: the names of the plane's statistics."""
    for stat in event.stats:
        if names.get(stat.metadata_id) == STEP:
            return int(getattr(stat, stat.WhichOneof("value")))
    return None
