"""The examples of a file, as TFDV reads them without a schema: columns whose types are those of the values."""

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

from headrace.components.example_gen.tfrecord import intact
from headrace.components.statistics.decode import decode
from headrace.configs.errors import DataError

BYTES = 4 << 20
"""Uncompressed bytes that make a batch."""
_BEFORE, _AFTER = 12, 4
"""Bytes around a record: its length and that one's checksum; its own checksum (see `example_gen.tfrecord`)."""
_WAY_OUT = (
    "Look after the disk. `headrace run --fresh` writes the examples anew; where the data comes in spans, remove the"
    " folder `spans` of the pipeline before, so that they are read again"
)
_length = struct.Struct("<Q").unpack_from


def batches(file: str) -> Iterator[pa.RecordBatch]:
    """All examples of a TFRecord file, gzipped if it ends in .gz, in order. A column of which nothing is known is of
    type null.

    gzip's checksum guards the bytes, so the records' own are looked at only without it. Raises DataError if the file is
    damaged.
    """
    try:
        yield from _batches(file)
    except (EOFError, gzip.BadGzipFile, _unsound()) as error:
        what = f"these examples, written by an earlier run or component, are damaged: {error}"
        raise DataError(what, file=file, hint=_WAY_OUT) from error


def _batches(file: str) -> Iterator[pa.RecordBatch]:
    decoder = ExamplesToRecordBatchDecoder()
    for data, starts, ends in _records(file):
        batch = decode(data, starts, ends)
        if batch is None:
            spans = zip(starts.tolist(), ends.tolist(), strict=True)
            batch = decoder.DecodeBatch([data[start:end] for start, end in spans])
        yield batch


def _records(file: str) -> Iterator[tuple[bytes, NDArray[np.int64], NDArray[np.int64]]]:
    """Pieces of the file, and where the records in them start and end."""
    rest = b""
    packed = file.endswith(".gz")
    with (
        FileSystems.open(file, compression_type=CompressionTypes.UNCOMPRESSED) as raw,
        _gzip().open(raw, "rb") if packed else nullcontext(raw) as stream,
    ):
        while block := stream.read(max(BYTES, len(rest))):
            data = rest + block
            edges = np.array(_edges(data), np.int64)
            if len(edges) > 1:
                if not packed and not intact(data, edges):
                    raise EOFError("a record's checksum is wrong")
                yield data, edges[:-1] + _BEFORE, edges[1:] - _AFTER
            rest = data[edges[-1] :]
    if rest:
        raise EOFError("the file ends inside a record")


def _edges(data: bytes) -> list[int]:
    """Where each whole record starts with its length, and where the last one ends."""
    edges, place = [0], _BEFORE
    while place <= len(data):
        place += _length(data, place - _BEFORE)[0] + _AFTER
        if place > len(data):
            break
        edges.append(place)
        place += _BEFORE
    return edges


def _unsound() -> type[Exception]:
    """What is raised inside a damaged gzip member."""
    module = importlib.import_module("isal.isal_zlib" if importlib.util.find_spec("isal") else "zlib")
    error: type[Exception] = module.error
    return error


def _gzip() -> Any:
    return importlib.import_module("isal.igzip" if importlib.util.find_spec("isal") else "gzip")
