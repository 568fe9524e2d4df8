"""Rows of a generator: what pandas makes of the same rows comes back, streamed, and mistakes name the row."""

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_rows import read_source, values_of

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import open_source, serial_map
from headrace.components.sources.base import HasHead
from headrace.components.sources.python import rows as rows_module
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import PythonSource

Give = Callable[..., PythonSource]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """A source whose function yields these items, or is this function."""
    module = ModuleType("given_rows")
    monkeypatch.setitem(sys.modules, "given_rows", module)

    def source(given: Any, **settings: Any) -> PythonSource:
        module.rows = given if callable(given) else lambda: iter(given)  # type: ignore[attr-defined]
        return PythonSource(kind="python", function="given_rows.rows", **settings)

    return source


ROW = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "x": st.none() | st.floats(allow_nan=False) | st.integers(-9, 9),
        "s": st.none() | st.text(max_size=3),
        "on": st.booleans(),
        "l": st.lists(st.integers(0, 9), min_size=1, max_size=3),
        "user": st.fixed_dictionaries({}, optional={"age": st.integers(0, 99), "home": st.just({"city": "Oslo"})}),
    },
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=12), length=st.sampled_from([1, 3, 4096]))
def test_dictionaries_come_back_as_pandas_flattens_them(rows: list[dict[str, Any]], length: int) -> None:
    sys.modules["drawn_rows"] = module = ModuleType("drawn_rows")
    module.rows = lambda: iter(rows)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "ROWS", length)
        found = read_source(PythonSource(kind="python", function="drawn_rows.rows"))[1]
    flat = [pd.json_normalize(row).astype(object).to_dict("records")[0] for row in rows]
    assert [values_of(row) for row in found] == [values_of(row) for row in flat]


def test_values_of_python_and_numpy_have_the_kinds_of_parquet(give: Give) -> None:
    row = {
        "int": np.int32(7), "float": np.float32(0.5), "bool": np.bool_(True), "decimal": Decimal("1.25"),
        "day": dt.date(2026, 11, 21), "bytes": b"\xff", "array": np.array([1.5, 2.5]), "items": [{"p": 1}, {"p": 2}],
        "none": None,
    }  # fmt: skip
    scan, (found,) = read_source(give([row]))
    assert scan.kinds == {
        "int": "int", "float": "float", "bool": "int", "decimal": "float", "day": "string", "bytes": "bytes",
        "array": "float list", "items.p": "int list", "none": "missing",
    }  # fmt: skip
    assert found == {
        "int": 7, "float": 0.5, "bool": 1, "decimal": 1.25, "day": "2026-11-21", "bytes": b"\xff",
        "array": [1.5, 2.5], "items.p": [1, 2], "none": None,
    }  # fmt: skip


def test_tables_batches_and_frames_are_many_rows(give: Give) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    items = [table, {"a": 3}, table.to_batches()[0], pd.DataFrame({"a": [4.5], "b": ["y"]})]
    scan, rows = read_source(give(items))
    assert scan.rows == {"given_rows.rows": 6}
    assert [row["a"] for row in rows] == [1, 2, 3, 1, 2, 4.5]
    assert [row["b"] for row in rows] == ["x", None, None, "x", None, "y"]


def test_rows_are_written_as_they_come_and_the_function_runs_once(give: Give, tmp_path: Path) -> None:
    most, alive, ended = 0, 0, 0

    class Row(dict[str, int]):
        def __init__(self, number: int) -> None:
            nonlocal alive, most
            super().__init__(a=number)
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def rows() -> Iterator[Row]:
        nonlocal ended
        for number in range(20_000):
            yield Row(number)
        ended += 1

    data = DataConfig(source=give(rows))
    result = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    assert sum(result.rows.values()) == 20_000
    assert most < 2 * rows_module.ROWS
    assert ended == 1


def test_a_function_that_is_not_read_to_its_end_is_closed(give: Give) -> None:
    closed = []

    def rows() -> Iterator[dict[str, int]]:
        try:
            for number in range(10_000):
                yield {"a": number, "b": number}
        finally:
            closed.append(number)

    assert open_source(give(rows)).columns() == ["a", "b"]
    assert closed == [199]


def test_the_head_of_few_rows_is_all_of_them(give: Give) -> None:
    for number, whole in ((10_000, True), (10_001, False)):
        source = open_source(give([{"a": 1}] * number))
        assert isinstance(source, HasHead)
        head = source.head()
        assert (head.whole, head.source.scan(head.part, {}).rows) == (whole, {"given_rows.rows": 10_000})


@pytest.mark.parametrize(
    ("items", "words", "column"),
    [
        ([{"a": 1}, {"a": 2}, {"a": "x"}], r"row 2 .*'x' \(str\), .*earlier one 1", "a"),
        ([pa.table({"a": [1]}), pa.table({"a": ["x"]})], "int before row 1, .*string", "a"),
        ([{"a": 1}, (1, 2)], "tuple after row 1; expected .*dictionary", None),
        ([{"a": 1}, None, {"a": 2}], "NoneType after row 1; expected .*dictionary", None),
        ([{1: 2}], "the key 1, which cannot name a column", None),
        ([{"a": {"b": 1}, "a.b": 2}], "two keys lead to", "a.b"),
        ([{"a": [[1]]}], "lists of lists", "a"),
        ([{"a": object()}], "row 0", "a"),
        ([{"a": 1}, {"a": {"b": 1}}], "row 1", "a"),
        ([pa.table({"a": [1]}), pa.table({"a": [{"b": 1}]})], "a dictionary in some rows", "a"),
    ],
)
def test_what_is_not_rows_is_reported_with_its_place(give: Give, items: list[Any], words: str, column: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_source(give(items), skip_bad=True)
    assert (caught.value.file, caught.value.column) == ("given_rows.rows", column)


def test_a_dot_in_a_flat_name_makes_no_dictionary(give: Give) -> None:
    rows: list[dict[str, Any]] = [{"x": 1, "x.1": 2.5}, {"x": None, "x.1": 3.5}]
    for items in (rows, [pd.DataFrame(rows)], [pa.Table.from_pylist(rows)]):
        scan, found = read_source(give(items))
        assert ([*scan.kinds], [values_of(row) for row in found]) == (["x", "x.1"], [values_of(row) for row in rows])
    missing = [{"x": None, "x.1": 1}]
    assert read_source(give(missing))[0].kinds == {"x": "missing", "x.1": "int"}
    with pytest.raises(DataError, match="a dictionary in some rows") as caught:
        read_source(give([pa.table({"x": [1], "x.1": [1]}), pa.table({"x": [{"z": 1}]})]))
    assert caught.value.column == "x"


def test_declared_types_hold_what_is_mixed(give: Give) -> None:
    rows = [{"a": 1, "b": "2"}, {"a": "x", "b": 3}, {"a": None, "b": 4.5}]
    assert [row["a"] for row in read_source(give(rows), {"a": "string"}, ("a",))[1]] == ["1", "x", None]
    assert [row["b"] for row in read_source(give(rows), {"b": "float"}, ("b",))[1]] == [2.0, 3.0, 4.5]
    with pytest.raises(DataError, match=r"row 1 \(counted from 0\)") as caught:
        read_source(give(rows), {"a": "int"}, ("a",))
    assert caught.value.column == "a"
    scan, found = read_source(give(rows), {"a": "int"}, ("a",), skip_bad=True)
    assert (scan.skipped.count, [row["a"] for row in found]) == (1, [1, None])


def test_what_pandas_puts_for_a_missing_value_is_missing(give: Give) -> None:
    rows = [{"a": "x", "n": 1.5}, {"a": float("nan"), "n": float("nan")}, {"a": pd.NA, "n": pd.NaT}]
    assert read_source(give(rows))[1] == [{"a": "x", "n": 1.5}, {"a": None, "n": None}, {"a": None, "n": None}]
    mixed = [{"a": "x"}, {"a": 3}, {"a": float("nan")}, {"a": True}]
    assert [row["a"] for row in read_source(give(mixed), {"a": "string"})[1]] == ["x", "3", None, "1"]


def test_an_error_of_the_function_names_its_line(give: Give) -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise KeyError("gone")

    with pytest.raises(
        DataError, match=r"given_rows\.rows raised KeyError: 'gone' \(.*test_example_gen_python\.py:\d+\)"
    ):
        read_source(give(rows))


@pytest.mark.parametrize("returned", [{"a": 1}, 7, "rows"])
def test_a_function_that_returns_no_rows_is_named(give: Give, returned: object) -> None:
    with pytest.raises(DataError, match=r"data\.source\.function: given_rows\.rows returned"):
        open_source(give(lambda: returned)).columns()


def test_the_fingerprint_is_what_its_function_returns(give: Give) -> None:
    source = give([{"a": 1}])
    assert find_spans(DataConfig(source=source)).fingerprint == find_spans(DataConfig(source=source)).fingerprint
    days = iter([1, 1, 2])
    sys.modules["given_rows"].day = lambda: next(days)  # type: ignore[attr-defined]
    data = DataConfig(source=give([{"a": 1}], fingerprint="given_rows.day"))
    marks = [find_spans(data).fingerprint for _ in range(3)]
    assert (marks[0] == marks[1], marks[1] == marks[2]) == (True, False)


def test_the_code_of_the_functions_counts_for_what_is_read() -> None:
    source = PythonSource(kind="python", function={"train": "a.rows", "test": "b.c.rows"}, fingerprint="d.day")
    assert {*source.own_modules()} >= {"a", "b.c", "d", "headrace.components.sources.python.source"}
    assert source.functions()[("function", "test")] == "b.c.rows"


def test_each_split_has_a_function_of_its_own(give: Give, tmp_path: Path) -> None:
    give([{"a": number} for number in range(90)])
    sys.modules["given_rows"].test = lambda: iter([{"a": 1, "b": 2}] * 7)  # type: ignore[attr-defined]
    own = PythonSource(kind="python", function={"train": "given_rows.rows", "test": "given_rows.test"})
    data = DataConfig(source=own, splits={"train": 8, "eval": 1, "test": 1})
    rows = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map).rows
    assert (rows["test"], rows["train"] + rows["eval"]) == (7, 90)


def test_only_the_columns_asked_for_are_read(give: Give) -> None:
    rows = [{"a": 1, "u": {"n": 2, "deep": [[1]]}}]
    scan, found = read_source(give(rows), None, ("u.n",))
    assert (scan.kinds, found) == ({"u.n": "int"}, [{"u.n": 2}])
