"""How many rows a call of a model takes, by the shapes in SavedModels that TensorFlow writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import BadRecordError, DataError, RunError
from headrace.components.predict.call_size import (
    BATCH_BYTES,
    BATCH_SIZE,
    BATCH_VALUES,
    MOST_ROWS,
    SMALL_BYTES,
    SMALL_VALUES,
    rows_per_call,
)
from headrace.components.predict.model import Predictor, RefusedRecordError
from headrace.components.predict.predict import Request, predict_file
from headrace.components.predict.reading import Input
from headrace.components.predict.serving_graph import load
from headrace.components.sources import serial_map
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.predict import PredictConfig
from headrace.trainer.description import ModelDescription
from headrace.trainer.served_model import ModelCall

MODEL = ModelDescription(
    label=LabelConfig(key="y", kind="regression"), types={"x": "float", "y": "float"}, features=("x",), multivalued=()
)
FEATURES = {"x": tf.io.VarLenFeature(tf.float32), "text": tf.io.VarLenFeature(tf.string)}


def saved(folder: Path, compute: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Path:
    """A SavedModel that computes predictions from a number, [batch, 1], and a text, [batch]."""
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, FEATURES)
        number = tf.ensure_shape(tf.sparse.to_dense(parsed["x"]), [None, 1])
        text = tf.reshape(tf.sparse.to_dense(parsed["text"]), [tf.shape(number)[0], -1])[:, :1]
        return {"predictions": compute(number, tf.reshape(text, [-1]))}

    module.predict = predict
    tf.saved_model.save(module, str(folder / "model"), {"serving_default": predict})
    MODEL.write(folder / "model")
    return folder / "model"


def widest(folder: Path) -> int | None:
    found = load(folder, ModelCall("y"))
    assert found is not None
    return found.values_per_row


def dense(number: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    hidden = tf.nn.relu(number @ tf.ones([1, 96]))
    return hidden @ tf.ones([96, 1])


def many_heads(number: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    members = tf.einsum("bi,kio->bko", number, tf.ones([12, 1, 64]))
    return tf.reduce_sum(members, axis=[1, 2])[:, None]


def constants(number: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    table = tf.reshape(tf.range(5_000.0), [100, 50])  # as large as any layer, and the same for all rows
    return tf.gather(table, tf.cast(number[:, 0], tf.int32) % 100)[:, :1]


def words(number: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    lengths = tf.strings.length(tf.strings.split(text).to_tensor())  # of them, row and column are two
    return number + tf.cast(tf.reduce_sum(lengths, axis=1, keepdims=True), tf.float32)


def embedded_words(number: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    lengths = tf.strings.length(tf.strings.split(text).to_tensor())
    return number + tf.reduce_sum(tf.gather(tf.ones([100, 8]), lengths), axis=[1, 2])[:, None]


@pytest.mark.parametrize(
    ("compute", "values"), [(dense, 96), (many_heads, 12 * 64), (constants, 50), (words, 2), (embedded_words, None)]
)
def test_the_widest_tensor_is_the_one_with_the_most_values_for_each_row(
    tmp_path: Path, compute: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], values: int | None
) -> None:
    assert widest(saved(tmp_path, compute)) == values


@given(st.integers(1, 1 << 40) | st.none(), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_call_stays_within_every_limit(values: int | None, length: int, outputs: int) -> None:
    rows = rows_per_call(values, length, outputs)
    assert 1 <= rows <= MOST_ROWS
    assert rows == 1 or (rows * length <= BATCH_BYTES and rows * outputs <= BATCH_VALUES)
    if rows > BATCH_SIZE:
        assert values is not None
        assert rows * values <= SMALL_VALUES
        assert rows * length <= SMALL_BYTES
    assert rows >= min(BATCH_SIZE, BATCH_BYTES // max(1, length), BATCH_VALUES // max(1, outputs))


@pytest.mark.parametrize(
    ("values", "length", "rows"),
    [(128, 120, 16_384), (240, 450, 8_192), (8_000, 80, 2_048), (None, 80, 2_048), (128, 4_000, 2_048)],
)
def test_narrow_rows_of_small_layers_are_called_many_at_a_time(values: int | None, length: int, rows: int) -> None:
    assert rows_per_call(values, length, 1) == rows


def refusing(number: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    tf.debugging.assert_less(number, 100.0, "x is too large")
    return number * 2.0


@pytest.mark.parametrize("refused", [[0], [19_999], [7_777, 12_345], list(range(5_000, 20_000))])
def test_the_first_record_that_the_model_refuses_is_named(tmp_path: Path, refused: list[int]) -> None:
    values = np.arange(20_000, dtype=np.float64) % 50
    predictor = Predictor(saved(tmp_path, refusing), MODEL)
    batch = pa.record_batch({"x": values})
    np.testing.assert_array_equal(predictor(batch)[:, 0], values * 2)
    values[refused] = 100
    with pytest.raises(RefusedRecordError, match=f"record {refused[0] + 1:,}: .*x is too large") as error:
        predictor(pa.record_batch({"x": values}))
    assert error.value.row == refused[0]


PADDING = "x" * 2_000


def csv_file(file: Path, rows: int, bad: int | None, *more: str) -> None:
    """Rows of 2 kB of which the model refuses one, by its number from 1; `more` are lines in front of them."""
    lines = (f"{100 if row == bad else row % 50},{PADDING}\n" for row in range(1, rows + 1))
    file.write_text("".join(["x,padding\n", *more, *lines]), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [False, True], ids=["one process", "tasks"])
@pytest.mark.parametrize(
    ("rows", "refused", "skip", "named"),
    [
        ([5, 20_000], (1, 19_000), False, r"b\.csv: the model cannot predict record 19,000: "),
        ([5, 7, 6], (1, 3), False, r"b\.csv: the model cannot predict record 3: "),
        ([5, 20_000], (1, 19_000), True, r"b\.csv: .* record 19,001 "),
    ],
    ids=["several parts", "one part", "skipped records"],
)
def test_a_refused_record_is_named_by_its_file_and_its_number_in_it(
    tmp_path: Path, rows: list[int], refused: tuple[int, int], skip: bool, named: str, tasks: bool
) -> None:
    for number, count in enumerate(rows):
        more = ["1e39,beyond float32\n", "too,many,fields\n"] if skip and number == refused[0] else []
        csv_file(tmp_path / f"{'abc'[number]}.csv", count, refused[1] if number == refused[0] else None, *more)
    settings = {"on_bad_record": "skip"} if skip else {}
    data = DataConfig.model_validate({"source": {"kind": "csv", "path": str(tmp_path / "*.csv")}, **settings})
    request = Request(Input(data), Predictor(saved(tmp_path, refusing), MODEL), keys=("x",))
    with pytest.raises(DataError, match=named):
        predict_file(request, tmp_path / "out.csv", serial_map, tmp_path, tasks=tasks)


@pytest.mark.parametrize("bad", ["1e39,beyond float32\n", "too,many,fields\n"])
def test_a_bad_record_of_new_data_names_the_setting_of_predict(tmp_path: Path, bad: str) -> None:
    csv_file(tmp_path / "a.csv", 3, None, bad)
    source = {"kind": "csv", "path": str(tmp_path / "a.csv")}
    data = PredictConfig.model_validate({"source": source, "output": "out.csv"}).data(
        DataConfig.model_validate({"source": source})
    )
    request = Request(Input(data), Predictor(saved(tmp_path, refusing), MODEL), keys=("x",))
    with pytest.raises(BadRecordError, match=r"\n.*`predict\.on_bad_record: skip`$") as caught:
        predict_file(request, tmp_path / "out.csv", serial_map, tmp_path)
    assert "data." not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [False, True], ids=["one process", "tasks"])
def test_skipped_records_of_all_parts_are_counted(tmp_path: Path, tasks: bool) -> None:
    csv_file(tmp_path / "a.csv", 20_000, None, "1e39,beyond float32\n", "1e40,too\n")
    data = DataConfig.model_validate(
        {"source": {"kind": "csv", "path": str(tmp_path / "a.csv")}, "on_bad_record": "skip"}
    )
    request = Request(Input(data), Predictor(saved(tmp_path, refusing), MODEL), keys=("x",))
    done = predict_file(request, tmp_path / "out.csv", serial_map, tmp_path, tasks=tasks)
    assert (done.rows, done.skipped.count) == (20_000, 2)


def test_a_model_that_refuses_only_many_records_at_once_names_none(tmp_path: Path) -> None:
    def crowded(number: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_less(tf.shape(number)[0], 1_000, "too many rows")
        return number

    predictor = Predictor(saved(tmp_path, crowded), MODEL)
    with pytest.raises(RunError, match=r"cannot be called: .*too many rows"):
        predictor(pa.record_batch({"x": np.ones(5_000)}))
    assert predictor(pa.record_batch({"x": np.ones(999)})).shape == (999, 1)
