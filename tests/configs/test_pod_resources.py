"""What pods ask for where the config does not say."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.configs.schema.components import IDS
from headrace.configs.schema.pod_resources import (
    GI,
    PeakUsage,
    format_quantity,
    parse_quantity,
    round_up,
    with_resources,
)
from headrace.configs.schema.pods import Accelerator, ComponentSettings

SIZES = st.sampled_from(["100Mi", "900M", "1Gi", "6Gi", "64G", "500Gi"])
CPUS = st.sampled_from([0.25, 1.0, 7.5, 64.0])


@given(
    st.sampled_from(IDS),
    st.fixed_dictionaries({}, optional={"cpu": CPUS, "cpu_limit": CPUS, "memory": SIZES, "memory_limit": SIZES}),
    st.none() | st.builds(PeakUsage, memory=st.integers(1 << 20, 1 << 40), cpu=st.floats(0, 64)),
)
def test_all_four_are_said_no_limit_is_below_its_request_and_what_is_given_stays(
    component: str, chosen: dict[str, Any], peak: PeakUsage | None
) -> None:
    both = (("cpu", "cpu_limit"), ("memory", "memory_limit"))
    got = with_resources(component, ComponentSettings(**chosen), {component: peak} if peak else None)
    for asked, limit in both:
        wanted, most = getattr(got, asked), getattr(got, limit)
        assert wanted is not None
        assert most is not None
        if {asked, limit} - chosen.keys():  # both given may disagree: a rule of its own says so
            assert parse_quantity(str(wanted)) <= parse_quantity(str(most))
    assert {name: getattr(got, name) for name in chosen} == chosen


def test_null_that_is_written_means_no_limit() -> None:
    got = with_resources("Trainer", ComponentSettings(memory_limit=None, cpu_limit=None))
    assert (got.memory_limit, got.cpu_limit) == (None, None)
    assert got.memory == "2Gi"


def test_shared_memory_comes_on_top_of_the_limit_and_an_accelerator_doubles_it() -> None:
    assert with_resources("Trainer", ComponentSettings()).memory_limit == "16Gi"
    assert with_resources("Trainer", ComponentSettings(shared_memory="4Gi")).memory_limit == "20Gi"
    gpu = with_resources("Trainer", ComponentSettings(accelerator=Accelerator(type="nvidia.com/gpu")))
    assert (gpu.memory, gpu.memory_limit) == ("4Gi", "32Gi")


@pytest.mark.parametrize(
    ("peak", "memory", "limit"), [(1.0, "2Gi", "4Gi"), (5.0, "7Gi", "14Gi"), (9.5, "14Gi", "28Gi")]
)
def test_a_measured_peak_asks_for_a_quarter_more_than_a_pod_takes(peak: float, memory: str, limit: str) -> None:
    got = with_resources("Transform", ComponentSettings(), {"Transform": PeakUsage(int(peak * GI), 1.2)})
    assert (got.memory, got.memory_limit, got.cpu) == (memory, limit, 1.5)


@given(st.floats(0.01, 1000))
def test_sizes_are_rounded_up_by_less_than_a_quarter(size: float) -> None:
    assert size <= round_up(size) < size * 1.2501


def test_amounts_are_written_so_that_they_read_the_same() -> None:
    for size, unit in itertools.product((1, 3, 7.5), ("Gi", "Mi", "G")):
        assert parse_quantity(format_quantity(parse_quantity(f"{size}{unit}"))) >= parse_quantity(f"{size}{unit}")
