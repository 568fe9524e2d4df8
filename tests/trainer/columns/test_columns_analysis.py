"""The columns' analysis without TFT against TFT's own, over the same rows and every kind of column."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.components.transform.columns_analysis import analyze_columns, uses_tft
from headrace.components.transform.task import AnalysisTask
from headrace.trainer.columns.raw import MISSING_INTEGER, RawColumn
from headrace.trainer.columns.stacked import stacked_numbers

SHARDS = 3

floats = st.floats(width=32) | st.just(float("nan"))
integers = st.integers(-(2**63), 2**63 - 1) | st.just(int(MISSING_INTEGER))


@pytest.fixture(scope="module")
def analyzed(transformed: Any, tmp_path_factory: pytest.TempPathFactory) -> tft.TFTransformOutput:
    """Our analysis of the rows that TFT analyzed, in shards."""
    folder = tmp_path_factory.mktemp("analyzed")
    rows = transformed.raw[: len(transformed.rows)]
    files = [str(folder / f"{number}.gz") for number in range(SHARDS)]
    for file, part in zip(files, np.array_split(np.array(rows, object), SHARDS), strict=True):
        with tf.io.TFRecordWriter(file, "GZIP") as records:
            for row in part:
                records.write(example(row, transformed.spec))
    metadata = tft.DatasetMetadata.from_feature_spec(
        {key: tf.io.VarLenFeature(dtype) for key, dtype in transformed.spec.items()}
    )
    properties = {"custom_config": json.dumps({"config": transformed.sections.to_json()})}
    task = AnalysisTask(files, metadata.schema, properties, str(folder / "graph"), {})
    assert not uses_tft(transformed.sections, task)
    analyze_columns(task, transformed.sections, None)
    return tft.TFTransformOutput(task.graph)


def example(row: dict[str, Any], spec: dict[str, tf.DType]) -> bytes:
    lists = {
        tf.float32: lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
        tf.int64: lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
        tf.string: lambda values: tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[value.encode() for value in values])
        ),
    }
    features = {key: lists[spec[key]](values) for key, values in row.items() if values}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_every_feature_of_train_rows_is_that_of_tft(transformed: Any, analyzed: tft.TFTransformOutput) -> None:
    features = analyzed.transform_features_layer()(transformed.tensors)
    assert features.keys() == transformed.train.keys()
    for name, expected in transformed.train.items():
        if expected.dtype.kind == "f":  # sums are added in batches of another size
            np.testing.assert_allclose(features[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(features[name], expected, err_msg=name)


def test_features_of_some_columns_are_those_that_tft_can_compute_from_them(
    transformed: Any, analyzed: tft.TFTransformOutput
) -> None:
    lists = ("vector", "counts", "texts")  # TFT puts one number in the place of an absent list, which is refused
    some = {key: transformed.tensors[key] for key in ("amount", "word", *lists)}
    ours, theirs = (output.transform_raw_features(some) for output in (analyzed, transformed.output))
    assert ours.keys() == theirs.keys()
    assert {"amount_quarters", "word_top", "custom_number"} <= ours.keys()
    assert not {"amount", "cross_raw"} & ours.keys()  # numbers with the same settings are computed together
    for name, values in theirs.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


def test_files_of_the_graph_are_those_of_tft(transformed: Any, analyzed: tft.TFTransformOutput) -> None:
    folders = [Path(output.transform_savedmodel_dir).parent for output in (analyzed, transformed.output)]
    ours, theirs = (
        {
            name
            for path in folder.rglob("*")
            if path.is_file() and not (name := str(path.relative_to(folder))).startswith(".")
        }
        for folder in folders
    )
    assert ours == theirs
    same = [name for name in ours if "/assets/" in name or name.startswith("transformed_metadata/")]
    assert len(same) >= 7
    for name in same:
        left, right = ((folder / name).read_bytes() for folder in folders)
        assert left == right, name


@given(
    st.lists(st.tuples(*[st.lists(floats, max_size=3)] * 2, *[st.lists(integers, max_size=3)] * 2), max_size=12),
    st.permutations(["a", "b", "c", "d", "e"]),
)
@settings(max_examples=40, deadline=None)
def test_stacked_columns_are_the_columns(rows: list[tuple[list[Any], ...]], order: list[str]) -> None:
    tensors: dict[str, Any] = {
        key: sparse([row[place] for row in rows], dtype)
        for place, (key, dtype) in enumerate({"a": tf.float32, "b": tf.float32, "c": tf.int64, "d": tf.int64}.items())
    }
    tensors["e"] = tf.range(len(rows), dtype=tf.float32)
    stacked = stacked_numbers(tensors, order, tf.constant(len(rows), tf.int64))
    assert stacked.shape == (len(rows), 5)
    for place, key in enumerate(order):
        np.testing.assert_array_equal(stacked[:, place], RawColumn(key, tensors[key]).numbers)


def sparse(rows: list[list[Any]], dtype: tf.DType) -> tf.SparseTensor:
    places = [(row, place) for row, values in enumerate(rows) for place in range(len(values))]
    values = tf.constant([value for values in rows for value in values], dtype)
    width = max(map(len, rows), default=0)
    return tf.SparseTensor(np.array(places, np.int64).reshape(-1, 2), values, [len(rows), width])
