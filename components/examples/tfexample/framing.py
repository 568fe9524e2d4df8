"""TFRecord framing of a whole batch.

A record on disk is its length (uint64, little endian), the masked CRC32C of those 8 bytes, the record, and the record's
masked CRC32C (tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google_crc32c import value as checksum
from numpy.typing import NDArray

from headrace.components.examples.tfexample.byte_columns import DictionaryColumn, concatenate
from headrace.components.examples.tfexample.encode import distinct_sizes, example_head, feature_columns

HEADER, FOOTER = 12, 4
"""Bytes before and after a record."""


def framed_examples(
    batch: pa.RecordBatch, dictionaries: Mapping[str, pa.BinaryArray] = MappingProxyType({})
) -> pa.BinaryArray:
    """Each row of `batch` as a tf.Example (see `encode`) in its TFRecord frame. dictionaries: see `feature_columns`."""
    if not batch.num_rows:
        return pa.array([], pa.binary())
    rows = batch.num_rows
    sizes, columns = feature_columns(batch, dictionaries)
    present, which = distinct_sizes(sizes)
    heads = [example_head(int(size)) for size in present]
    headers = [_header(len(head) + int(size)) + head for head, size in zip(heads, present, strict=True)]
    footer = DictionaryColumn.constant(bytes(FOOTER), rows)
    return _with_checksums(concatenate([DictionaryColumn.of(headers, which), *columns, footer], rows))


def checksums_match(data: bytes, edges: NDArray[np.integer]) -> bool:
    """Whether each record of `data`, framed from one edge to the next, has the checksum that follows it."""
    letters, ends = np.frombuffer(data, np.uint8), edges[1:, None] - np.arange(FOOTER, 0, -1)
    return bool(np.array_equal(_record_checksums(pa.py_buffer(data), edges), letters[ends].view("<u4")[:, 0]))


def _with_checksums(framed: pa.BinaryArray) -> pa.BinaryArray:
    """The framed records, with their checksums written into the zeros at the end of each."""
    edges, data = np.frombuffer(framed.buffers()[1], np.int32)[: len(framed) + 1], framed.buffers()[2]
    footers, into = edges[1:] - FOOTER, np.frombuffer(data, np.uint8)
    checksums = _record_checksums(data, edges).view(np.uint8).reshape(-1, FOOTER)
    for place in range(FOOTER):
        into[footers + place] = checksums[:, place]
    return framed


def _record_checksums(data: pa.Buffer, edges: NDArray[np.integer]) -> NDArray[np.uint32]:
    """The masked checksum of each record that is framed from one edge to the next."""
    framed = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges.astype(np.int32)), data])
    return _masked(pc.binary_slice(framed, HEADER, -FOOTER).to_numpy(zero_copy_only=False))


def _header(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + _masked([length]).tobytes()


def _masked(texts: Iterable[bytes]) -> NDArray[np.uint32]:
    """The masked CRC32C of each byte string: uint32 [n], little endian."""
    crc = np.fromiter(map(checksum, texts), np.uint32)
    return (((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)).astype("<u4")
