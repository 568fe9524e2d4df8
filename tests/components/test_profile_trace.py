"""How the trace of a profile is read: the planes of accelerators, the names of stages, and spans of time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from headrace.components.profile.result import TimeShares
from headrace.components.profile.trace import (
    PARSING,
    READING,
    STARTING,
    Intervals,
    Trace,
    TraceEvent,
    difference,
    intersection,
    length,
    own_times,
    read_trace,
    stage_of,
    union,
)


class Moments(NamedTuple):
    """Events of a trace that is made up, as name, begin and end in a step of 100."""

    host: tuple[tuple[str, int, int], ...]
    device: Mapping[str, tuple[tuple[str, int, int], ...]]

    def read(self, file: Path) -> Trace:
        """As an accelerator's profile would have it."""
        space = xplane_pb2.XSpace()
        self._plane(space, "/host:CPU", {"python": (("train", 0, 100),), "tf_Compute": self.host})
        self._plane(space, "/device:GPU:0", self.device)
        file.write_bytes(space.SerializeToString())
        trace = read_trace(file)
        assert trace is not None
        return trace

    @staticmethod
    def _plane(space: Any, name: str, lines: Mapping[str, tuple[tuple[str, int, int], ...]]) -> None:
        plane = space.planes.add(name=name)
        for thread, events in lines.items():
            line = plane.lines.add(name=thread)
            for event, begin, end in events:
                number = len(plane.event_metadata) + 1
                plane.event_metadata[number].name = event
                line.events.add(metadata_id=number, offset_ps=begin, duration_ps=end - begin)


def near(share: float) -> Any:
    return pytest.approx(share)


WAIT = (("IteratorGetNext:IteratorGetNext", 0, 70), ("IteratorGetNextOp::DoCompute", 0, 70))


@pytest.mark.parametrize("copy", ["MemcpyH2D", "MEMCPYHtoD"])
@pytest.mark.parametrize("streams", ["apart", "one"])
def test_copies_to_an_accelerator_are_not_computing(copy: str, streams: str, tmp_path: Path) -> None:
    copied, kernel = (copy, 20, 70), ("gemm", 75, 100)
    apart = {"Stream #14(MemcpyH2D)": (copied,), "Stream #13(Kernel)": (kernel,)}
    trace = Moments(WAIT, apart if streams == "apart" else {"Stream #1": (copied, kernel)}).read(tmp_path / "x.pb")
    assert trace.shares == TimeShares(input=near(0.7), host=near(0.05), compute=0.25, idle=0.0)
    assert trace.copying == 0.5
    assert trace.device == "/device:GPU:0"


def test_copies_without_a_wait_are_input_and_those_under_a_kernel_cost_nothing(tmp_path: Path) -> None:
    """As xprof ranks them: computing before waiting, and that before the host."""
    streams = {
        "Stream #14": (("MemcpyH2D", 0, 60),),
        "Stream #13": (("gemm", 30, 80),),
        "Stream #15": (("MemcpyD2H", 70, 90), ("MemcpyD2D", 90, 95)),
    }
    trace = Moments((), streams).read(tmp_path / "x.pb")
    assert trace.shares == TimeShares(input=0.3, host=near(0.15), compute=0.55, idle=0.0)
    assert trace.copying == 0.3


def test_an_accelerator_that_only_copies_computes_nothing(tmp_path: Path) -> None:
    host = (("ExecutorState::Process", 0, 100),)
    trace = Moments(host, {"Stream #14": (("MemcpyH2D", 0, 60),)}).read(tmp_path / "x.pb")
    assert trace.shares == TimeShares(input=0.6, host=0.4, compute=0.0, idle=0.0)


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("Iterator::Root::Prefetch::Map[0]::TFRecord", READING),
        ("Iterator::Root::Prefetch", None),
        ("ParseExample/ParseExampleV2:ParseExampleV2", PARSING),
        ("MakeIterator::FilterDataset", STARTING),
        ("decode/DecodeJpeg:DecodeJpeg", "the operation DecodeJpeg in a map"),
        ("ExecutorState::Process", None),
    ],
)
def test_stages_are_named_after_what_they_do(name: str, stage: str | None) -> None:
    assert stage_of(name) == stage


def test_an_events_own_time_is_without_what_it_holds() -> None:
    events = [
        TraceEvent("a", 0, 100),
        TraceEvent("b", 10, 60),
        TraceEvent("c", 20, 30),
        TraceEvent("d", 70, 80),
        TraceEvent("e", 100, 110),
    ]
    assert [own for _, own in own_times(events)] == [40, 40, 10, 10, 10]


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda span: (span[0], sum(span))), max_size=8)


@given(SPANS, SPANS)
def test_sets_of_moments_agree_with_sets_of_numbers(first: Intervals, second: Intervals) -> None:
    def moments(spans: Intervals) -> set[int]:
        return {moment for begin, end in spans for moment in range(begin, end)}

    one, other = union(first), union(second)
    assert moments(one) == moments(first)
    assert moments(union(one, other)) == moments(first) | moments(second)
    assert moments(intersection(one, other)) == moments(first) & moments(second)
    assert moments(difference(one, other)) == moments(first) - moments(second)
    assert length(one) == len(moments(first))
