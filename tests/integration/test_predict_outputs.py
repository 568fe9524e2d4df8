"""What `headrace predict` writes: all formats hold the same rows, and the predictions of the model's signature."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from parcel_arrivals import CLASSES, PROBABILITIES, SCHEMA, Pushed, pushed_once, signature_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory, new_folder: Callable[[str], Path]) -> Pushed:
    return pushed_once(tmp_path_factory, new_folder("predict_outputs"))


@pytest.fixture(scope="module")
def expected(pushed: Pushed) -> np.ndarray:
    return signature_rows(pushed.version, pushed.rows)


def test_csv_holds_each_row_and_its_prediction(pushed: Pushed, expected: np.ndarray) -> None:
    arguments = ("--input", "new.parquet", "--columns", "id,note,distance")
    assert pushed.predict(*arguments, "-o", "out.csv").code == 0
    assert pushed.predict(*arguments, "-o", "out.csv.gz").code == 0
    text = (pushed.folder / "out.csv").read_bytes()
    assert gzip.decompress((pushed.folder / "out.csv.gz").read_bytes()) == text
    rows = list(csv.DictReader(text.decode().splitlines(keepends=True)))
    assert list(rows[0]) == ["id", "note", "distance", "prediction", *PROBABILITIES]
    assert [int(row["id"]) for row in rows] == [row["id"] for row in pushed.rows]
    assert [row["note"] for row in rows] == [row["note"] or "" for row in pushed.rows]
    assert [float(row["distance"]) if row["distance"] else None for row in rows] == [
        row["distance"] for row in pushed.rows
    ]
    values = np.array([[float(row[name]) for name in PROBABILITIES] for row in rows])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)


def test_json_lines_hold_each_row_and_its_prediction(pushed: Pushed, expected: np.ndarray) -> None:
    assert pushed.predict("--input", "new.parquet", "-o", "out.jsonl.gz").code == 0
    lines = gzip.decompress((pushed.folder / "out.jsonl.gz").read_bytes()).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [{name: row[name] for name in SCHEMA.names} for row in rows] == pushed.rows
    values = np.array([[row[name] for name in PROBABILITIES] for row in rows])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)
    assert {row["prediction"] for row in rows} <= set(CLASSES)


def test_tfrecords_hold_each_row_and_its_prediction(pushed: Pushed, expected: np.ndarray) -> None:
    assert pushed.predict("--input", "new.parquet", "-o", "out.tfrecord.gz", "--prefix", "new_").code == 0
    records = tf.data.TFRecordDataset(str(pushed.folder / "out.tfrecord.gz"), "GZIP")
    features = [tf.train.Example.FromString(record.numpy()).features.feature for record in records]
    assert [one["id"].int64_list.value[0] for one in features] == [row["id"] for row in pushed.rows]
    tags = [[tag.decode() for tag in one["tags"].bytes_list.value] for one in features]
    assert tags == [row["tags"] or [] for row in pushed.rows]
    values = [[one[f"new_{name}"].float_list.value[0] for name in PROBABILITIES] for one in features]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)
