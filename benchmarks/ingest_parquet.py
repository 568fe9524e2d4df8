"""Parquet to sharded examples: ours and TFX's ParquetExampleGen at equal work (one file, the same split ratio, gzip).

    python -m benchmarks.ingest_parquet            a table
    python -m benchmarks.ingest_parquet --json     the same figures as JSON

Measured as in benchmarks.ingest. The data is one file of 20 MB, as pyarrow writes it: the taxi data with noise in its
fares, miles and coordinates, in as many digits as such data has, and another in every copy, so no rows repeat.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import measure
from benchmarks.ingest import measured, prepare_ours, prepare_stock, taxi_table
from benchmarks.tables import Section, Table
from headrace.configs.schema.sources import ParquetSource

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
    import pyarrow.parquet

    taxi = taxi_table()
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


def measure_here(engine: str, file: str, out: str) -> measure.Figures:
    """Run one engine in this process."""
    if engine == "ours":
        return measured(prepare_ours(ParquetSource(kind="parquet", path=file), Path(out)))
    return measured(prepare_stock("custom_executors.parquet_executor", Path(file), Path(out)))


def measure_all(repeats: Mapping[str, int], copies: int = COPIES) -> list[dict[str, float | str]]:
    """One row of figures for each engine: medians over fresh processes, ours and stock in turn."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "in", "taxi.parquet")
        file.parent.mkdir()
        rows = write_taxi(file, copies)
        found = measure.in_turn(repeats, measure.engine_in_child("ingest_parquet", str(file)))
        size = file.stat().st_size / 1e6
        return [{"engine": engine, "file_mb": size, **measure.throughput(rows, found[engine])} for engine in REPEATS]


def section(rows: Sequence[Mapping[str, float | str]]) -> Section:
    """The figures for people."""
    names = {"ours": "Headrace", "stock": "stock ParquetExampleGen"}
    cells = [[names[str(row["engine"])], f"{row['file_mb']:.1f}", *measure.throughput_cells(row)] for row in rows]
    notes = (
        measure.by_stock(rows),
        "Equal work: one Parquet file (Snappy, dictionaries) of the taxi data 32 times, with noise in its numbers, to"
        " gzip shards of tf.Example in three splits.",
    )
    table = Table(["", "MB", *measure.THROUGHPUT], cells)
    return Section("Ingest of Parquet", [("Parquet to sharded examples", table)], notes)


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=measure_here)


if __name__ == "__main__":
    main()
