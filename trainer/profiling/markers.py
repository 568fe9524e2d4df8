"""Step markers that xprof finds, in a profile of a training with several steps in one execution.

xprof takes each turn of a TensorFlow loop for a step, finds no marker around it, and says "No step time measured".
Keras runs `steps_per_execution` steps as such a loop. Where all events say that they are of turn 0, xprof sees no loop
and goes by the markers, one for each execution. (In xprof's sources: `ProcessTensorFlowLoop` in
`xla/tsl/profiler/utils/group_events.cc` skips a loop with only a turn 0; events are joined by `id` and `iter_num`.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.trainer.profiling.facts import MARKER, SESSIONS

TURN = "iter_num"
STEP = "step_num"


def keep_markers(model_run: Path, steps: set[int]) -> None:
    """Rewrite the profile in a model's run: without loops, and with the markers of these steps alone.

    An execution that found the data at its end leaves a marker without a step; that one goes.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2  # imports all of TensorFlow, which the Trainer has done

    for file in (model_run / SESSIONS).glob("*/*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
        for plane in space.planes:
            _rewrite(plane, steps)
        file.write_bytes(space.SerializeToString())


def _rewrite(plane: Any, steps: set[int]) -> None:
    names = {number: stat.name for number, stat in plane.stat_metadata.items()}
    turns = {number for number, name in names.items() if name == TURN}
    markers = {number for number, event in plane.event_metadata.items() if event.name == MARKER}
    for line in plane.lines:
        dropped = [
            place
            for place, event in enumerate(line.events)
            if event.metadata_id in markers and step_of(event, names) not in steps
        ]
        for place in reversed(dropped):
            del line.events[place]
        for event in line.events:
            for stat in event.stats:
                if stat.metadata_id in turns:
                    setattr(stat, stat.WhichOneof("value"), 0)


def step_of(event: Any, names: dict[int, str]) -> int | None:
    """`step_num` of a marker; names: of the plane's statistics."""
    for stat in event.stats:
        if names.get(stat.metadata_id) == STEP:
            return int(getattr(stat, stat.WhichOneof("value")))
    return None
