"""Rows without a label are left out of all splits, and counted; the others stay where they are."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from span_runs import DAYS, config, generate, rows_of

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.example_gen.required import RequiredColumn
from headrace.components.examples.arrow_columns import missing_of
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.sources import ParquetSource

LEAST = -(2**63)
LABEL = RequiredColumn("label")
BLANK = st.sampled_from(["", " ", "\t", "\n "])
PART = BLANK | st.sampled_from(["a", " b ", "é", "0"])
TEXT = st.none() | st.lists(PART, max_size=4).map("||".join)


def day(date: str, first: int, labels: list[str]) -> None:
    """The rows of a day, with these labels in turn."""
    rows = [f"{first + row},w{row},{labels[row % len(labels)]}" for row in range(60)]
    Path("in").mkdir(exist_ok=True)
    Path("in", f"{date}.csv").write_text("\n".join(["id,word,label", *rows]) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("values", "arrow", "missing"),
    [
        (["a", "", None, "b"], pa.string(), [False, True, True, False]),
        ([b"", None, b"\0"], pa.binary(), [True, True, False]),
        ([0, None, LEAST, 7], pa.int64(), [False, True, True, False]),
        ([0.0, float("nan"), None, float("inf")], pa.float64(), [False, True, True, False]),
        ([None, None], pa.null(), [True, True]),
        ([["a"], [], None, [""], [None], ["b", ""], ["", "b"]], pa.list_(pa.string()), [0, 1, 1, 1, 1, 0, 1]),
        ([[1.5], [float("nan")], [], [2.0, 3.0]], pa.list_(pa.float32()), [False, True, True, False]),
    ],
)
def test_missing_are_null_nan_an_empty_text_or_list_and_the_least_integer(
    values: list[Any], arrow: pa.DataType, missing: list[bool]
) -> None:
    assert missing_of(pa.array(values, arrow)).tolist() == [bool(one) for one in missing]
    sliced = pa.array([values[0], *values], arrow).slice(1)
    assert missing_of(sliced).tolist() == [bool(one) for one in missing]


def labels_of(value: str | list[str | None] | None) -> list[str]:
    """The classes in a row, cut and stripped one by one."""
    texts = value if isinstance(value, list) else [value]
    return [part.strip() for text in texts if text is not None for part in text.split("||") if part.strip()]


@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(TEXT, min_size=1, max_size=8) | st.lists(st.none() | st.lists(TEXT, max_size=3), min_size=1),
    binary=st.booleans(),
)
def test_a_row_of_several_classes_is_missing_if_every_part_is(*, values: list[Any], binary: bool) -> None:
    arrow = pa.string() if all(value is None or isinstance(value, str) for value in values) else pa.list_(pa.string())
    column = pa.array([values[0], *values], arrow).slice(1)
    if binary:
        column = column.cast(pa.list_(pa.binary()) if pa.types.is_list(arrow) else pa.binary())
    required = RequiredColumn("label", several=True, separator="||")
    assert required.missing_in(column).tolist() == [not labels_of(value) for value in values]


@pytest.mark.parametrize(
    ("values", "arrow", "missing"),
    [
        ([["", "b"], [None, "b"], ["b", ""], ["", None], [], None], pa.list_(pa.string()), [0, 0, 0, 1, 1, 1]),
        ([[LEAST, 1], [LEAST], [0]], pa.list_(pa.int64()), [0, 1, 0]),
        ([" ; ", "", "a", None], pa.string(), [0, 1, 0, 1]),
        ([0, LEAST, None], pa.int64(), [0, 1, 1]),
        ([None, None], pa.null(), [1, 1]),
    ],
)
def test_without_a_separator_a_text_is_one_class(values: list[Any], arrow: pa.DataType, missing: list[int]) -> None:
    found = RequiredColumn("label", several=True).missing_in(pa.array(values, arrow))
    assert found.tolist() == [bool(one) for one in missing]


def test_the_values_behind_a_null_list_are_those_of_no_row() -> None:
    lists = pa.array([["a"], ["b"], [" "], ["c"]])
    masked = pa.ListArray.from_arrays(lists.offsets, lists.values, mask=pa.array([False, True, False, False]))
    required = RequiredColumn("tags", several=True, separator=";")
    assert required.missing_in(masked).tolist() == [False, True, True, False]
    assert required.missing_in(masked.slice(1, 2)).tolist() == [True, True]


def test_rows_that_only_have_separators_are_dropped(folder: Path) -> None:
    labels = pa.array(["a|b", "|", " | ", "b", ""] * 20)
    label = LabelConfig(key="label", kind="multilabel", classes=("a", "b"), separator="|", missing="drop")
    required = RequiredColumn.of(label)
    assert required == RequiredColumn.from_json(required.to_json() if required else "")
    found = of_parquet(folder, labels, required or LABEL)
    assert (found.dropped, Counter(found.rows).total()) == (60, 40)


def test_the_other_rows_get_the_splits_that_they_have_without_dropping(folder: Path) -> None:
    day("2026-01-01", 0, ["yes", "", "no"])
    every = rows_of(generate(folder, config(DAYS), store=False))
    dropped = generate(folder, config(DAYS), store=False, required="label")
    labelled = {split: [row for row in rows if row % 3 != 1] for split, rows in every.items()}
    assert rows_of(dropped) == labelled
    assert dropped.get_int_custom_property("dropped") == 20
    assert set(rows_of(dropped, "label")["train"]) == {b"yes", b"no"}


def test_stored_spans_are_counted_again_and_not_taken_for_those_of_another_setting(folder: Path) -> None:
    day("2026-01-01", 0, ["1", ""])
    first = generate(folder, config(DAYS, window=2), required="label")
    day("2026-01-02", 1000, ["", "", "1"])
    both = generate(folder, config(DAYS, window=2), required="label")
    everything = generate(folder, config(DAYS, window=2))
    found = [one.get_int_custom_property("dropped") for one in (first, both, everything)]
    assert found == [30, 70, 0]
    assert both.get_string_custom_property("read") == "read now: 2026-01-02"
    counted = [sum(map(len, rows_of(one).values())) for one in (first, both, everything)]
    assert counted == [30, 50, 120]


def test_a_span_without_the_column_has_no_labels(folder: Path) -> None:
    day("2026-01-01", 0, ["1", "0"])
    Path("in/2026-01-02.csv").write_text("id,word\n" + "".join(f"{row},x\n" for row in range(9)), encoding="utf-8")
    found = generate(folder, config(DAYS, window=2), required="label")
    assert found.get_int_custom_property("dropped") == 9


def of_parquet(folder: Path, labels: pa.Array, required: RequiredColumn = LABEL, **data: Any) -> IngestResult:
    table = pa.table({"id": np.arange(len(labels)), "label": labels})
    pq.write_table(table, folder / "d.parquet", row_group_size=100)
    source = ParquetSource(kind="parquet", path=str(folder / "d.parquet"))
    parsed = DataConfig.model_validate({"source": source, **data})
    return ingest(parsed, find_spans(parsed), folder / "out", lambda _work: serial_map, required=required)


def test_rows_of_every_batch_are_counted_and_those_skipped_as_well(folder: Path) -> None:
    labels = np.arange(1000.0)
    labels[::4] = np.nan
    labels[1] = 1e300
    found = of_parquet(folder, pa.array(labels, mask=np.arange(1000) % 10 == 9), on_bad_record="skip")
    missing = sum(row % 4 == 0 or row % 10 == 9 for row in range(1000))
    assert (found.dropped, found.skipped.count) == (missing, 1)
    assert Counter(found.rows).total() == 1000 - missing - 1
    assert f"Dropped: {missing:,} rows without a label" in found.log


def test_data_without_any_label_is_refused_with_the_count(folder: Path) -> None:
    with pytest.raises(DataError, match=r"is empty, .*\b0 rows .*\b50 without a label"):
        of_parquet(folder, pa.array([None] * 50, pa.string()))
    assert not list((folder / "out").iterdir())
