"""The examples of a file, as TFDV reads them without a schema: columns whose types are those of the values."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import tensorflow as tf
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from components.statistics.decode import decode

ROWS = 8192
"""Examples decoded at once, if they are small."""
BYTES = 16 << 20
"""Serialized examples are decoded when there are this many bytes of them."""
_STEP = 512


def batches(file: str) -> Iterator[pa.RecordBatch]:
    """All examples of a TFRecord file, plain or gzip, in order. A column of which nothing is known is of type null."""
    decoder = ExamplesToRecordBatchDecoder()
    for examples in _serialized(file):
        yield decode(examples) or decoder.DecodeBatch(examples)


def _serialized(file: str) -> Iterator[list[bytes]]:
    examples: list[bytes] = []
    size = 0
    for records in tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else "").batch(_STEP):
        step = records.numpy().tolist()
        examples += step
        size += sum(map(len, step))
        if len(examples) >= ROWS or size >= BYTES:
            yield examples
            examples, size = [], 0
    if examples:
        yield examples
