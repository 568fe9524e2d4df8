"""The columns that predictions become, and the formats of the output, on values that formats get wrong."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.common.record_batches import in_one_batch
from headrace.components.predict.model import PredictionColumns
from headrace.components.predict.predict import merged
from headrace.components.predict.writers import ROW_GROUP, check_output, open_writer
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.predict import Probabilities
from headrace.pipeline.verbs.predict import predict

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = {
    pa.int64(): INT64,
    pa.float64(): DOUBLES,
    pa.float32(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    pa.bool_(): st.booleans(),
    pa.string(): TEXTS | st.sampled_from(['"', "\\", "\x1f", "a\nb", "\r", ",", "\u2028", "😀", "null", "7"]),
}
NO_LISTS = {pa.float32(), pa.bool_()}
LISTS = {pa.list_(inner): st.lists(values, max_size=3) for inner, values in COLUMNS.items() if inner not in NO_LISTS}
NAMES = st.lists(TEXTS.filter(bool), min_size=1, max_size=4, unique=True)


@st.composite
def tables(draw: st.DrawFn, *, lists: bool) -> pa.Table:
    """Tables of any names and types, with missing values."""
    rows = draw(st.integers(1, 5))
    kinds = {**COLUMNS, **(LISTS if lists else {})}
    columns = {}
    for name in draw(NAMES):
        arrow = draw(st.sampled_from(list(kinds)))
        columns[name] = pa.array(draw(st.lists(st.none() | kinds[arrow], min_size=rows, max_size=rows)), arrow)
    return pa.table(columns)


def written(table: pa.Table, file: Path) -> Path:
    with open_writer(file, file, table.schema) as write:
        for batch in table.to_batches(max_chunksize=2):
            write(batch)
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@settings(max_examples=60)
@given(tables(lists=True))
def test_parquet_and_json_lines_hold_every_value(folder: Path, table: pa.Table) -> None:
    assert pq.read_table(written(table, folder / "any.parquet")).equals(table)
    lines = gzip.decompress(written(table, folder / "any.jsonl.gz").read_bytes()).decode().split("\n")
    assert lines.pop() == ""
    found = [json.loads(line) for line in lines]
    assert [list(row) for row in found] == [table.column_names] * table.num_rows
    for name in table.column_names:
        column = pa.array([row[name] for row in found], table[name].type)
        assert column.equals(table[name].combine_chunks()), name


@settings(max_examples=60)
@given(tables(lists=False))
def test_csv_holds_every_value(folder: Path, table: pa.Table) -> None:
    table = table.append_column("\0", pa.array(range(table.num_rows)))  # as a prediction, which is never missing
    text = written(table, folder / "any.csv").read_bytes().decode()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == table.column_names
    parse: dict[pa.DataType, Callable[[str], object]] = {
        pa.int64(): int,
        pa.float64(): float,
        pa.bool_(): {"true": True, "false": False}.get,
    }
    for row, expected in zip(rows, table.to_pylist(), strict=True):
        for cell, (name, value) in zip(row, expected.items(), strict=True):
            kind = table[name].type
            if value is None:
                assert cell == ""
            elif kind == pa.float32():
                assert np.float32(cell) == value
            else:
                assert parse.get(kind, str)(cell) == value


@settings(max_examples=40)
@given(tables(lists=True))
def test_tfrecords_hold_every_value_as_float32(folder: Path, table: pa.Table) -> None:
    records = tf.data.TFRecordDataset(str(written(table, folder / "any.tfrecord"))).as_numpy_iterator()
    examples = [tf.train.Example.FromString(record).features.feature for record in records]
    for features, row in zip(examples, table.to_pylist(), strict=True):
        for name, value in row.items():
            values = [] if value is None else value if isinstance(value, list) else [value]
            assert _values(features[name]) == [_stored(one) for one in values], name


def _stored(value: Any) -> Any:
    with np.errstate(over="ignore"):
        return (
            value.encode()
            if isinstance(value, str)
            else float(np.float32(value))
            if isinstance(value, float)
            else value
        )


def _values(feature: tf.train.Feature) -> list[Any]:
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


def test_json_lines_have_null_for_what_is_not_finite(tmp_path: Path) -> None:
    table = pa.table({"x": [math.nan, math.inf, 1.0], "y": [[math.nan, 2.0], [], None]})
    lines = written(table, tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"x": None, "y": [None, 2.0]},
        {"x": None, "y": []},
        {"x": 1.0, "y": None},
    ]


def test_parquet_collects_batches_into_row_groups(tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(3 * ROW_GROUP // 2)})
    with open_writer(tmp_path / "x.parquet", tmp_path / "x.parquet", table.schema) as write:
        for batch in table.to_batches(max_chunksize=1 << 14):
            write(batch)
    found = pq.ParquetFile(tmp_path / "x.parquet")
    assert [found.metadata.row_group(group).num_rows for group in range(found.num_row_groups)] == [
        ROW_GROUP,
        ROW_GROUP // 2,
    ]
    assert found.read().equals(table)


def test_no_rows_are_a_file_with_columns(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    assert pq.read_table(written(table, tmp_path / "x.parquet")).schema == table.schema
    assert written(table, tmp_path / "x.csv").read_text() == '"a","b"\n'
    assert written(table, tmp_path / "x.jsonl").read_text() == ""
    assert gzip.decompress(written(table, tmp_path / "x.tfrecord.gz").read_bytes()) == b""


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.int64())])
def test_csv_refuses_bytes_and_lists(kind: pa.DataType) -> None:
    with pytest.raises(DataError, match=r"'tags'.*\n.*--columns"):
        check_output(Path("x.csv.gz"), pa.schema({"tags": kind}))
    check_output(Path("x.parquet"), pa.schema({"tags": kind}))


def columns(label: LabelConfig, values: Sequence[Sequence[float]], *words: str) -> dict[str, Any]:
    found = PredictionColumns(label, words).of(np.array(values, np.float32))
    assert found.schema == PredictionColumns(label, words).schema
    return found.to_pydict()


def test_json_lines_refuse_bytes_that_are_not_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not UTF-8") as caught:
        written(pa.table({"a": [1], "image": [b"\x89PNG"]}), tmp_path / "x.jsonl")
    assert caught.value.column == "image"
    assert "--columns" in (caught.value.hint or "")


def test_a_binary_label_has_a_column_for_each_class() -> None:
    label = LabelConfig(key="y", kind="binary", classes=("no", "yes"))
    assert columns(label, [[0.25], [0.5], [0.75]]) == {
        "prediction": ["no", "no", "yes"],
        "probability_no": [0.75, 0.5, 0.25],
        "probability_yes": [0.25, 0.5, 0.75],
    }
    assert columns(LabelConfig(key="y", kind="binary"), [[1.0]])["prediction"] == [1]


def test_classes_are_in_the_order_of_the_config() -> None:
    label = LabelConfig(key="y", kind="multiclass", classes=(30, 10, 20))
    found = columns(label, [[0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])
    assert list(found) == ["prediction", "probability_30", "probability_10", "probability_20"]
    assert found["prediction"] == [10, 20]


def test_several_classes_at_once_are_those_above_one_half_and_the_probability_of_each() -> None:
    label = LabelConfig(key="y", kind="multilabel", classes=("b", "a"))
    assert columns(label, [[0.25, 0.75], [0.875, 0.5], [0.875, 0.75], [0.5, 0.0]]) == {
        "prediction": [["a"], ["b"], ["b", "a"], []],
        "probability_b": [0.25, 0.875, 0.875, 0.5],
        "probability_a": [0.75, 0.5, 0.75, 0.0],
    }
    assert columns(LabelConfig(key="y", kind="multilabel", classes=3), [[0.75, 0, 1]])["prediction"] == [[0, 2]]
    none = PredictionColumns(label).schema.field("prediction")
    assert none.type == pa.list_(pa.string())


@pytest.mark.parametrize(
    ("classes", "separator", "joined"),
    [(("b", "a"), None, "b|a"), (("b", "a"), ", ", "b, a"), (("b|c", "a"), None, "b|c;a"), (2, None, "0|1")],
)
def test_for_csv_several_classes_at_once_are_one_text(classes: Any, separator: str | None, joined: str) -> None:
    label = LabelConfig(key="y", kind="multilabel", classes=classes, separator=separator)
    values = np.array([[0.75, 0.75], [0.25, 0.25]], np.float32)
    found = PredictionColumns(label, joined=True)
    assert found.of(values).to_pydict()["prediction"] == [joined, ""]
    assert found.schema.field("prediction").type == pa.string()


def test_a_regression_is_one_number() -> None:
    assert columns(LabelConfig(key="y", kind="regression"), [[-1.5]]) == {"prediction": [-1.5]}


def test_the_next_word_is_the_best_known_one_with_the_probability_of_each() -> None:
    label = LabelConfig(key="y", kind="next_word", text="t")
    found = columns(label, [[0.125, 0.25, 0.625]], 'a"b,', "or")
    assert found == {"prediction": ["or"], 'probability_a"b,': [0.125], "probability_or": [0.25]}
    assert list(found) == ["prediction", 'probability_a"b,', "probability_or"]


@pytest.mark.parametrize("kind", ["multiclass", "next_word"])
@pytest.mark.parametrize(
    ("probabilities", "number", "written"),
    [
        ("auto", 10_000, 10_000),
        ("auto", 10_001, 1),
        ("all", 10_001, 10_001),
        ("best", 3, 1),
        ("none", 3, 0),
    ],
)
def test_probabilities_are_written_as_chosen_and_of_many_classes_the_best(
    kind: Any, probabilities: Any, number: int, written: int
) -> None:
    words = [f"w{at}" for at in range(number)] if kind == "next_word" else []
    label = LabelConfig(key="y", kind=kind, **({"text": "t"} if words else {"classes": number}))
    values = np.random.default_rng(7).random((3, number + bool(words)), np.float32)
    values[:, number - 1] = [0.5, 2.0, 0.25]
    found = PredictionColumns(label, words, probabilities=probabilities)
    batch, best = found.of(values), values[:, :number].argmax(axis=1)
    assert found.schema == batch.schema
    assert batch["prediction"].to_pylist() == ([words[at] for at in best] if words else best.tolist())
    assert batch.num_columns == 1 + written
    if written == 1:
        assert batch["probability"].to_pylist() == values[:, :number].max(axis=1).tolist()
    elif written:
        names = [f"probability_{name}" for name in words or range(number)]
        assert batch.schema.names[1:] == names
        assert np.array_equal(np.stack([column.to_numpy() for column in batch.columns[1:]], axis=1), values[:, :number])


def test_the_command_takes_the_same_choices_as_the_config() -> None:
    (option,) = (each for each in predict.params if each.name == "probabilities")
    assert tuple(option.type.choices) == get_args(Probabilities)  # type: ignore[attr-defined]


def test_of_several_classes_at_once_the_highest_probability_may_be_written_alone() -> None:
    label = LabelConfig(key="y", kind="multilabel", classes=("b", "a"))
    found = PredictionColumns(label, probabilities="best").of(np.array([[0.25, 0.75]], np.float32)).to_pydict()
    assert found == {"prediction": [["a"]], "probability": [0.75]}


def test_too_many_classes_for_a_column_each_have_the_probability_of_the_best() -> None:
    label = LabelConfig(key="y", kind="multiclass", classes=10_001)
    values = np.zeros((1, 10_001))
    values[0, 7] = 0.5
    assert columns(label, values.tolist()) == {"prediction": [7], "probability": [0.5]}


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 20), st.integers(1, 400))
def test_small_batches_are_merged_and_keep_their_rows(lengths: list[int], rows: int, size: int) -> None:
    table = pa.table({"id": pa.array(range(sum(lengths)), pa.int64())})
    starts = np.cumsum([0, *lengths])
    batches = (in_one_batch(table.slice(start, length)) for start, length in zip(starts, lengths, strict=False))
    found = list(merged(batches, lambda length: max(1, min(rows, size // length))))
    assert [row for batch in found for row in batch["id"].to_pylist()] == list(range(sum(lengths)))
    for batch in found[:-1]:
        assert batch.num_rows % max(1, min(rows, size // 8)) == 0
