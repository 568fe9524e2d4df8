"""Numbers in messages."""

from __future__ import annotations

import pytest

from headrace.common.figures import figure, plural


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (105.3, 2, "105"),
        (0.92, 2, "0.92"),
        (-13230.52, 4, "-13,231"),
        (0.0, 3, "0"),
        (2e-11, 3, "2e-11"),
        (1.5e-7, 3, "1.5e-07"),
        (1.5e-6, 3, "0.0000015"),
        (9.9e20, 2, "990,000,000,000,000,000,000"),
        (-1.8e300, 3, "-1.8e+300"),
        (7.0, 4, "7"),
    ],
)
def test_figures_have_no_power_of_ten_unless_they_are_tiny_or_huge(value: float, digits: int, expected: str) -> None:
    assert figure(value, digits) == expected


@pytest.mark.parametrize(("number", "expected"), [(0, "0 columns"), (1, "1 column"), (13_230, "13,230 columns")])
def test_counts_have_their_noun_in_the_right_number(number: int, expected: str) -> None:
    assert plural(number, "column") == expected
