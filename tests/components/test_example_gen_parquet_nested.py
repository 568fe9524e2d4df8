"""Structs in Parquet files, and lists of them, as columns: against the rows that were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_files import read, scan_of, write

from headrace.common.errors import DataError
from headrace.components.sources import ReadOptions, open_source
from headrace.components.sources.parquet.source import ParquetFiles
from headrace.configs.schema.sources import ParquetSource

USER = pa.struct({"age": pa.int64(), "home": pa.struct({"zip": pa.string(), "at": pa.list_(pa.float64())})})
ITEM = pa.struct({"price": pa.float64(), "shop": pa.struct({"name": pa.string()})})
SCHEMA = pa.schema({"before": pa.int64(), "user": USER, "items": pa.list_(ITEM), "a.b": pa.int64(), "flag": pa.bool_()})
FLAT = {
    "before": "int", "user.age": "int", "user.home.zip": "string", "user.home.at": "float list",
    "items.price": "float list", "items.shop.name": "string list", "a.b": "int", "flag": "int",
}  # fmt: skip

number, name = st.none() | st.integers(-9, 9), st.none() | st.text("ab", min_size=1, max_size=3)
fraction = st.integers(-40, 40).map(lambda value: value / 8)
home = st.none() | st.fixed_dictionaries({"zip": name, "at": st.none() | st.lists(fraction, min_size=1, max_size=3)})
item = st.fixed_dictionaries({"price": st.none() | fraction, "shop": st.none() | st.fixed_dictionaries({"name": name})})
row = st.fixed_dictionaries(
    {
        "before": number,
        "user": st.none() | st.fixed_dictionaries({"age": number, "home": home}),
        "items": st.none() | st.lists(st.none() | item, max_size=3),
        "a.b": number,
        "flag": st.none() | st.booleans(),
    }
)


def flat(given: dict[str, Any]) -> dict[str, list[Any] | None]:
    """The features of a row: written down column by column, without the code that reads them."""
    user = given["user"] or {}
    house = user.get("home") or {}
    items = [one for one in given["items"] or [] if one is not None]
    names = [shop["name"] for shop in (one["shop"] for one in items) if shop is not None]
    return {
        "before": _values(given["before"]),
        "user.age": _values(user.get("age")),
        "user.home.zip": _values(house.get("zip")),
        "user.home.at": _values(*(house.get("at") or [])),
        "items.price": _values(*(one["price"] for one in items)),
        "items.shop.name": _values(*names),
        "a.b": _values(given["a.b"]),
        "flag": _values(None if given["flag"] is None else int(given["flag"])),
    }


def _values(*given: Any) -> list[Any] | None:
    found = [one.encode() if isinstance(one, str) else one for one in given if one is not None]
    return found or None


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(row, min_size=1, max_size=12), group=st.integers(1, 5), large=st.booleans())
def test_each_value_comes_back_under_the_names_that_lead_to_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], group: int, large: bool
) -> None:
    schema = SCHEMA.set(2, pa.field("items", pa.large_list(ITEM))) if large else SCHEMA
    path = tmp_path_factory.mktemp("nested") / "f.parquet"
    write(path, pa.Table.from_pylist(rows, schema), row_group_size=group)
    assert read(path) == (FLAT, [flat(one) for one in rows])


def test_some_columns_of_a_struct_are_read_alone(tmp_path: Path) -> None:
    rows = [{"before": 1, "user": {"age": 3, "home": {"zip": "07", "at": [0.5]}}, "items": [{"price": 2.5}]}] * 1000
    path = write(tmp_path / "f.parquet", pa.Table.from_pylist(rows, SCHEMA))
    some = ReadOptions(("user.home.zip", "items.price"))
    expected = {"user.home.zip": [b"07"], "items.price": [2.5]}
    assert read(path, some) == ({"user.home.zip": "string", "items.price": "float list"}, [expected] * 1000)
    assert scan_of(path, some).size < scan_of(path).size / 2
    opened = open_source(ParquetSource(kind="parquet", path=str(path)))
    assert isinstance(opened, ParquetFiles)
    assert opened.columns() == list(FLAT)


def test_uint64_within_a_struct_is_text_only_if_its_values_need_it(tmp_path: Path) -> None:
    inner = pa.struct({"small": pa.uint64(), "large": pa.uint64()})
    for written in True, False:  # by its statistics, and by its values
        table = pa.table({"x": pa.array([{"small": 1, "large": 2**63}, None], inner), "y": [1, 2]})
        path = write(tmp_path / f"{written}.parquet", table, write_statistics=written)
        assert scan_of(path).kinds == {"x.small": "int", "x.large": "string", "y": "int"}
        assert read(path)[1][0] == {"x.small": [1], "x.large": [str(2**63).encode()], "y": [1]}


def test_a_flat_column_with_the_name_of_one_in_a_struct_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"x": pa.array([{"a": 1}]), "x.a": [1]})
    with pytest.raises(DataError, match="two columns have this name") as caught:
        read(path)
    assert caught.value.column == "x.a"


def test_a_struct_in_one_file_and_a_value_in_another_names_both(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"x": pa.array([{"a": 1}])})
    write(tmp_path / "2.parquet", {"x": [1]})
    with pytest.raises(DataError, match=r"no column 'x(\.a)?', .*parquet has"):
        read(tmp_path)


def test_a_column_that_no_feature_can_hold_hides_no_other_of_its_struct(tmp_path: Path) -> None:
    inner = pa.struct({"tags": pa.map_(pa.string(), pa.int64()), "n": pa.int64()})
    path = write(tmp_path / "f.parquet", {"x": pa.array([{"tags": [("k", 1)], "n": 4}], inner), "after": [7]})
    with pytest.raises(DataError, match="map") as caught:
        read(path)
    assert caught.value.column == "x.tags"
    found = read(path, ReadOptions(("x.n", "after")))
    assert found == ({"x.n": "int", "after": "int"}, [{"x.n": [4], "after": [7]}])
