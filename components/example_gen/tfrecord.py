"""TFRecord framing of a whole batch, and gzip streams with the same bytes on every run.

A record on disk: its length (uint64, little endian), the masked CRC32C of those 8 bytes, the record, its masked CRC32C
(tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
from google_crc32c import value as crc32c

from components.example_gen.encode import concatenate, fixed

_GZIP = 16 + zlib.MAX_WBITS
_FASTEST = 1


def frame(records: pa.BinaryArray) -> pa.BinaryArray:
    """Each record with its length and checksums around it."""
    if not len(records):
        return records
    offsets = np.frombuffer(records.buffers()[1], np.int32)[records.offset : records.offset + len(records) + 1]
    sizes, which = np.unique(np.diff(offsets).astype("<u8"), return_inverse=True)
    lengths = np.hstack([_bytes_of(sizes), _bytes_of(_masked([size.tobytes() for size in sizes]))])
    checksums = _bytes_of(_masked(records.to_pylist()))
    return concatenate([fixed(lengths[which]), records, fixed(checksums)], len(records))


def gzip_stream() -> Any:
    """A compressor with `compress(bytes)` and `flush()`, whose header carries neither a time nor a file name.

    zlib: Intel's ISA-L is faster, but about one shard in 400 came out in other bytes, of the same content, from run to
    run.
    """
    return zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP)


def _masked(texts: list[bytes]) -> np.ndarray:
    """The masked CRC32C of each text: uint32 [n]."""
    crc = np.fromiter(map(crc32c, texts), np.uint32, len(texts))
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def _bytes_of(numbers: np.ndarray) -> np.ndarray:
    little = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
    return little.view(np.uint8).reshape(len(numbers), -1)
