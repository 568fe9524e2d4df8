"""Click logs as Criteo publishes them: ExampleGen, StatisticsGen and Transform, beside the same work in polars.

    python -m benchmarks.criteo            a table
    python -m benchmarks.criteo --json     the same figures as JSON

The data is generated: a label with 3% positives, 13 integers with gaps, and 26 columns of hexadecimal hashes, whose
frequencies follow Zipf's law and of which the largest columns can take a million values.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure, statistics_gen, transform_wide
from benchmarks.ingest import measured, prepare_ours
from benchmarks.tables import Section, Table
from headrace.configs.schema.sources import CsvSource

ROWS, QUICK_ROWS = 300_000, 50_000
REPEATS, QUICK = 2, 1
STEPS = {"ingest": "ExampleGen", "statistics": "StatisticsGen", "transform": "Transform"}
INTEGERS = [f"i{number}" for number in range(1, 14)]
HASHES = [f"c{number}" for number in range(1, 27)]
POSITIVES, GAPS, EXPONENT = 0.03, 0.2, 1.2
SIZES = (1_000_000, 300_000, 100_000, 10_000, 1_000, 100, 20)
"""Distinct values that a column of hashes can take, in turn."""
BLOCK = 100_000
"""Rows that are generated at once."""

Figures = dict[str, Any]


def write(rows: int, folder: Path) -> None:
    """Write the data as CSV, its schema and the features."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    random, file = np.random.default_rng(1), None
    for first in range(0, rows, BLOCK):
        size = min(BLOCK, rows - first)
        table = {"label": pa.array((random.random(size) < POSITIVES).astype(np.int64))}
        for name in INTEGERS:
            values = np.floor(random.lognormal(3, 2, size)).astype(np.int64)
            table[name] = pa.array(values, mask=random.random(size) < GAPS)
        for number, name in enumerate(HASHES):
            ranks = random.zipf(EXPONENT, size) % SIZES[number % len(SIZES)]
            hashes = (ranks.astype(np.uint64) * np.uint64(2654435761) + np.uint64(number)) & np.uint64(0xFFFFFFFF)
            mask = random.random(size) < GAPS / 4
            table[name] = pa.array([f"{value:08x}" for value in hashes.tolist()], mask=mask)
        block = pa.table(table)
        file = file or pyarrow.csv.CSVWriter(
            folder / "log.csv", block.schema, write_options=pyarrow.csv.WriteOptions(quoting_style="none")
        )
        file.write(block)
    if file:
        file.close()
    types = {"label": "INT", **dict.fromkeys(INTEGERS, "INT"), **dict.fromkeys(HASHES, "BYTES")}
    schema = "\n".join(f'feature {{ name: "{name}" type: {type_} }}' for name, type_ in types.items())
    (folder / "schema").mkdir()
    (folder / "schema" / "schema.pbtxt").write_text(schema, encoding="utf-8")
    kinds = {**dict.fromkeys(INTEGERS, "numeric"), **dict.fromkeys(HASHES, "vocabulary")}
    features = {name: {"column": kind} for name, kind in kinds.items()}
    config = json.dumps({"label": {"key": "label", "kind": "binary"}, "features": features})
    (folder / "config.json").write_text(config, encoding="utf-8")


def prepare_polars(file: Path, out: Path) -> Iterator[None]:
    """What one would write: read, describe, learn the vocabularies, replace values by their ranks, write Parquet."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # read when polars is imported
    import polars as pl

    yield
    frame = pl.read_csv(file, infer_schema_length=None)
    frame.describe()
    for name in HASHES:
        counts = frame[name].drop_nulls().value_counts(sort=True)
        ranks = counts.select(name).with_row_index("rank")
        encoded = frame.select(name).join(ranks, on=name, how="left", maintain_order="left")["rank"]
        frame = frame.with_columns(encoded.alias(name))
    scaled = [(pl.col(name) - pl.col(name).mean()) / pl.col(name).std() for name in INTEGERS]
    frame.with_columns(scaled).write_parquet(out / "transformed.parquet")
    yield


def measure_here(step: str, given: str, out: str) -> Figures:
    """Run one step in this process; `write`: make the data, of as many rows as `out` says."""
    folder = Path(given)
    if step == "write":
        write(int(out), folder)
        return {}
    if step == "polars":
        return dict(measured(prepare_polars(folder / "log.csv", Path(out))))
    if step == "ingest":
        shutil.rmtree(folder / "examples", ignore_errors=True)
        return dict(measured(prepare_ours(CsvSource(kind="csv", path=str(folder / "log.csv")), folder)))
    if step == "statistics":
        return dict(statistics_gen.measure_here("ours", str(folder / "examples"), out))
    return transform_wide.transform("ours", given, out)


def measure_all(rows: int = ROWS, repeats: int = REPEATS) -> list[Figures]:
    """The CPU seconds of each step and of polars: medians over fresh processes, polars between the rounds."""
    found: dict[str, list[measure.Figures]] = {step: [] for step in (*STEPS, "polars")}
    with tempfile.TemporaryDirectory() as name:
        measure.in_child("criteo", "write", name, str(rows))
        measured_once = measure.engine_in_child("criteo", name)
        for _ in range(repeats):
            for step, own in found.items():
                own.append(measured_once(step))
    medians = {step: measure.medians(own)["cpu_seconds"] for step, own in found.items()}
    return [{"step": step, "rows": rows, "cpu_seconds": seconds} for step, seconds in medians.items()]


def section(rows: Sequence[Mapping[str, Any]]) -> Section:
    """The table and notes."""
    seconds = {str(row["step"]): float(row["cpu_seconds"]) for row in rows}
    ours = sum(seconds[step] for step in STEPS)
    figures = {**{name: seconds[step] for step, name in STEPS.items()}, "all three": ours, "polars": seconds["polars"]}
    cells = [[name, f"{found:.2f}", f"{found / seconds['polars']:.1f}"] for name, found in figures.items()]
    caption = f"{rows[0]['rows']:,} rows of 40 columns, from CSV to transformed examples"
    notes = (
        "13 integers with gaps, standardized, and 26 columns of hashes with a vocabulary each.",
        "polars on one thread: read, describe, 26 vocabularies, replace values by their ranks, write Parquet. It splits"
        " nothing, checks nothing and writes no graph for serving.",
    )
    return Section("Click logs", [(caption, Table(["", "CPU s", "by polars"], cells))], notes)


def main() -> None:
    """Measure and print; with --child, do one step here."""
    measure.command(__doc__, lambda _: measure_all(), section, child=measure_here)


if __name__ == "__main__":
    main()
