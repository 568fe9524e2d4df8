"""The formats of the output, chosen by its ending: Parquet, CSV, JSON lines or TFRecords of tf.Example.

with open_writer(Path("scored.csv.gz"), partial, schema) as write:
    write(batch)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from headrace.common.errors import DataError
from headrace.components.examples.arrow_columns import is_list
from headrace.components.examples.compression import Compression
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.predict.json_lines import json_lines
from headrace.configs.schema.predict import OUTPUT_ENDINGS

Write = Callable[[pa.RecordBatch], None]
Encode = Callable[[pa.RecordBatch], bytes | memoryview]

ROW_GROUP = 1 << 17
"""Rows of a row group in Parquet files."""
ROW_GROUP_BYTES = 1 << 26
"""About the most bytes of a row group in memory."""

CSV, JSONL, PARQUET, TFRECORD = ".csv", ".jsonl", ".parquet", ".tfrecord"


def check_output(output: Path, schema: pa.Schema) -> None:
    """Raise DataError if the format of the output cannot hold the columns, or its ending is not that of a format."""
    ending = format_of(output)
    for field in schema if ending == CSV else ():
        if is_list(field.type) or pa.types.is_binary(field.type):
            what = "lists" if is_list(field.type) else "bytes"
            raise DataError(
                f"holds {what}, which CSV cannot hold",
                column=field.name,
                hint=f"Write {PARQUET}, or list the other columns in `--columns` (`predict.columns` of the config)",
            )


def open_writer(output: Path, file: Path, schema: pa.Schema) -> AbstractContextManager[Write]:
    """Open `file` for writing, in the format of `output`. It is complete once the block has ended."""
    ending = format_of(output)
    if ending == PARQUET:
        return _parquet(file, schema)
    encode: Encode = {CSV: _csv, JSONL: _json_lines, TFRECORD: _examples}[ending]
    head = _csv_head(schema) if ending == CSV else b""
    return _stream(file, encode, head, gzip=output.name.endswith(".gz"))


def format_of(output: Path) -> str:
    """The ending of the output, without `.gz`. Raises DataError if it is not that of a format."""
    for ending in OUTPUT_ENDINGS:
        if output.name.endswith(ending):
            return ending.removesuffix(".gz")
    raise DataError(
        "the ending is not that of an output format", file=str(output), hint=f"Use one of {', '.join(OUTPUT_ENDINGS)}"
    )


@contextlib.contextmanager
def _stream(file: Path, encode: Encode, head: bytes, *, gzip: bool) -> Iterator[Write]:
    compressor = Compression("gzip" if gzip else "none").compressor()
    with open(file, "wb") as out:
        out.write(compressor.compress(head))
        yield lambda batch: (out.write(compressor.compress(encode(batch))), None)[1]
        out.write(compressor.flush())


@contextlib.contextmanager
def _parquet(file: Path, schema: pa.Schema) -> Iterator[Write]:
    """Batches are collected into row groups."""
    waiting: list[pa.RecordBatch] = []

    def flush() -> None:
        writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=ROW_GROUP)
        waiting.clear()

    def write(batch: pa.RecordBatch) -> None:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROW_GROUP or sum(one.nbytes for one in waiting) >= ROW_GROUP_BYTES:
            flush()

    with pq.ParquetWriter(file, schema) as writer:
        yield write
        if waiting:
            flush()


def _csv_head(schema: pa.Schema) -> bytes:
    return _as_csv(pa.RecordBatch.from_pylist([], schema), header=True)


def _csv(batch: pa.RecordBatch) -> bytes | memoryview:
    return _as_csv(batch, header=False)


def _as_csv(batch: pa.RecordBatch, *, header: bool) -> bytes:
    out = pa.BufferOutputStream()
    pa_csv.write_csv(batch, out, pa_csv.WriteOptions(include_header=header))
    return bytes(memoryview(out.getvalue()))


def _json_lines(batch: pa.RecordBatch) -> bytes | memoryview:
    return json_lines(batch).data


def _examples(batch: pa.RecordBatch) -> bytes | memoryview:
    integers = [pa.int64() if pa.types.is_boolean(field.type) else field.type for field in batch.schema]
    columns = [column.cast(arrow) for column, arrow in zip(batch.columns, integers, strict=True)]
    return memoryview(framed_examples(pa.RecordBatch.from_arrays(columns, batch.schema.names)).buffers()[2])
