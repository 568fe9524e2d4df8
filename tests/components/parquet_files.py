"""Parquet files written with pyarrow, and read as a source reads them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from decoded_examples import decoded

from headrace.components.examples.tfexample.encode import encode
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.configs.schema.sources import ParquetSource


def write(path: Path, columns: dict | pa.Table, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path


def scan_of(path: Path, reading: ReadOptions | None = None, declared: dict | None = None, **source: Any) -> ScanResult:
    opened = open_source(ParquetSource(kind="parquet", path=str(path), **source), options=reading)
    return sum((opened.scan(part, declared or {}) for part in opened.parts(serial_map)), ScanResult())


def read(
    path: Path, reading: ReadOptions | None = None, declared: dict | None = None, **source: Any
) -> tuple[dict[str, str], list[dict]]:
    """The kinds of the columns, and the tf.Examples as lists of values; None for a missing value."""
    opened = open_source(ParquetSource(kind="parquet", path=str(path), **source), options=reading)
    kinds = {**scan_of(path, reading, declared, **source).kinds, **(declared or {})}
    rows = []
    for part in opened.parts(serial_map):
        for batch in opened.batches(part, kinds):
            assert batch.schema.names == list(kinds)
            rows += [decoded(record) for record in encode(batch).to_pylist()]
    return kinds, rows


def one(tmp_path: Path, column: pa.Array, declared: str | None = None) -> tuple[str, list]:
    path = write(tmp_path / "f.parquet", {"x": column})
    kinds, rows = read(path, declared={"x": declared} if declared else None)
    return kinds["x"], [row["x"] and row["x"][0] for row in rows]
