"""TensorFlow Serving's request log as a source: each type of request gives the rows that the client asked about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from headrace.common.errors import DataError
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.configs.schema.sources import TfrecordSource

MISSING = np.iinfo(np.int64).min


def example(**values: Any) -> tf.train.Example:
    made = tf.train.Example()
    for name, value in values.items():
        kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(value)]
        getattr(made.features.feature[name], kind).value.append(value)
    return made


def predict(**tensors: Any) -> PredictionLog:
    log = PredictionLog()
    for name, values in tensors.items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    return log


def read(path: Path, logs: Sequence[PredictionLog | bytes], *, skip_bad: bool = False) -> tuple[ScanResult, list[Any]]:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for log in logs:
            writer.write(log if isinstance(log, bytes) else log.SerializeToString())
    source = TfrecordSource(kind="tfrecord", path=str(path), payload="prediction_log")
    opened = open_source(source, options=ReadOptions(None, skip_bad))
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, {}) for part in parts), ScanResult())
    return scan, [row for part in parts for batch in opened.batches(part, scan.kinds) for row in batch.to_pylist()]


def test_every_type_of_request_gives_its_examples(tmp_path: Path) -> None:
    logs = [PredictionLog() for _ in range(4)]
    classify, regress, several, session = logs
    classify.classify_log.request.input.example_list.examples.extend([example(n=1, x=0.5), example(n=2)])
    with_context = regress.regress_log.request.input.example_list_with_context
    with_context.context.CopyFrom(example(x=1.5, n=9))
    with_context.examples.extend([example(n=3), example(x=2.5)])
    several.multi_inference_log.request.input.example_list.examples.append(example(n=4))
    feed = session.session_run_log.request.feed.add(name="input_examples:0")
    feed.tensor.CopyFrom(tf.make_tensor_proto([example(n=5).SerializeToString()]))
    logs.append(predict(examples=[example(n=6).SerializeToString(), example(n=7, x=3.5).SerializeToString()]))
    scan, rows = read(tmp_path / "log", logs)
    assert [(row["n"], row["x"]) for row in rows] == [
        (1, 0.5), (2, None), (3, 1.5), (9, 2.5), (4, None), (5, None), (6, None), (7, 3.5),
    ]  # fmt: skip
    assert scan.kinds == {"n": "int", "x": "float"}
    assert scan.skipped.count == 0


def test_named_tensors_give_a_row_each_with_missing_values(tmp_path: Path) -> None:
    session = PredictionLog()
    for name, values in {"fare:0": [4.5], "trips:0": np.array([3], np.int32), "kind:0": ["c"]}.items():
        session.session_run_log.request.feed.add(name=name).tensor.CopyFrom(tf.make_tensor_proto(values))
    two = predict(
        fare=np.array([1.5, np.nan], np.float32),
        trips=np.array([7, MISSING]),
        kind=["a", ""],
        tags=[["x", "y"], ["z", ""]],
    )
    _, rows = read(tmp_path / "log", [two, session, predict(kind="d")])
    assert rows == [
        {"fare": 1.5, "kind": "a", "tags": ["x", "y"], "trips": 7},
        {"fare": None, "kind": None, "tags": ["z"], "trips": None},
        {"fare": 4.5, "kind": "c", "tags": None, "trips": 3},
        {"fare": None, "kind": "d", "tags": None, "trips": None},
    ]


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.tuples(st.floats(-9, 9, width=32), st.integers(-9, 9)), min_size=1, max_size=5), min_size=1)
)
def test_batches_of_any_size_give_their_rows_in_order(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[float, int]]]
) -> None:
    logs = [
        predict(x=np.array([x for x, _ in batch], np.float32), n=np.array([n for _, n in batch], np.int64))
        for batch in batches
    ]
    _, rows = read(tmp_path_factory.mktemp("log") / "log", logs)
    assert [(row["x"], row["n"]) for row in rows] == [pair for batch in batches for pair in batch]


HUGE = PredictionLog()
HUGE.predict_log.request.inputs["a"].dtype = tf.float32.as_datatype_enum
HUGE.predict_log.request.inputs["a"].tensor_shape.dim.add(size=1 << 40)
HUGE.predict_log.request.inputs["a"].float_val.append(1.0)
SHORT = predict(a=[1.0, 2.0, 3.0])
SHORT.predict_log.request.inputs["a"].tensor_content = b"\0"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"\xff\xff", "PredictionLog"),
        (PredictionLog(), "no request"),
        (predict(a=[1, 2], b=[1, 2, 3]), "numbers of rows"),
        (predict(a=np.array([1 + 2j])), "complex"),
        (HUGE, "more than"),
        (SHORT, "cannot be read"),
    ],
)
def test_record_that_cannot_be_read_is_an_error_with_its_number_or_skipped(tmp_path: Path, bad: Any, why: str) -> None:
    logs = [predict(n=[1, 2]), bad, predict(n=[3])]
    with pytest.raises(DataError, match=f"record 2, .*{why}"):
        read(tmp_path / "log", logs)
    scan, rows = read(tmp_path / "log", logs, skip_bad=True)
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert scan.skipped.count == 1


def test_value_that_does_not_fit_names_the_request_that_it_came_in(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="record 2, "):
        read(tmp_path / "log", [predict(n=[1, 2, 3]), predict(n=["text"])])
