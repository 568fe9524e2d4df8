"""Reads the examples of a file as TFDV does without a schema: columns with the types of their values."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from numpy.typing import NDArray
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.common.errors import DataError
from headrace.components.examples.decode import decode
from headrace.components.examples.tfexample.framing import checksums_match
from headrace.components.statistics.stored_columns import as_decoded, rows_in_blocks

BYTES = 4 << 20
"""Uncompressed bytes in a batch."""
_BEFORE, _AFTER = 12, 4
"""Bytes before a record (its length and the length's checksum) and after it (its checksum)."""
_WAY_OUT = (
    "Check the disk. `headrace run --fresh` writes the examples again; if the data comes in spans, first remove the"
    " folder `spans` of the pipeline, so that they are read again"
)
_length = struct.Struct("<Q").unpack_from


def batches(file: str) -> Iterator[pa.RecordBatch]:
    """All examples of a TFRecord file in order, from its stored columns if there are any (see `stored_columns`).

    The file is gzipped if its name ends in .gz.

    A column without any value has the type null. The records' checksums are compared only without gzip, which has one
    of its own. Raises DataError if the file is damaged.
    """
    if (stored := rows_in_blocks(file, BYTES)) is not None:
        yield from map(as_decoded, stored)
        return
    decoder = ExamplesToRecordBatchDecoder()
    for data, starts, ends in framed_blocks(file):
        batch = decode(data, starts, ends)
        if batch is None:
            bounds = zip(starts.tolist(), ends.tolist(), strict=True)
            batch = decoder.DecodeBatch([data[start:end] for start, end in bounds])
        yield batch


def framed_blocks(file: str, size: int | None = None) -> Iterator[tuple[bytes, NDArray[np.int64], NDArray[np.int64]]]:
    """Blocks of about `size` bytes (None: BYTES) of a TFRecord file, and where the records in each start and end.

    Raises DataError if it is damaged.
    """
    try:
        yield from _records(file, size or BYTES)
    except (EOFError, gzip.BadGzipFile, _inflate_error()) as error:
        what = f"the examples, written by an earlier run or component, are damaged: {error}"
        raise DataError(what, file=file, hint=_WAY_OUT) from error


def _records(file: str, size: int) -> Iterator[tuple[bytes, NDArray[np.int64], NDArray[np.int64]]]:
    rest = b""
    gzipped = file.endswith(".gz")
    with (
        FileSystems.open(file, compression_type=CompressionTypes.UNCOMPRESSED) as raw,
        _gzip().open(raw, "rb") if gzipped else nullcontext(raw) as stream,
    ):
        while block := stream.read(max(size, len(rest))):
            data = rest + block
            edges = np.array(_edges(data), np.int64)
            if len(edges) > 1:
                if not gzipped and not checksums_match(data, edges):
                    raise EOFError("a record's checksum is wrong")
                yield data, edges[:-1] + _BEFORE, edges[1:] - _AFTER
            rest = data[edges[-1] :]
    if rest:
        raise EOFError("the file ends inside a record")


def _edges(data: bytes) -> list[int]:
    """Where each whole record starts, its length included, and where the last one ends."""
    edges, position = [0], _BEFORE
    while position <= len(data):
        position += _length(data, position - _BEFORE)[0] + _AFTER
        if position > len(data):
            break
        edges.append(position)
        position += _BEFORE
    return edges


def _inflate_error() -> type[Exception]:
    """The exception for a damaged gzip member."""
    module = importlib.import_module("isal.isal_zlib" if importlib.util.find_spec("isal") else "zlib")
    error: type[Exception] = module.error
    return error


def _gzip() -> Any:
    return importlib.import_module("isal.igzip" if importlib.util.find_spec("isal") else "gzip")
