"""The batches in which Transform reads, encodes and compresses examples."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import tensorflow as tf

from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.transform.record_blocks import BATCH
from headrace.components.transform.shards import BATCHES, NARROW, _parts, _values, read_records


def test_short_examples_are_read_in_joined_batches(tmp_path: Path) -> None:
    rows = BATCH * BATCHES + 3
    with tf.io.TFRecordWriter(str(tmp_path / "short")) as file:
        for row in range(rows):
            file.write(b"%d" % row)
    file_name = str(tmp_path / "short")
    assert [len(batch) for batch in read_records(file_name, BATCHES)] == [BATCH * BATCHES, 3]
    assert [len(batch) for batch in read_records(file_name)] == [BATCH] * BATCHES + [3]


def test_parts_of_joined_batches_are_the_bytes_of_each() -> None:
    table = pa.record_batch({"x": pa.array(range(2 * BATCH + 5)), "y": pa.array([0.5] * (2 * BATCH + 5), pa.float32())})
    alone = [bytes(framed_examples(table.slice(first, BATCH)).buffers()[2]) for first in range(0, len(table), BATCH)]
    assert [bytes(part) for part in _parts(framed_examples(table))] == alone
    assert len(alone) == 3


def test_only_examples_with_a_known_number_of_values_are_narrow() -> None:
    fixed = tf.io.FixedLenFeature
    assert _values({"a": fixed([], tf.int64), "b": fixed([3, 4], tf.float32)}) == 13
    assert _values({"a": fixed([], tf.int64), "b": tf.io.VarLenFeature(tf.string)}) > NARROW
