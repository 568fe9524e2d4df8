"""What databases' drivers give, as columns."""

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.sources.sql.values import column_of, kind_of_values

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.dates(),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**12), max_value=10**12),
    st.datetimes(), st.lists(st.integers(-9, 9) | st.text(), max_size=3),
)  # fmt: skip


@given(st.lists(VALUES, max_size=8))
def test_any_values_fit_the_kind_that_is_found_for_them(values: list[object]) -> None:
    kind = kind_of_values(values)
    column = column_of(values, kind, "x")
    assert len(column) == len(values)
    missing: list[Any] = [None, []] if kind == "missing" else [None]
    assert [value is None for value in column.to_pylist()] == [value in missing for value in values]


@pytest.mark.parametrize(
    ("values", "kind", "column"),
    [
        ([True, None, 2], "int", [1, None, 2]),
        ([1, decimal.Decimal("0.5")], "float", [1.0, 0.5]),
        ([decimal.Decimal("5.00"), None], "float", [5.0, None]),
        ([decimal.Decimal(2**62), 1], "int", [2**62, 1]),
        ([decimal.Decimal(2**63)], "string", [str(2**63)]),
        ([decimal.Decimal("NaN"), decimal.Decimal(3)], "float", [math.nan, 3.0]),
        ([2**63], "string", [str(2**63)]),
        ([dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)], "string", ["2024-02-29", "2024-02-29 12:00:00"]),
        ([b"\xff", "ü"], "bytes", [b"\xff", "ü".encode()]),
        ([[1], [], None, (2.5,)], "float list", [[1.0], [], None, [2.5]]),
        ([None], "missing", [None]),
    ],
)
def test_values_become_columns(values: list, kind: str, column: list) -> None:
    assert kind_of_values(values) == kind
    assert str(column_of(values, kind, "x").to_pylist()) == str(column)  # NaN is not NaN, but its text is


@pytest.mark.parametrize(
    ("value", "kind"), [(1.5, "int"), ("x", "float"), (2**63, "int"), (b"1", "int"), (b"\xff", "string")]
)
def test_a_value_that_is_not_of_its_declared_type_is_reported(value: object, kind: Any) -> None:
    with pytest.raises(DataError, match="column 'x'"):
        column_of([None, value], kind, "x")
    assert column_of([None], kind, "x").equals(pa.array([None], column_of([], kind, "x").type))


def test_values_that_are_not_of_their_declared_type_are_listed() -> None:
    with pytest.raises(DataError, match=r"column 'x': 'b', 'c', 'd' .* int"):
        column_of(["1", "b", None, "c", 2, "d", "b"], "int", "x")
    with pytest.raises(DataError, match=r"'a0', .*'a9' and 20 more are"):
        column_of([f"a{number}" for number in range(30)], "int", "x")
