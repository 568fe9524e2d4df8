"""Where the time of the steps went, from the trace events of a profile.

xprof's own breakdown knows no device on a CPU: it calls all of a step's work "host compute", and leaves out the gaps
between steps. So this module computes one from the events that xprof uses, over all threads:

    time     from the start of the first step marker to the end of the last one
    compute  an accelerator runs anything but copies from or to the host; without one, TensorFlow's executor works on
             the step's graph (`ExecutorState::Process` and operations, on threads that are not tf.data's)
    input    nothing computes, and a step waits in `IteratorGetNext*::DoCompute`, or an accelerator receives a copy from
             the host (`copying` is that part)
    host     a step runs, and it is neither of these: Keras, Python, calling the graph, copies from the device
    idle     the rest, between two steps: callbacks, checkpoints

The four are shares of the time and sum to 1. Input that is fetched or copied while the step computes costs nothing, and
counts as compute. That agrees with xprof, whose input time is HOST_WAIT_INPUT and HOST_TO_DEVICE, counted only while
nothing computes (`ComputeGenericInputPipelineAnalysisResult` in its op_stats_to_input_pipeline_analysis.cc, the ranks
of `EventType` in event_span.h). It differs for copies during which the host prepares the next computation, which xprof
attributes to the host, and for copies within or between accelerators, which xprof counts separately.

The work of tf.data's threads is summed by stage (`stages`), each without the time of the stages under it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headrace.components.profile.result import TimeShares
from headrace.trainer.profiling.facts import MARKER

WAITING = ("IteratorGetNext", "MultiDeviceIteratorGetNext")
WORKING = "ExecutorState::Process"
CALL = "KernelAndDeviceFunc::Run"
"""A built graph runs."""
INPUT_THREADS = "tf_data"
HOST = "/host:CPU"
DEVICES = ("/device:GPU", "/device:TPU", "/device:CUSTOM")
DERIVED = ("Steps", "XLA Modules", "TensorFlow", "Framework", "Source")
"""Lines of a device that repeat the events of other lines."""
FROM_HOST = re.compile(r"memcpy_?h(to|2)d|infeed(\.\d+)?$", re.IGNORECASE)
"""Copies to a device: `MemcpyH2D` of CUPTI, `MEMCPYHtoD` of xprof, infeed of a TPU."""
TO_HOST = re.compile(r"memcpy_?d(to|2)h|outfeed(\.\d+)?$", re.IGNORECASE)
NESTS = ("While", "If", "Case", "PartitionedCall", "Iterator", "MultiDevice", "OptionalGet", "OptionalHas")
"""Operations that contain others, or wait for input."""
PICO = 1e-12

STARTING = "starting the epoch's iterator"
READING = "reading files"
PARSING = "parsing examples"
SHUFFLING = "shuffling"
BATCHING = "batching"
CACHING = "filling the cache"

_ITERATORS = {
    "TFRecord": READING,
    "TextLine": READING,
    "FixedLengthRecord": READING,
    "ParallelInterleave": None,
    "Interleave": READING,
    "FlatMap": None,
    "Batch": BATCHING,
    "ParallelBatch": BATCHING,
    "PaddedBatch": BATCHING,
    "Rebatch": BATCHING,
    "Unbatch": BATCHING,
    "Shuffle": SHUFFLING,
    "ShuffleAndRepeat": SHUFFLING,
    "MemoryCache": CACHING,
    "MemoryCacheImpl": CACHING,
    "FileCache": CACHING,
    "Prefetch": None,
    "ParallelMap": None,
    "Root": None,
}
"""The stage of each kind of iterator; None if its own time is spent waiting for other threads."""
_OPERATIONS = {"ParseExample": PARSING, "ParseSingleExample": PARSING, "RandomShuffle": SHUFFLING}

Intervals = list[tuple[int, int]]
"""A set of moments: sorted (begin, end) pairs that do not touch."""


class TraceEvent(NamedTuple):
    """One trace event; picoseconds."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class Trace:
    """The breakdown of the trace of one host."""

    seconds: float
    """From the start of the first step marker to the end of the last one."""
    shares: TimeShares
    copying: float
    """The part of `shares.input` in which accelerators receive copies from the host."""
    device: str
    """`CPU`, or the names of the accelerators that the steps computed on."""
    stages: dict[str, float]
    """Seconds of work, summed over tf.data's threads, by stage, the longest first."""


def read_trace(file: Path, building: bool = False) -> Trace | None:
    """The breakdown of an `.xplane.pb` file; None if it holds no step marker.

    building: the only step is the one in which Keras first builds the graph; its time starts when the graph runs.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2  # imports all of TensorFlow

    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    lines = [line for plane in space.planes if plane.name == HOST for line in _lines(plane)]
    markers = union((event.begin, event.end) for _, events in lines for event in events if event.name == MARKER)
    if not markers:
        return None
    if building:
        running = intersection(markers, _calls(lines))
        markers = [max(running, key=lambda interval: interval[1] - interval[0], default=markers[0])]
    devices = {plane.name: _events(plane) for plane in space.planes if plane.name.startswith(DEVICES)}
    devices = {name: events for name, events in devices.items() if events}
    on_devices = [event for events in devices.values() for event in events]
    copies = union((event.begin, event.end) for event in on_devices if FROM_HOST.match(event.name))
    computing = union((event.begin, event.end) for event in on_devices if not _is_copy(event.name))
    busy = computing if devices else intersection(markers, _host_work(lines))
    time = [(markers[0][0], markers[-1][1])]
    waits = union((event.begin, event.end) for _, events in lines for event in events if _waits(event.name))
    return Trace(
        length(time) * PICO,
        _time_shares(time, markers, busy, union(waits, copies)),
        length(difference(intersection(time, copies), busy)) / length(time),
        ", ".join(sorted(devices)) or "CPU",
        _stages(lines, time),
    )


def _events(plane: Any) -> list[TraceEvent]:
    return [event for name, events in _lines(plane) if not name.startswith(DERIVED) for event in events]


def _is_copy(name: str) -> bool:
    return bool(FROM_HOST.match(name) or TO_HOST.match(name))


def _time_shares(time: Intervals, markers: Intervals, busy: Intervals, waits: Intervals) -> TimeShares:
    compute = intersection(time, busy)
    waiting = difference(intersection(time, waits), compute)
    host = difference(difference(markers, compute), waiting)
    idle = difference(time, union(waiting, host, compute))
    shares = (length(part) / length(time) for part in (waiting, host, compute, idle))
    return TimeShares(*shares)


def _host_work(lines: list[tuple[str, list[TraceEvent]]]) -> Intervals:
    return union(
        (event.begin, event.end)
        for name, events in lines
        if not name.startswith(INPUT_THREADS)
        for event in events
        if event.name == WORKING or _is_operation(event.name)
    )


def _calls(lines: list[tuple[str, list[TraceEvent]]]) -> Intervals:
    return union((event.begin, event.end) for _, events in lines for event in events if event.name == CALL)


def _waits(name: str) -> bool:
    return name.startswith(WAITING) and name.endswith("::DoCompute")


def _is_operation(name: str) -> bool:
    """Whether a name is `name:Type`, as the executor names an operation that it runs."""
    _, colon, kind = name.rpartition(":")
    return (
        bool(colon) and "::" not in name and kind.isidentifier() and not kind.removeprefix("Stateful").startswith(NESTS)
    )


def _lines(plane: Any) -> Iterator[tuple[str, list[TraceEvent]]]:
    """Each thread or stream, by name, with its events in the order of their start, outer before inner ones."""
    names = {number: event.name.partition("#")[0] for number, event in plane.event_metadata.items()}
    for line in plane.lines:
        start = line.timestamp_ns * 1000
        events = [
            TraceEvent(names[event.metadata_id], start + event.offset_ps, start + event.offset_ps + event.duration_ps)
            for event in line.events
        ]
        yield line.name, sorted(events, key=lambda event: (event.begin, -event.end))


def _stages(lines: list[tuple[str, list[TraceEvent]]], time: Intervals) -> dict[str, float]:
    ((first, last),) = time
    seconds: defaultdict[str, float] = defaultdict(float)
    for name, events in lines:
        if name.startswith(INPUT_THREADS):
            for event, own in own_times([event for event in events if first <= event.begin and event.end <= last]):
                if stage := stage_of(event.name):
                    seconds[stage] += own * PICO
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def own_times(events: list[TraceEvent]) -> Iterator[tuple[TraceEvent, int]]:
    """Each event of a thread with its duration, less that of the events inside it, in the order of their start."""
    own = [event.end - event.begin for event in events]
    open_: list[int] = []
    for number, event in enumerate(events):
        while open_ and events[open_[-1]].end <= event.begin:
            open_.pop()
        if open_:
            own[open_[-1]] -= event.end - event.begin
        open_.append(number)
    return zip(events, own, strict=True)


def stage_of(name: str) -> str | None:
    """The stage that an event of a tf.data thread belongs to; None if it waits, or only contains other events."""
    if name.startswith("MakeIterator::"):
        return STARTING
    if name.startswith("Iterator::"):
        last = re.sub(r"(\[\d+\])?$", "", name.rsplit("::", 1)[-1])
        kind = re.sub(r"V\d+$", "", last)
        return _ITERATORS.get(kind, f"tf.data's {kind}")
    _, colon, kind = name.rpartition(":")
    if colon and "::" not in name and kind.isidentifier():
        kind = re.sub(r"V\d+$", "", kind)
        if kind.endswith("Dataset"):
            return STARTING
        return _OPERATIONS.get(kind, f"the operation {kind} in a map")
    return None


def union(*parts: Iterable[tuple[int, int]]) -> Intervals:
    """The moments in any of them."""
    merged: Intervals = []
    for begin, end in sorted(interval for part in parts for interval in part):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def intersection(first: Intervals, second: Intervals) -> Intervals:
    """The moments in both."""
    found, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            found.append((begin, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return found


def difference(first: Intervals, second: Intervals) -> Intervals:
    """The moments in the first and not in the second."""
    if not first:
        return []
    edges = [first[0][0], *(edge for interval in second for edge in interval), max(first[-1][1], first[0][0])]
    gaps = [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]
    return intersection(first, gaps)


def length(intervals: Intervals) -> int:
    """Their total length."""
    return sum(end - begin for begin, end in intervals)
