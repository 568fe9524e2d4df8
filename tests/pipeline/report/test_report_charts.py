"""The drawing and writing of figures."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.report.charts import Bar, ChartLine, Scale, cell_map, histogram, line_chart, padded, ticks
from headrace.pipeline.report.formatting import MINUS, NONE, change, figure, percent, score, short, size


@given(st.floats(-1e9, 1e9, allow_subnormal=False), st.floats(1e-6, 1e9, allow_subnormal=False), st.integers(2, 10))
def test_ticks_are_inside_evenly_spaced_and_about_as_many_as_asked(low: float, width: float, about: int) -> None:
    high = low + max(width, abs(low) * 1e-6)
    found = ticks(low, high, about)
    slack = (high - low) * 1e-6
    assert 1 <= len(found) <= about * 1.25 + 2
    assert all(low - slack <= tick <= high + slack for tick in found)
    steps = np.diff(found)
    assert np.allclose(steps, steps[0] if len(steps) else 0, rtol=1e-3)


def test_scale_is_linear_and_padding_never_empty() -> None:
    scale = Scale(10, 20, 0, 100)
    assert [scale(value) for value in (10, 12.5, 20)] == [0, 25, 100]
    for values in ([], [3.0], [0.0, 0.0], [1.0, float("nan"), 2.0]):
        low, high = padded(values)
        assert low < high


@pytest.mark.parametrize("low", [1_700_000_000.0, -87.62345678])
def test_ticks_and_dots_of_a_narrow_range_far_from_0_are_told_apart(low: float) -> None:
    width = abs(low) * 5e-9
    points = [(low + width * number / 4, number / 10) for number in range(5)]
    drawn = ET.fromstring(line_chart("t", [ChartLine("a", points)], x_label="x"))
    texts = [str(one.text) for one in drawn.iter("text")]
    relative = [text for text in texts if text.startswith("+")]
    assert len(relative) == len({*relative}) >= 2
    (label,) = (text for text in texts if text.startswith("x, from "))
    start = float(label.removeprefix("x, from ").replace(",", "").replace(MINUS, "-"))
    assert low - width / 50 <= start <= low + width / 2
    titles = [str(one.text) for one in drawn.iter("title")][1:]
    assert len({title.split(":")[0] for title in titles}) == 5


def test_bars_have_area_in_proportion_to_their_counts() -> None:
    bars = [Bar("a", 10, 1), Bar("b", 40, 2), Bar("c", 0, 3)] + [Bar("d", 5, 1)] * 3
    drawn = ET.fromstring(histogram("h", bars)).findall("rect")
    heights = [float(bar.attrib["height"]) for bar in drawn]
    assert heights[:3] == [pytest.approx(20.0), pytest.approx(40.0), 0.0]
    assert float(drawn[2].attrib["width"]) + 1 == pytest.approx(3 * (float(drawn[0].attrib["width"]) + 1), abs=0.02)
    assert histogram("h", []) == ""


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figure(None), NONE),
        (figure(float("nan")), NONE),
        (figure(-87.6543), f"{MINUS}87.65"),
        (figure(17031081401.0), "17,031,081,401"),
        (figure(0.00012345), "0.0001234"),
        (figure(0.0), "0"),
        (figure(100.0), "100"),
        (figure(0.12, 12), "0.12"),
        (figure(-87.625, 12), f"{MINUS}87.625"),
        (figure(0.500000001, 16), "0.500000001"),
        (figure(0.000002), "0.000002"),
        (figure(1.2345e-7, 3), f"1.23e{MINUS}07"),
        (figure(1e-7), f"1e{MINUS}07"),
        (figure(1.75e300), "1.75e+300"),
        (score(0.5), "0.5000"),
        (score(123456.789), "123,457"),
        (change(0.01), "+0.0100"),
        (change(-0.01), f"{MINUS}0.0100"),
        (score(-0.00003), "0.0000"),
        (score(-0.00005001), f"{MINUS}0.0001"),
        (change(-0.00003), "0.0000"),
        (change(0.00003), "0.0000"),
        (change(0.0), "0.0000"),
        (percent(0.0), "0%"),
        (percent(0.0001), "< 0.1%"),
        (percent(0.001), "0.1%"),
        (percent(5e-7), "< 0.1%"),
        (percent(0.9999), "> 99.9%"),
        (percent(0.999), "99.9%"),
        (percent(1.0), "100%"),
        (size(999), "999 B"),
        (size(1_400_000), "1.4 MB"),
    ],
)
def test_figures(shown: str, text: str) -> None:
    assert shown == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.25, "0.25"), (0, "0"), (0.00002, "0.00002")),
        *((-1500, "\N{MINUS SIGN}1,500"), (250_000, "250 k"), (1.5e6, "1.5 M"), (2e9, "2 G")),
    ],
)
def test_ticks_are_short_and_have_no_exponent(value: float, shown: str) -> None:
    assert short(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(9.5e15, "9,500 T"), (1e16, "1e+16"), (-2.5e20, f"{MINUS}2.5e+20"), (1e300, "1e+300")]
)
def test_ticks_that_no_unit_makes_short_are_powers_of_ten(value: float, shown: str) -> None:
    assert short(value) == shown


def test_cells_are_as_dark_as_their_count_and_lie_where_they_belong() -> None:
    cells = cell_map("cells", [(0, 1, 100.0), (1, 0, 25.0)], 2, (0.0, 1.0), x_label="prediction")
    drawn = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" opacity="([\d.]+)"', cells)
    (left, top, _, _, dark), (right, bottom, width, height, light) = (tuple(map(float, one)) for one in drawn)
    assert right - left == pytest.approx(width, abs=0.01)
    assert bottom - top == pytest.approx(height, abs=0.01)
    assert dark == 1.0
    assert light == pytest.approx(0.15 + 0.85 / 2, abs=0.01)
