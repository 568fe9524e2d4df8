"""The rows of a shard as Arrow columns, in a file beside it: what StatisticsGen and Transform read instead of decoding.

    Split-train/data_tfrecord-00000-of-00010.gz              the shard
    columns/Split-train/data_tfrecord-00000-of-00010.gz.arrow    the same rows in the same order

TFX's readers take every file in the folder of a split, so the columns have a folder of their own. A file is some Arrow
streams, one after the other, and a footer with its checksum and those of its shard. What has no such file, or one that
does not belong to the shard as it is now, is decoded: the file is never needed.
"""

from __future__ import annotations

import io
import logging
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.common.checksums import file_checksum

logger = logging.getLogger(__name__)

FOLDER, SUFFIX = "columns", ".arrow"
SIZES = "\0bytes"
"""The column with the size of each framed record; no column of the data has this name."""
LEAST_BYTES = 32 << 20
"""Columns in memory below which decoding takes less than a second, and no such files are written."""
MOST_COLUMNS, LONGEST_VALUE = 1000, 64
"""Tables with more columns or, on average, longer values than this, in bytes, have no such files: they would take
about as much of the disk as the shards, and save little.
"""
_WRITE = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
"""Of click logs with plain texts zstd took 0.6 times the bytes of the shards, and lz4 1.1 times. Threads would not
survive a fork.
"""
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_FOOTER = struct.Struct("<8sIQI")
"""The mark, the checksum of the file before the footer, and the size and the checksum of the shard."""
_MARK = b"columns2"
_TYPES = (
    pa.types.is_int64,
    pa.types.is_floating,
    pa.types.is_null,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_dictionary,
)


def worth_writing(held: float, rows: int, columns: int) -> bool:
    """Whether to write these files. held: the size of all columns in memory, in bytes."""
    return held >= LEAST_BYTES and columns <= MOST_COLUMNS and held <= LONGEST_VALUE * rows * columns


def path_beside(shard: Path) -> Path:
    """The path of a shard's columns."""
    return shard.parent.parent / FOLDER / shard.parent.name / (shard.name + SUFFIX)


def shards_and_columns(folder: Path) -> list[Path]:
    """The shards of all splits in a folder, and the files of their columns."""
    return sorted([*folder.glob("Split-*/*"), *folder.glob(f"{FOLDER}/Split-*/*")])


def without_footer(content: bytes) -> bytes:
    """What a file says of the rows, whatever the bytes of its shard."""
    return content[: -_FOOTER.size]


def can_be_stored(schema: pa.Schema) -> bool:
    """Whether each column has at most one value in a row, and a name that tfx_bsl does not cut off."""
    single = all(any(is_type(kind) for is_type in _TYPES) for kind in schema.types)
    return single and "\0" not in "".join(schema.names)


class ColumnWriter:
    """Writes one stream of a file. Nothing is written of columns with several values in a row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: pa.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch, sizes: NDArray[np.integer]) -> None:
        """Add rows, as they are encoded; texts may be coded, by one dictionary in all. sizes: of the framed records."""
        if not can_be_stored(batch.schema):
            return
        names = sorted(batch.schema.names, key=str.encode)
        columns = [_stored(batch.column(name)) for name in names]
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(sizes.astype(np.int32))], [*names, SIZES])
        if self._stream is None:
            self._stream = pa.ipc.new_stream(str(self._path), rows.schema, options=_WRITE)
        self._stream.write_batch(rows)

    def close(self) -> None:
        """End the stream."""
        if self._stream is not None:
            self._stream.close()


def finish(path: Path, shard: Path) -> None:
    """Write the footer of a file that has all its streams."""
    footer = _FOOTER.pack(_MARK, file_checksum(path), shard.stat().st_size, file_checksum(shard))
    with path.open("ab") as file:
        file.write(footer)


def stored_rows(shard: str) -> Iterator[pa.RecordBatch] | None:
    """The columns of a shard in batches, SIZES last; None if there are none that belong to it.

    Integers are int64, floats float32, and texts binary or codes of binary (see `coded_columns`). A row without a value
    has a null.
    """
    path = path_beside(Path(shard))
    try:
        with path.open("rb", buffering=0) as file:
            end = file.seek(-_FOOTER.size, io.SEEK_END)
            mark, own, size, checksum = _FOOTER.unpack(file.read())
        if mark != _MARK or (size, checksum) != (Path(shard).stat().st_size, file_checksum(Path(shard))):
            return None
        if own != file_checksum(path, end):
            logger.warning(f"{path} is damaged, so the examples are decoded: the disk may be failing")
            return None
    except (OSError, struct.error):
        return None
    return _batches(path, end)


def _batches(path: Path, end: int) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file:
        while file.tell() < end:
            with pa.ipc.open_stream(file, options=_READ) as stream:
                yield from stream


def _stored(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        return column.cast(pa.float32(), safe=False)
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column
