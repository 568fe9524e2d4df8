"""Where the time of the steps went, from the trace events of a profile.

xprof's own split has no device on a CPU: it calls all of the step's work "host compute", and gives the gaps between
steps to nobody. So the split is made here, of the same events that xprof goes by (moments, over all threads):

    time     from the begin of the first step marker to the end of the last
    compute  an accelerator runs anything but copies from or to the host; without one, TensorFlow's executor works on
             the step's graph (`ExecutorState::Process` and operations, on threads that are not tf.data's)
    input    nothing computes, and a step waits in `IteratorGetNext*::DoCompute`, or an accelerator gets a copy from the
             host: `copying` is the part of the latter
    host     a step runs, and it is neither: Keras, Python, calling the graph, copies from the device
    idle     the rest, between two steps: callbacks, checkpoints

The four are shares of the time and sum up to 1. Input that is fetched or copied while the step computes costs nothing,
and counts as compute. So xprof has it: its input is HOST_WAIT_INPUT and HOST_TO_DEVICE, of which a moment counts only
without any computing (`ComputeGenericInputPipelineAnalysisResult` in its op_stats_to_input_pipeline_analysis.cc, the
ranks of `EventType` in event_span.h). It differs in copies during which the host prepares the next computation, which
it counts as the host's, and in copies within or between accelerators, which have a part of their own there.

What tf.data's threads did is summed up by stage (`stages`), without what a stage spent in those under it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headrace.components.profile_verdict.result import Split
from headrace.components.profile_verdict.spans_of_time import Spans, both, length, union, without
from headrace.components.profile_verdict.stages import stage_of
from headrace.trainer.profiling.facts import MARKER

WAITING = ("IteratorGetNext", "MultiDeviceIteratorGetNext")
WORKING = "ExecutorState::Process"
CALL = "KernelAndDeviceFunc::Run"
"""A graph runs that is built."""
INPUT_THREADS = "tf_data"
HOST = "/host:CPU"
DEVICES = ("/device:GPU", "/device:TPU", "/device:CUSTOM")
DERIVED = ("Steps", "XLA Modules", "TensorFlow", "Framework", "Source")
"""Lines of a device that repeat what other lines hold."""
FROM_HOST = re.compile(r"memcpy_?h(to|2)d|infeed(\.\d+)?$", re.IGNORECASE)
"""Events of a device that is given something: CUPTI's `MemcpyH2D`, `MEMCPYHtoD` as xprof has it, a TPU's infeed."""
TO_HOST = re.compile(r"memcpy_?d(to|2)h|outfeed(\.\d+)?$", re.IGNORECASE)
NESTS = ("While", "If", "Case", "PartitionedCall", "Iterator", "MultiDevice", "OptionalGet", "OptionalHas")
"""Operations that hold others, or wait for input."""
PICO = 1e-12


class Event(NamedTuple):
    """One trace event; picoseconds."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class Trace:
    """What the trace events of one host say."""

    seconds: float
    """From the first marker to the end of the last."""
    split: Split
    copying: float
    """Share of the time: the part of `split.input` in which accelerators get copies from the host."""
    device: str
    """What the steps computed on: `CPU`, or the names of the accelerators."""
    stages: dict[str, float]
    """Seconds of work (over all threads) by what tf.data's threads did, the most first."""


def read_trace(file: Path, building: bool = False) -> Trace | None:
    """The trace in an `.xplane.pb`; None where it holds no step marker.

    building: there is one marker, and under it Keras first builds the graph; the time begins when the graph does.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2  # imports all of TensorFlow

    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    lines = [line for plane in space.planes if plane.name == HOST for line in _lines(plane)]
    markers = union((event.begin, event.end) for _, events in lines for event in events if event.name == MARKER)
    if not markers:
        return None
    if building:
        markers = [max(both(markers, _calls(lines)), key=lambda span: span[1] - span[0], default=markers[0])]
    devices = {plane.name: _events(plane) for plane in space.planes if plane.name.startswith(DEVICES)}
    devices = {name: events for name, events in devices.items() if events}
    on_devices = [event for events in devices.values() for event in events]
    copies = union((event.begin, event.end) for event in on_devices if FROM_HOST.match(event.name))
    computing = union((event.begin, event.end) for event in on_devices if not _is_copy(event.name))
    busy = computing if devices else both(markers, _host_work(lines))
    time = [(markers[0][0], markers[-1][1])]
    waits = union((event.begin, event.end) for _, events in lines for event in events if _waits(event.name))
    return Trace(
        length(time) * PICO,
        _split(time, markers, busy, union(waits, copies)),
        length(without(both(time, copies), busy)) / length(time),
        ", ".join(sorted(devices)) or "CPU",
        _stages(lines, time),
    )


def _events(plane: Any) -> list[Event]:
    """What a device did."""
    return [event for name, events in _lines(plane) if not name.startswith(DERIVED) for event in events]


def _is_copy(name: str) -> bool:
    return bool(FROM_HOST.match(name) or TO_HOST.match(name))


def _split(time: Spans, markers: Spans, busy: Spans, wanting: Spans) -> Split:
    whole = length(time)
    compute = both(time, busy)
    waiting = without(both(time, wanting), compute)
    host = without(without(markers, compute), waiting)
    idle = without(time, union(waiting, host, compute))
    input_, host_, compute_, idle_ = (length(part) / whole for part in (waiting, host, compute, idle))
    return Split(input_, host_, compute_, idle_)


def _host_work(lines: list[tuple[str, list[Event]]]) -> Spans:
    return union(
        (event.begin, event.end)
        for name, events in lines
        if not name.startswith(INPUT_THREADS)
        for event in events
        if event.name == WORKING or _is_operation(event.name)
    )


def _calls(lines: list[tuple[str, list[Event]]]) -> Spans:
    return union((event.begin, event.end) for _, events in lines for event in events if event.name == CALL)


def _waits(name: str) -> bool:
    return name.startswith(WAITING) and name.endswith("::DoCompute")


def _is_operation(name: str) -> bool:
    """`place/name:Type`, as the executor names an operation that it runs."""
    _, colon, kind = name.rpartition(":")
    return (
        bool(colon) and "::" not in name and kind.isidentifier() and not kind.removeprefix("Stateful").startswith(NESTS)
    )


def _lines(plane: Any) -> Iterator[tuple[str, list[Event]]]:
    """Each thread or stream by its name, with its events in the order of their begin, the outer before the inner."""
    names = {number: event.name.partition("#")[0] for number, event in plane.event_metadata.items()}
    for line in plane.lines:
        start = line.timestamp_ns * 1000
        events = [
            Event(names[event.metadata_id], start + event.offset_ps, start + event.offset_ps + event.duration_ps)
            for event in line.events
        ]
        yield line.name, sorted(events, key=lambda event: (event.begin, -event.end))


def _stages(lines: list[tuple[str, list[Event]]], time: Spans) -> dict[str, float]:
    ((first, last),) = time
    seconds: defaultdict[str, float] = defaultdict(float)
    for name, events in lines:
        if name.startswith(INPUT_THREADS):
            for event, own in own_times([event for event in events if first <= event.begin and event.end <= last]):
                if stage := stage_of(event.name):
                    seconds[stage] += own * PICO
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def own_times(events: list[Event]) -> Iterator[tuple[Event, int]]:
    """Each event of a thread with its duration, less that of the events in it. In the order of their begin."""
    own = [event.end - event.begin for event in events]
    open_: list[int] = []
    for number, event in enumerate(events):
        while open_ and events[open_[-1]].end <= event.begin:
            open_.pop()
        if open_:
            own[open_[-1]] -= event.end - event.begin
        open_.append(number)
    return zip(events, own, strict=True)
