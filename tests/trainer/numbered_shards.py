"""Shards of examples that know their number, for tests that count them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from headrace.trainer.input.pipeline import InputPipeline

SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "half": tf.io.FixedLenFeature([], tf.float32),
    "words": tf.io.RaggedFeature(tf.string),
    "label": tf.io.FixedLenFeature([], tf.float32),
}


def example(number: int) -> bytes:
    feature = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "half": tf.train.Feature(float_list=tf.train.FloatList(value=[number / 2])),
        "label": tf.train.Feature(float_list=tf.train.FloatList(value=[number % 2])),
        "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w%d" % n for n in range(number % 3)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_shards(folder: Path, sizes: Sequence[int], first: int = 0) -> list[str]:
    """Files of this many examples each, numbered from `first` on."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for shard, size in enumerate(sizes):
        files.append(str(folder / f"part-{shard:05d}.gz"))
        with tf.io.TFRecordWriter(files[-1], "GZIP") as writer:
            for number in range(first, first + size):
                writer.write(example(number))
        first += size
    return files


def pipeline(**settings: Any) -> InputPipeline:
    return InputPipeline(
        feature_spec=SPEC,
        label_key="label",
        **{"batch_size": 64, "cache": "none", "shuffle": 500, "seed": 3, **settings},
    )


def ids(dataset: tf.data.Dataset) -> list[int]:
    """Of an epoch, in its order."""
    return [number for features, _ in dataset for number in features["id"].numpy().tolist()]
