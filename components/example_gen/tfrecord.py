"""TFRecord framing of a whole batch.

A record on disk: its length (uint64, little endian), the masked CRC32C of those 8 bytes, the record, its masked CRC32C
(tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google_crc32c import value as crc32c

from components.example_gen.encode import Piece, concatenate, distinct, pieces

BEFORE, AFTER = 12, 4
"""Bytes around a record."""


def framed_examples(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Each row of `batch` as a tf.Example (see `encode`) with its length and checksums around it."""
    return _framed(*pieces(batch))


def frame(records: pa.BinaryArray) -> pa.BinaryArray:
    """Each record with its length and checksums around it."""
    return _framed([records], pc.binary_length(records).to_numpy().astype(np.int64))


def _framed(parts: Sequence[Piece], sizes: np.ndarray) -> pa.BinaryArray:
    """Records of the given sizes, each the parts of a row one after the other: joined in one go, with room for the
    checksums, which are put there afterwards.
    """
    if not len(sizes):
        return pa.array([], pa.binary())
    present, which = distinct(sizes)
    headers = pa.array([_header(int(size)) for size in present], pa.binary()).take(pa.array(which))
    joined = concatenate([headers, *parts, pa.scalar(bytes(AFTER), pa.binary())], len(sizes))
    edges, data = np.frombuffer(joined.buffers()[1], np.int32)[: len(sizes) + 1], joined.buffers()[2]
    room, into = edges[1:] - AFTER, np.frombuffer(data, np.uint8)
    checksums = _masked(_records(data, edges)).view(np.uint8).reshape(-1, AFTER)
    for place in range(AFTER):
        into[room + place] = checksums[:, place]
    return joined


def intact(data: bytes, edges: np.ndarray) -> bool:
    """Whether each record of `data`, framed from one edge to the next, has the checksum that stands behind it."""
    letters, ends = np.frombuffer(data, np.uint8), edges[1:, None] - np.arange(AFTER, 0, -1)
    return bool(np.array_equal(_masked(_records(pa.py_buffer(data), edges)), letters[ends].view("<u4")[:, 0]))


def _records(data: pa.Buffer, edges: np.ndarray) -> list[bytes]:
    """The records inside their frames. Arrow makes bytes of runs that follow each other, so what stands between the
    records is taken for such a run too.
    """
    cuts = np.empty(2 * len(edges) - 2, np.int32)
    cuts[::2], cuts[1::2] = edges[:-1] + BEFORE, edges[1:] - AFTER
    runs = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), data])
    found: list[bytes] = runs.to_numpy(zero_copy_only=False)[::2].tolist()
    return found


def _header(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + _masked([length]).tobytes()


def _masked(texts: Sequence[bytes]) -> np.ndarray:
    """The masked CRC32C of each text: uint32 [n], little endian."""
    crc = np.fromiter(map(crc32c, texts), np.uint32, len(texts))
    return (((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)).astype("<u4")
