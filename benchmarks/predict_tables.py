"""Predictions of tables unlike the taxi data: of many numbers, and of click logs with many different strings.

    python -m benchmarks.predict_tables            a table
    python -m benchmarks.predict_tables --json     the same figures as JSON

Each is predicted from CSV to Parquet, beside ExampleGen's ingest of the same file to TFRecords, which shows what rows
cost that are only read and written, and beside the model alone, which gets the same columns in memory; and from
TFRecords to TFRecords, beside TFX's BulkInferrer. The models are those of an epoch: `tabm` for numbers, and
`wide_and_deep` for clicks, as the default kind would be for tables of their size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import criteo, measure
from benchmarks.ingest import measured
from benchmarks.ingest import prepare_ours as prepare_ingest
from benchmarks.predict import (
    CSV,
    FILES,
    MODEL,
    beside_ingest,
    prepare_model,
    prepare_ours,
    prepare_stock,
    write_examples,
)
from benchmarks.tables import Section, Table
from headrace.configs.schema.sources import CsvSource

REPEATS = {"csv": 3, "model": 3, "ingest": 3, "ours": 3, "stock": 1}
QUICK = dict.fromkeys(REPEATS, 1)
ENGINES = {
    "csv": "headrace predict, CSV to Parquet",
    "model": "the model alone, the same columns in memory",
    "ingest": "ExampleGen of Headrace, CSV to TFRecords",
    "ours": "headrace predict, TFRecords to TFRecords",
    "stock": "stock BulkInferrer, TFRecords to TFRecords",
}
NUMBERS, ROWS, LEARNED = 500, 20_000, 1_000
CLICKS = 100_000


@dataclass(frozen=True)
class Case:
    """A table to predict, as `write` makes it in a folder, with the kind of its model and its features."""

    name: str
    rows: int
    kind: str
    features: Mapping[str, Any]
    write: Callable[[Path], Path]
    """Writes CSV, and returns the file to learn from."""


def _numbers(folder: Path) -> Path:
    """Normally distributed numbers with four decimals; each second column has gaps."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    random = np.random.default_rng(1)
    table = {"label": pa.array(random.integers(0, 2, ROWS))}
    for number in range(NUMBERS):
        values = np.round(random.normal(5, 3, ROWS), 4)
        table[f"x{number}"] = pa.array(values, mask=random.random(ROWS) < 0.1 if number % 2 else None)
    options = pyarrow.csv.WriteOptions(quoting_style="none")
    for name, rows in ((CSV, ROWS), ("learned.csv", LEARNED)):
        pyarrow.csv.write_csv(pa.table(table).slice(0, rows), folder / name, options)
    return folder / "learned.csv"


def _clicks(folder: Path) -> Path:
    criteo.write(CLICKS, folder)
    return (folder / "log.csv").rename(folder / CSV)


_KINDS = {**dict.fromkeys(criteo.INTEGERS, "numeric"), **dict.fromkeys(criteo.HASHES, "vocabulary")}
_CLICK_FEATURES = {name: {"column": kind} for name, kind in _KINDS.items()}
CASES = {
    "numbers": Case(f"{NUMBERS} numbers", ROWS, "tabm", {"x*": {"column": "numeric"}}, _numbers),
    "clicks": Case("clicks", CLICKS, "wide_and_deep", _CLICK_FEATURES, _clicks),
}


def prepare(case: Case, folder: Path) -> int:
    """Write the data, and train a model on it."""
    import headrace

    config = {
        "pipeline": {"name": "table", "root": str(folder / "runs")},
        "data": {"source": {"kind": "csv", "path": str(case.write(folder))}},
        "label": {"key": "label", "kind": "binary"},
        "features": case.features,
        "model": {"kind": case.kind},
        "train": {"epochs": 1},
        "deploy": {"push": None, "canary": None},
    }
    run = headrace.run(config, show=False)
    (folder / MODEL).symlink_to(run.artifact("Trainer", "model").uri)
    write_examples(folder)
    return case.rows


def measure_here(engine: str, folder: str, out: str) -> measure.Figures:
    """Run one engine in this process."""
    if engine == "ingest":
        source = CsvSource(kind="csv", path=str(Path(folder, CSV)))
        return measured(prepare_ingest(source, Path(out), compression="none"))
    if engine == "stock":
        return measured(prepare_stock(Path(folder), Path(out)))
    if engine == "model":
        return measured(prepare_model(Path(folder)))
    given, output = FILES[engine]
    return measured(prepare_ours(Path(folder), given, Path(out, output)))


def measure_all(repeats: Mapping[str, int]) -> list[dict[str, Any]]:
    """One row of figures for each table and engine: medians over fresh processes, in turn."""
    rows: list[dict[str, Any]] = []
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            size = int(measure.json_of("benchmarks.predict_tables", "--child", "prepare", folder, name))
            found = measure.in_turn(repeats, measure.engine_in_child("predict_tables", folder))
        rows += [{"table": name, "engine": engine, **measure.throughput(size, found[engine])} for engine in ENGINES]
    return rows


def section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """The figures for people."""
    cells = [[f"{CASES[row['table']].name}: {ENGINES[row['engine']]}", *measure.throughput_cells(row)] for row in rows]
    seconds: dict[str, dict[str, float]] = {name: {} for name in CASES}
    for row in rows:
        seconds[row["table"]][row["engine"]] = float(row["cpu_seconds"])
    by_stock = ", ".join(f"{CASES[name].name} {own['stock'] / own['ours']:.1f}" for name, own in seconds.items())
    notes = (
        *(f"{CASES[name].name.capitalize()}: {beside_ingest(own)}" for name, own in seconds.items()),
        f"CPU seconds of stock by those of predict, from the same TFRecords: {by_stock}.",
        "Measured: everything but imports, the loading of the model included.",
    )
    return Section(
        "Predictions of wide tables", [("From CSV to Parquet", Table(["", *measure.THROUGHPUT], cells))], notes
    )


def child(engine: str, folder: str, last: str) -> measure.Figures | int:
    """One engine, or what all of them need."""
    return prepare(CASES[last], Path(folder)) if engine == "prepare" else measure_here(engine, folder, last)


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=child)


if __name__ == "__main__":
    main()
