"""Tables of 20,000 columns, and of distinct texts, to sharded examples: ours, TFX's ExampleGens, and what one would
write with polars.

    python -m benchmarks.ingest_wide            a table
    python -m benchmarks.ingest_wide --json     the same figures as JSON

Measured as in benchmarks.ingest, and compared by values (cells) per CPU second. Ours also runs on a tenth of the
columns: the ratio of the two shows whether time grows faster than the columns.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from benchmarks import measure
from benchmarks.ingest import SPLITS, measured, prepare_ours, prepare_stock
from benchmarks.tables import Section, Table
from headrace.configs.schema.sources import SourceConfig

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS, ROWS = 20_000, 200
FEWER = COLUMNS // 10
"""For stock, whose CsvExampleGen takes more than a minute of a processor for all, and for ours beside that."""
IDS, ID_ROWS = 4, 200_000
"""Columns and rows of texts that are all different."""

REPEATS, QUICK = 3, 1

NAMES = {"ours": "Headrace", "polars": "polars", "stock": "stock TFX"}


@dataclass(frozen=True)
class Case:
    """A table in a format. `stock`: the module of TFX's executor for it; `polars`: whether polars reads it."""

    name: str
    kind: str
    columns: int = COLUMNS
    rows: int = ROWS
    stock: str | None = None
    polars: bool = True

    @property
    def engines(self) -> list[str]:
        return ["ours", *(["polars"] if self.polars else []), *(["stock"] if self.stock else [])]


CSV, PARQUET = "csv_example_gen.executor", "custom_executors.parquet_executor"
IMPORT = "import_example_gen.executor"
CASES = {
    "CSV": Case("CSV", "csv", stock=CSV),
    "Parquet": Case("Parquet", "parquet", stock=PARQUET),
    "JSON lines": Case("JSON lines", "jsonl"),
    "TFRecords": Case("TFRecords", "tfrecord", stock=IMPORT, polars=False),
    "CSV of ids": Case("CSV of ids", "csv", IDS, ID_ROWS, stock=CSV),
}
WIDE = [name for name, case in CASES.items() if case.columns == COLUMNS]


def table(columns: int, rows: int) -> pa.Table:
    """Floats (a fifth of them missing), integers and short texts in turn; of few columns texts that are all
    different.
    """
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(0)
    if columns == IDS:
        return pa.table(
            {f"id_{place}": [f"{place}-{row * 7919:012x}" for row in range(rows)] for place in range(columns)}
        )

    def column(place: int) -> pa.Array:
        if place % 3 == 0:
            return pa.array(random.normal(size=rows), mask=random.random(rows) < 0.2)
        if place % 3 == 1:
            return pa.array(random.integers(-1000, 1000, rows))
        return pa.array(random.integers(0, 9, rows).astype(str))

    return pa.table({f"column_{place}": column(place) for place in range(columns)})


def write(case: Case, path: Path) -> None:
    """The case's table as a file."""
    import pyarrow.csv
    import pyarrow.parquet

    from headrace.common.record_batches import in_one_batch
    from headrace.components.examples.tfexample.framing import framed_examples

    given = table(case.columns, case.rows)
    if case.kind == "csv":
        pyarrow.csv.write_csv(given, path)
    elif case.kind == "parquet":
        pyarrow.parquet.write_table(given, path)
    elif case.kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, given.to_pylist())), encoding="utf-8")
    else:
        records = framed_examples(in_one_batch(given))
        path.write_bytes(memoryview(records.buffers()[2]))


def prepare_polars(kind: str, file: Path, out: Path) -> Iterator[None]:
    """What one would write: read, look at all rows for the types, split by a hash of the rows, shuffle, write."""
    import polars as pl

    yield
    read = {
        "csv": lambda: pl.read_csv(file, infer_schema_length=None),
        "parquet": lambda: pl.read_parquet(file),
        "jsonl": lambda: pl.read_ndjson(file, infer_schema_length=None),
    }
    frame = read[kind]()
    bucket, low = frame.hash_rows(seed=0) % sum(SPLITS.values()), 0
    for split, buckets in SPLITS.items():
        rows = frame.filter((bucket >= low) & (bucket < low + buckets))
        rows.sample(fraction=1, shuffle=True, seed=0).write_parquet(out / f"{split}.parquet")
        low += buckets
    yield


def measure_here(engine: str, name: str, file: str, out: str) -> measure.Figures:
    """Run one engine in this process; `write`: make the file that the others read, of this many columns."""
    case = CASES[name]
    if engine == "write":
        write(Case(case.name, case.kind, int(out), case.rows), Path(file))
        return {}
    if engine == "polars":
        return measured(prepare_polars(case.kind, Path(file), Path(out)))
    if engine == "stock":
        return measured(prepare_stock(str(case.stock), Path(file), Path(out)))
    source: SourceConfig = TypeAdapter(SourceConfig).validate_python({"kind": case.kind, "path": file})
    return measured(prepare_ours(source, Path(out)))


def measure_all(repeats: int, *, fewer: bool = True) -> list[dict[str, Any]]:
    """One row of figures for each case and engine: medians over fresh processes in turn. fewer: ours on a tenth of the
    columns too.
    """
    rows: list[dict[str, Any]] = []
    for name, case in CASES.items():
        wide = name in WIDE
        rows += _rows(name, case.columns, [one for one in case.engines if one != "stock" or not wide], repeats)
        few = [one for one in case.engines if wide and (one == "stock" or (one == "ours" and fewer))]
        rows += _rows(name, FEWER, few, repeats)
    return rows


def _rows(name: str, columns: int, engines: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    case = CASES[name]
    if not engines:
        return []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "in", f"data.{case.kind}")
        file.parent.mkdir()
        measure.in_child("ingest_wide", "write", name, str(file), str(columns))
        measured_once = measure.engine_in_child("ingest_wide", name, str(file))
        found = measure.in_turn(dict.fromkeys(engines, repeats), measured_once)
        shape = {"case": name, "columns": columns, "file_mb": file.stat().st_size / 1e6}
    return [{**shape, "engine": engine, **_figures(columns * case.rows, own)} for engine, own in found.items()]


def _figures(values: int, found: Sequence[measure.Figures]) -> dict[str, float]:
    figures = measure.throughput(values, found)
    del figures["rows"], figures["rows_per_cpu_second"]
    return {"values": values, "values_per_cpu_second": values / figures["cpu_seconds"], **figures}


def section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """The tables and notes."""
    head = ["", "", "columns", "MB", "values/CPU s", "CPU s", "wall s", "peak MB"]
    cells = [
        [
            str(row["case"]),
            NAMES[str(row["engine"])],
            f"{row['columns']:,}",
            f"{row['file_mb']:.1f}",
            f"{row['values_per_cpu_second']:,.0f}",
            f"{row['cpu_seconds']:.2f}",
            f"{row['wall_seconds']:.2f}",
            f"{row['peak_mb']:,.0f}",
        ]
        for row in rows
    ]
    notes = (
        *(_ratios(rows, other) for other in ("stock", "polars")),
        "polars writes one Parquet file (zstd) per split, on all threads; tf.Examples repeat the names of the columns"
        " in every row, which with 20,000 columns is 5 times the bytes.",
    )
    details = (
        *_growth(rows),
        f"The wide tables have {ROWS} rows: floats with gaps, integers, short texts. The ids are {ID_ROWS:,} rows of"
        f" {IDS} texts, all distinct.",
        "Headrace: types from all rows, checks of every number against float32, split by a hash of each row, shuffled,"
        " gzip TFRecords of tf.Examples. Stock CsvExampleGen and ParquetExampleGen: the same splits in gzip TFRecords."
        " Stock ImportExampleGen (TFRecords): splits and writes the records unchanged, without reading their values."
        " TFX has no reader for JSON lines.",
        "polars: types from all rows, split by a hash of each row, shuffled. It cannot read TFRecords.",
        "Measured: the executor's `Do`, or the same steps, without imports. The TFRecords were written by Headrace.",
    )
    caption = "20,000 columns, and ids, to split files"
    return Section("Ingest of wide tables", [(caption, Table(head, cells))], notes, details)


def _ratios(rows: Sequence[Mapping[str, Any]], other: str) -> str:
    """Of each case at the columns that both were given."""
    found = {(row["case"], row["columns"], row["engine"]): float(row["values_per_cpu_second"]) for row in rows}
    ratios = [
        f"{found[case, columns, 'ours'] / speed:.2g} ({case})"
        for (case, columns, engine), speed in found.items()
        if engine == other and (case, columns, "ours") in found
    ]
    few = f" at {FEWER:,} columns, and of the ids" if other == "stock" else ""
    return f"Values per CPU second, Headrace by {NAMES[other]}{few}: {', '.join(ratios)}."


def _growth(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    speeds = {
        (row["case"], row["columns"]): float(row["values_per_cpu_second"]) for row in rows if row["engine"] == "ours"
    }
    reported = [
        f"{speeds[name, COLUMNS] / speeds[name, FEWER]:.2f} ({name})" for name in WIDE if (name, FEWER) in speeds
    ]
    if reported:
        yield f"Values per CPU second, Headrace, at {COLUMNS:,} columns by those at {FEWER:,}: {', '.join(reported)}."


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=measure_here)


if __name__ == "__main__":
    main()
