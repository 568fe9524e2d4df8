"""TFRecord framing of a whole batch.

A record on disk: its length (uint64, little endian), the masked CRC32C of those 8 bytes, the record, its masked CRC32C
(tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from headrace.components.example_gen import checksum
from headrace.components.example_gen.encode import distinct, examples, start
from headrace.components.example_gen.piece_checksums import states
from headrace.components.example_gen.pieces import Coded, Field, Fixed, Piece, Varied, join, merged

BEFORE, AFTER = 12, 4
"""Bytes around a record."""


def framed_examples(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Each row of `batch` as a tf.Example (see `encode`) with its length and checksums around it."""
    if not batch.num_rows:
        return pa.array([], pa.binary())
    features, own = examples(batch)
    return _framed(features, own, start)


def frame(records: pa.BinaryArray) -> pa.BinaryArray:
    """Each record with its length and checksums around it."""
    if not len(records):
        return pa.array([], pa.binary())
    return _framed(pc.binary_length(records).to_numpy().astype(np.int64), [Varied(records)], lambda _: b"")


def _framed(sizes: NDArray[np.int64], own: Sequence[Piece], start: Callable[[int], bytes]) -> pa.BinaryArray:
    """Records of pieces, which make so many bytes, behind a start that depends on how many these are."""
    rows, pieces = len(sizes), merged(own)
    present, which = distinct(sizes)
    starts = [start(int(size)) for size in present]
    headers = [_header(len(text) + int(size)) + text for text, size in zip(starts, present, strict=True)]
    state = states([Coded.of(starts, which), *pieces], rows)
    if state is None:
        return _checked(join([Coded.of(headers, which), *pieces, Coded.same(bytes(AFTER), rows)], rows))
    check = Fixed((Field(b"", checksum.masked(state).view(np.uint8).reshape(-1, AFTER)),))
    return join([Coded.of(headers, which), *merged([*pieces, check])], rows)


def _checked(joined: pa.BinaryArray) -> pa.BinaryArray:
    """The framed records with their checksums where room was left for them."""
    edges, data = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1], joined.buffers()[2]
    room, into = edges[1:] - AFTER, np.frombuffer(data, np.uint8)
    checksums = _masked(_records(data, edges)).view(np.uint8).reshape(-1, AFTER)
    for place in range(AFTER):
        into[room + place] = checksums[:, place]
    return joined


def intact(data: bytes, edges: NDArray[np.integer]) -> bool:
    """Whether each record of `data`, framed from one edge to the next, has the checksum that stands behind it."""
    letters, ends = np.frombuffer(data, np.uint8), edges[1:, None] - np.arange(AFTER, 0, -1)
    return bool(np.array_equal(_masked(_records(pa.py_buffer(data), edges)), letters[ends].view("<u4")[:, 0]))


def _records(data: pa.Buffer, edges: NDArray[np.integer]) -> list[bytes]:
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


def _masked(texts: Sequence[bytes]) -> NDArray[np.uint32]:
    """The masked CRC32C of each text: uint32 [n], little endian."""
    crc = np.fromiter(map(crc32c, texts), np.uint32, len(texts))
    return checksum.masked(crc ^ np.uint32(checksum.START))
