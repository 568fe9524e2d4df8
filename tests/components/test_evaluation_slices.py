"""The slices of a batch."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.components.evaluation.slices import SliceKey, assign_slices, name_missing

Row = tuple[int | None, str | None, float | None]


def _batch(rows: Iterable[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    types = (pa.list_(pa.int64()), pa.list_(pa.binary()), pa.list_(pa.float32()))
    arrays = [
        pa.array(
            [[] if value is None else [value.encode() if isinstance(value, str) else value] for value in column], kind
        )
        for column, kind in zip(columns, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["hour", "company", "fare"])


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-2, 2),
        st.none() | st.sampled_from(["a", "é", ""]),
        st.none() | st.sampled_from([0.5, 2.0]),
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(
    ROWS, st.sampled_from([(), ("hour",), ("company",), ("fare",), ("hour", "company"), ("fare", "company", "hour")])
)
def test_each_row_is_in_the_slice_of_its_values(rows: list[Row], columns: tuple[str, ...]) -> None:
    found = assign_slices(_batch(rows), columns)
    for row, group in zip(rows, found.groups, strict=True):
        values = dict(zip(("hour", "company", "fare"), row, strict=True))
        expected = tuple((column, None if values[column] == "" else values[column]) for column in sorted(columns))
        assert found.keys[group] == expected
    assert len(set(found.keys)) == len(found.keys)


@settings(deadline=None)
@given(ROWS, st.sampled_from([("hour",), ("company",), ("fare",), ("hour", "company"), ("fare", "company", "hour")]))
def test_the_rows_of_the_slices_are_those_of_pandas_groupby_with_missing_values(
    rows: list[Row], columns: tuple[str, ...]
) -> None:
    found = assign_slices(_batch(rows), columns)
    frame = pd.DataFrame(rows, columns=["hour", "company", "fare"], dtype=object)
    expected = frame.replace("", None).fillna("missing").groupby(sorted(columns), dropna=False).size().to_dict()
    counts = np.bincount(found.groups, minlength=len(found.keys)).tolist()
    assert sum(counts) == len(rows)
    assert {
        tuple("missing" if value is None else value for _, value in key): count
        for key, count in zip(found.keys, counts, strict=True)
    } == {key if isinstance(key, tuple) else (key,): count for key, count in expected.items()}


def test_the_rows_of_a_column_that_is_absent_or_without_values_are_one_slice() -> None:
    batch = pa.RecordBatch.from_pydict({"x": pa.nulls(3), "y": pa.array([[1.0], None, [float("nan")]])})
    for name in ("x", "z"):
        assert assign_slices(batch, [name]).groups.tolist() == [0, 0, 0]
        assert assign_slices(batch, [name]).keys == [((name, None),)]
    found = assign_slices(batch, ["y"])
    assert [found.keys[group] for group in found.groups] == [(("y", 1.0),), (("y", None),), (("y", None),)]


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ([[b""], [], [b"a"], None, [b"", b"a"]], pa.binary(), [None, None, "a", None, None]),
        ([[-(2**63)], [0], []], pa.int64(), [None, 0, None]),
        ([[0.0], [-0.0], [float("nan")], [1.5]], pa.float32(), [0.0, 0.0, None, 1.5]),
        ([[b"\xff"], [b"\xfe"], [b"\\xff"], [b"\xff"]], pa.binary(), ["\\xff", "\\xfe", "\\xff", "\\xff"]),
    ],
)
def test_slices_have_the_features_meaning_of_missing_and_each_key_once(
    column: list[list[Any] | None], kind: pa.DataType, expected: list[Any]
) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(column, pa.list_(kind))], names=["x"])
    found = assign_slices(batch, ["x"])
    assert [found.keys[group] for group in found.groups] == [(("x", value),) for value in expected]
    assert len(set(found.keys)) == len(found.keys)


def test_a_missing_value_differs_from_a_text_that_says_so() -> None:
    keys: list[SliceKey] = [(), (("a", "(missing)"),), (("a", None),), (("b", None),)]
    assert list(name_missing(keys).values()) == [
        (),
        (("a", "(missing)"),),
        (("a", "((missing))"),),
        (("b", "(missing)"),),
    ]
