"""Parquet to sharded examples: ours and TFX's ParquetExampleGen at equal work (one file, the same split ratio, gzip).

    python -m benchmarks.ingest_parquet            a table
    python -m benchmarks.ingest_parquet --json     the same figures as JSON

Measured as in benchmarks.ingest. The data is one file of 20 MB, as pyarrow writes it: the taxi data with noise in its
fares, miles and coordinates, in as many digits as such data has, and another in every copy, so no rows repeat.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import measure
from benchmarks.ingest import measured, prepare_ours, prepare_stock
from benchmarks.tables import Section, Table
from configs.sources import ParquetSource

COPIES = 32
"""Of the taxi data; they make a file of 20 MB."""

REPEATS, QUICK = {"ours": 3, "stock": 1}, {"ours": 1, "stock": 1}
"""Stock takes a minute and more."""

NOISE = {
    "fare": (1, 2),
    "trip_miles": (1, 2),
    "pickup_latitude": (0.01, 6),
    "pickup_longitude": (0.01, 6),
    "dropoff_latitude": (0.01, 6),
    "dropoff_longitude": (0.01, 6),
}
"""The most that is added to a column, and the digits behind the point that are kept: cents, and a tenth of a metre."""


def write_taxi(path: Path, copies: int) -> int:
    """The taxi data, with other numbers in every copy; the number of rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    from components.example_gen.paths import resolve

    (file,) = resolve("pkg://tfx/examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv")
    taxi = pyarrow.csv.read_csv(file, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True))
    random = np.random.default_rng(0)
    tables = []
    for copy in range(copies):
        table = taxi
        for name, (most, digits) in NOISE.items():
            noise = pa.array(random.uniform(0, most, len(taxi)))
            column = pa.compute.round(pa.compute.add(taxi[name], noise), digits)
            table = table.set_column(table.schema.get_field_index(name), name, column)
        place = table.schema.get_field_index("trip_start_timestamp")
        later = pa.compute.add(taxi["trip_start_timestamp"], 900 * copy)
        tables.append(table.set_column(place, "trip_start_timestamp", later))
    pyarrow.parquet.write_table(pa.concat_tables(tables), path, row_group_size=1 << 16)
    return copies * len(taxi)


def measure_here(engine: str, file: Path, out: Path) -> measure.Figures:
    """Run one engine in this process."""
    if engine == "ours":
        return measured(prepare_ours(ParquetSource(kind="parquet", path=str(file)), out))
    return measured(prepare_stock("custom_executors.parquet_executor", file, out))


def measure_all(repeats: Mapping[str, int], copies: int = COPIES) -> list[dict[str, float | str]]:
    """One row of figures for each engine: medians over fresh processes, ours and stock in turn."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "in", "taxi.parquet")
        file.parent.mkdir()
        rows = write_taxi(file, copies)
        found = measure.in_turn(repeats, lambda engine: _in_fresh_process(engine, file))
        return [
            {
                "engine": engine,
                "rows": rows,
                "file_mb": file.stat().st_size / 1e6,
                "rows_per_cpu_second": rows / medians["cpu_seconds"],
                **medians,
            }
            for engine in REPEATS
            for medians in [measure.medians(found[engine])]
        ]


def section(rows: Sequence[Mapping[str, float | str]]) -> Section:
    """The figures for people."""
    head = ["", "MB", "rows", "rows/CPU s", "CPU s", "wall s", "peak MB"]
    cells = [
        [
            "Headrace" if row["engine"] == "ours" else "stock ParquetExampleGen",
            f"{row['file_mb']:.1f}",
            f"{row['rows']:,}",
            f"{row['rows_per_cpu_second']:,.0f}",
            f"{row['cpu_seconds']:.2f}",
            f"{row['wall_seconds']:.2f}",
            f"{row['peak_mb']:,.0f}",
        ]
        for row in rows
    ]
    speeds = {row["engine"]: float(row["rows_per_cpu_second"]) for row in rows}
    notes = (
        f"Rows per CPU second, Headrace by stock: {speeds['ours'] / speeds['stock']:.0f}.",
        "Equal work: one Parquet file (Snappy, dictionaries) to gzip shards of tf.Example in three splits. Measured:"
        " the executor's `Do`, without imports. The data: the taxi data 32 times, with noise in its numbers.",
    )
    return Section("Ingest of Parquet", [("Parquet to sharded examples", Table(head, cells))], notes)


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, metavar=("ENGINE", "FILE", "OUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        engine, file, out = arguments.child
        print(json.dumps(measure_here(engine, Path(file), Path(out))))
        return
    rows = measure_all(REPEATS)
    print(json.dumps(rows, indent=1) if arguments.json else section(rows).text())


def _in_fresh_process(engine: str, file: Path) -> measure.Figures:
    with tempfile.TemporaryDirectory() as out:
        return measure.json_of("benchmarks.ingest_parquet", "--child", engine, str(file), out)


if __name__ == "__main__":
    main()
