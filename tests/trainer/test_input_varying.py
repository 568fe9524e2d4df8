"""Ragged, sparse and dense columns through the whole input pipeline, against what Python lists say."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ragged_lists import lists_of

from headrace.trainer.input.memory import ExampleSample
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.shuffle import exact_batches

SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "tags": tf.io.RaggedFeature(tf.int64, "tags$ragged_values", row_splits_dtype=tf.int64),
    "words": tf.io.VarLenFeature(tf.string),
    "pair": tf.io.FixedLenFeature([2], tf.float32),
    "label": tf.io.FixedLenFeature([], tf.float32),
}
Row = dict[str, Any]

floats = st.integers(-1000, 1000).map(float)
row = st.fixed_dictionaries(
    {
        "tags": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        "words": st.lists(st.binary(max_size=30), max_size=4),
    }
)


def example(number: int, row: Row) -> bytes:
    """As TFT writes it."""
    features = tf.train.Features()

    def put(key: str, kind: str, values: list[Any]) -> None:
        getattr(features.feature[key], kind).value.extend(values)

    put("id", "int64_list", [number])
    put("label", "float_list", [number % 2])
    put("pair", "float_list", [number, -number])
    put("tags$ragged_values", "int64_list", row["tags"])
    if row["words"]:
        put("words", "bytes_list", row["words"])
    return tf.train.Example(features=features).SerializeToString()


def write(folder: Path, rows: list[Row], shards: int) -> list[str]:
    files = []
    for shard in range(shards):
        files.append(str(folder / f"part-{shard}.gz"))
        with tf.io.TFRecordWriter(files[-1], "GZIP") as writer:
            for number in range(shard, len(rows), shards):
                writer.write(example(number, rows[number]))
    return files


def check(features: dict[str, Any], label: tf.Tensor, rows: list[Row]) -> list[int]:
    """Every value of the batch is what the row of that id says; the ids."""
    ids = features["id"].numpy().tolist()
    expected = [rows[number] for number in ids]
    assert lists_of(features["tags"]) == [row["tags"] for row in expected]
    words = features["words"]
    assert isinstance(words, tf.SparseTensor)
    assert lists_of(tf.RaggedTensor.from_sparse(words)) == [row["words"] for row in expected]
    np.testing.assert_array_equal(features["pair"], [[number, -number] for number in ids])
    np.testing.assert_array_equal(label, [number % 2 for number in ids])
    return ids


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(row, min_size=1, max_size=30), cut=st.integers(0, 30), seed=st.integers(0, 5))
def test_rows_taken_cut_and_joined_are_those_of_the_lists(rows: list[Row], cut: int, seed: int) -> None:
    packing, border = Packing(SPEC), min(cut, len(rows))
    packed = packing.parse(tf.constant([example(number, row) for number, row in enumerate(rows)]))
    order = np.random.default_rng(seed).integers(0, len(rows), 2 * len(rows))
    taken = packing.unpack(packing.take(packed, tf.constant(order)))
    assert check(taken, taken.pop("label"), rows) == order.tolist()
    halves = [packing.slice_rows(packed, 0, border), packing.slice_rows(packed, border, len(rows))]
    assert [int(packing.rows(half)) for half in halves] == [border, len(rows) - border]
    joined = packing.unpack(packing.concat([*halves[::-1], packing.empty()]))
    expected = [*range(border, len(rows)), *range(border)]
    assert check(joined, joined.pop("label"), rows) == expected


def random_rows(count: int, seed: int = 0) -> list[Row]:
    random = np.random.default_rng(seed)

    def numbers(most: int) -> list[float]:
        return random.integers(-9, 9, random.integers(0, most)).astype(float).tolist()

    return [
        {
            "tags": random.integers(0, 9, random.integers(0, 5)).tolist(),
            "words": [f"w{n}".encode() for n in numbers(4)],
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
@pytest.mark.parametrize("shuffle", [0, 90])
def test_every_example_comes_whole_and_once_an_epoch_in_exact_batches(tmp_path: Path, cache: Any, shuffle: int) -> None:
    rows = random_rows(300)
    pipeline = InputPipeline(feature_spec=SPEC, label_key="label", batch_size=64, cache=cache, shuffle=shuffle, seed=1)
    split = pipeline.open("train", write(tmp_path, rows, 3))
    epochs = [[check(features, label, rows) for features, label in split.dataset] for _ in range(2)]
    for batches in epochs:
        assert [len(batch) for batch in batches] == [64] * 4 + [44]
        assert sorted(number for batch in batches for number in batch) == list(range(300))
    assert (epochs[0] == epochs[1]) is (shuffle == 0)
    assert sorted(number for batch in split.peek for number in batch[0]["id"].numpy()) == list(range(300))


def test_batches_of_columns_that_vary_only_are_counted_and_cut_right() -> None:
    packing = Packing({"words": tf.io.VarLenFeature(tf.string)})
    rows = random_rows(50)
    files = write(Path(tempfile.mkdtemp()), rows, 1)
    read = tf.data.TFRecordDataset(files, "GZIP").batch(9).map(packing.parse)
    batches = [packing.unpack(packed)["words"] for packed in exact_batches(read, packing, 16)]
    assert [int(batch.dense_shape[0]) for batch in batches] == [16, 16, 16, 2]
    words = [lists_of(tf.RaggedTensor.from_sparse(batch)) for batch in batches]
    assert [word for batch in words for word in batch] == [row["words"] for row in rows]


def test_lengths_are_of_the_column_with_most_values_and_size_counts_them(tmp_path: Path) -> None:
    rows = random_rows(40)
    packing = Packing(SPEC)
    packed = packing.parse(tf.constant([example(number, row) for number, row in enumerate(rows)]))
    lengths = packing.lengths(packed)
    assert lengths is not None
    assert lengths.numpy().tolist() == [max(len(row[name]) for name in row) for row in rows]
    assert Packing({"id": SPEC["id"]}).lengths((tf.zeros([2, 1]),)) is None
    only = Packing({"words": SPEC["words"]})
    count = sum(len(row["words"]) for row in rows)
    assert ExampleSample.of(write(tmp_path, rows, 1), only).bytes_each == -(-(8 * 41 + 24 * count) // 40)
