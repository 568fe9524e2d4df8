"""The whole pipeline on gigabytes: the memory of every component, and how it grows with the data.

    python -m benchmarks.large                                     a table; hours on two cores
    python -m benchmarks.large --sizes 1,5 --kinds csv             the sizes in GB of CSV, and the kinds of sources
    python -m benchmarks.large --json                              the same figures as JSON
    python -m benchmarks.large --rows FILE --picture docs/large.svg    of runs that were measured before; draws them

Every run is `headrace run configs/taxi.yaml` in a fresh process and an empty folder, on one CSV file of that size, or
on the same rows as Parquet, with one epoch of batches of 4,096 examples, and without XLA, which takes memory of its own
in a training of more than a minute. The rows are the taxi data with other numbers in every copy, so none repeats. Each
run's figures are also a line of JSON on the standard error.

A component's memory is the anonymous memory of its largest process, at its highest of five samples a second: what it
allocated, and what only the end of the process or its own `free` gives back. What it grew is that less the same on the
taxi data as it ships, which is 2 MB. Pages of files that a process maps are not in it, although they count as resident.
They are clean copies of the disk in the page cache, which the system takes back when something else needs the memory;
the limit of a container counts them in the same way, and is not exceeded by them.

The folder for temporary files needs about five times the largest size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import ingest, measure
from benchmarks.tables import Section, Table
from headrace.pipeline.report.charts import ChartLine, line_chart
from headrace.pipeline.results.record import RunRecord

CONFIG = measure.PROJECT / "configs" / "taxi.yaml"
SETTINGS = ("train.epochs=1", "train.batch_size=4096", "train.early_stopping=null", "train.jit=off")
SIZES = (0.25, 0.5, 1.0, 2.0)
"""GB of CSV."""
KINDS = {"csv": "CSV", "parquet": "Parquet"}
COMPONENTS = ("ExampleGen", "StatisticsGen", "Transform", "Trainer", "Evaluator", "Canary")
"""The others take no longer than the smallest of these on 2 MB, whatever the data."""
DRAWN, COLORS = COMPONENTS[:-1], ("#1f77b4", "#2ca02c", "#9467bd", "#d62728", "#ff7f0e")
MEMORY = "anonymous_mb"
SOME_MB = 48.0
"""What grew by less is within what a run with the same data varies by; its growth has no exponent."""

Row = dict[str, Any]
"""`kind`, `gigabytes` of CSV, `megabytes` of the file, `rows`, `components` with the figures of each, and `total`."""


def measure_all(sizes: Sequence[float], kinds: Sequence[str]) -> list[Row]:
    """A row for each run: of each kind the taxi data as it ships first."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        csv = Path(name, "taxi.csv")
        one = ingest.write_taxi(csv, 1), csv.stat().st_size
        for gigabytes in (0.0, *sorted(sizes)):
            copies = max(1, round(gigabytes * 1e9 / one[1]))
            rows = ingest.write_taxi(csv, copies)
            about = {"gigabytes": csv.stat().st_size / 1e9, "rows": rows}
            for kind in kinds:
                row = {**about, **_run_sampled(kind, csv if kind == "csv" else _as_parquet(csv))}
                print(json.dumps(row), file=sys.stderr, flush=True)  # hours are not lost if a later run fails
                found.append(row)
    return found


def _as_parquet(csv: Path) -> Path:
    """The same rows as one Parquet file, written in pieces."""
    import pyarrow.csv
    import pyarrow.parquet

    file = csv.with_suffix(".parquet")
    types = {field.name: field.type for field in ingest.taxi_table().schema}
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    with (
        pyarrow.csv.open_csv(csv, convert_options=options) as batches,
        pyarrow.parquet.ParquetWriter(file, batches.schema) as out,
    ):
        for batch in batches:
            out.write_batch(batch, row_group_size=1 << 16)
    return file


def _run_sampled(kind: str, file: Path) -> Row:
    """Run the pipeline, and again if one of the components ended between two samples."""
    for _ in range(5):
        row = _run(kind, file)
        if all(_figure(row, name, MEMORY) for name in COMPONENTS):
            break
    return row


def _run(kind: str, file: Path) -> Row:
    """Run the pipeline on a file in an empty folder."""
    source = f"data.source={{kind: {kind}, path: {file}}}"
    settings = [part for one in (*SETTINGS, source) for part in ("--set", one)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "headrace", "run", str(CONFIG), *settings]
        memory = _Memory()
        used = measure.run_process(command, folder, folder / "log", memory.look)
        (run,) = (folder / "runs" / "chicago-taxi" / "runs").iterdir()
        record = RunRecord.read(run)
        chosen = [line for line in (run / "logs" / "Trainer.log").read_text("utf-8").splitlines() if "input: " in line]
    components = {
        node.id: {
            "peak_mb": (node.peak_bytes or 0) / 1e6,
            "anonymous_mb": memory.anonymous.get(node.id, 0.0),
            "cpu_seconds": (node.cpus or 0.0) * ((node.finished or 0.0) - (node.started or 0.0)),
        }
        for node in record.nodes
    }
    return {
        "kind": kind,
        "megabytes": file.stat().st_size / 1e6,
        "components": components,
        "total": used.figures(),
        "input": chosen[0] if chosen else "",
    }


class _Memory:
    """The largest anonymous memory of a process of each component, in MB, by the component's id."""

    def __init__(self) -> None:
        self.anonymous: dict[str, float] = {}

    def look(self, processes: Sequence[int]) -> None:
        """Sample these processes. A component's write to the log of its name."""
        for each in processes:
            with contextlib.suppress(OSError, StopIteration):  # it has just ended
                component = Path(f"/proc/{each}/fd/1").readlink().stem
                held = measure.memory_of(each, "RssAnon")
                self.anonymous[component] = max(self.anonymous.get(component, 0.0), held)


def section(found: Sequence[Row]) -> Section:
    """The tables and notes."""
    parts = []
    for kind, title in KINDS.items():
        runs = [row for row in found if row["kind"] == kind]
        if runs:
            parts.append(
                (f"{title}: MB of memory that each component grew, and its CPU seconds per GB of CSV", _grown(runs))
            )
            parts.append((f"{title}: MB of resident memory, with the pages of mapped files", _resident(runs)))
    notes = (
        "The first column is the memory of a component on the taxi data as it ships, most of which is what TensorFlow"
        " and TFX take; the others are what it grew beyond that: anonymous memory, without the pages of mapped files."
        " The exponent is that of the growth from the second size to the largest: 1 is in proportion to the data."
        f" Where less than {SOME_MB:.0f} MB grew there is none.",
        *(
            f"The Trainer on {row['gigabytes']:.1f} GB of {KINDS[row['kind']]}: {row['input'].removeprefix('input: ')}."
            for row in found
            if row["gigabytes"] == max(one["gigabytes"] for one in found)
        ),
    )
    return Section("Gigabytes", parts, notes)


def picture(found: Sequence[Row]) -> str:
    """What the components grew with CSV, as an SVG file."""
    base, *larger = [row for row in found if row["kind"] == "csv"]
    lines = [
        ChartLine(
            name, [(0.0, 0.0), *((row["gigabytes"], _grown_mb(row, base, name)) for row in larger)], f"of{number}"
        )
        for number, name in enumerate(DRAWN)
    ]
    chart = str(line_chart("What the components grew", lines, x_label="GB of CSV, and MB of anonymous memory"))
    style = (
        "text{font:9px sans-serif;fill:#555}.grid{stroke:#ddd}.middle{text-anchor:middle}.end{text-anchor:end}"
        "polyline{fill:none;stroke-width:2}"
    )
    names = ""
    for number, (name, color) in enumerate(zip(DRAWN, COLORS, strict=True)):
        style += f".of{number}{{stroke:{color}}}.of{number} circle{{fill:{color}}}"
        names += f'<text x="56" y="{22 + 12 * number}" style="fill:{color}">{name}</text>'
    opening = '<svg xmlns="http://www.w3.org/2000/svg" width="680" height="440" '
    chart = chart.replace("<svg ", opening, 1).replace("</title>", f"</title><style>{style}</style>", 1)
    return chart.replace("</svg>", f"{names}</svg>\n")


def _grown(runs: Sequence[Row]) -> Table:
    base, *larger = runs
    sizes = [f"{row['gigabytes']:.2g} GB" for row in larger]
    head = ["", "MB at 2 MB", *sizes, "exponent", *(f"CPU s per GB, {size}" for size in sizes)]
    rows = []
    for name in COMPONENTS:
        grown = [_grown_mb(row, base, name) for row in larger]
        more = [_figure(row, name, "cpu_seconds") - _figure(base, name, "cpu_seconds") for row in larger]
        each = [f"{seconds / row['gigabytes']:.1f}" for seconds, row in zip(more, larger, strict=True)]
        memory = f"{_figure(base, name, MEMORY):,.0f}", *(f"+{max(mb, 0):,.0f}" for mb in grown)
        rows.append([name, *memory, _exponent(larger, grown), *each])
    return Table(head, rows)


def _resident(runs: Sequence[Row]) -> Table:
    rows = [[name, *(f"{_figure(row, name, 'peak_mb'):,.0f}" for row in runs)] for name in COMPONENTS]
    rows.append(["all processes together", *(f"{row['total']['peak_mb']:,.0f}" for row in runs)])
    return Table(["", *(f"{row['gigabytes']:.2g} GB" for row in runs)], rows)


def _exponent(runs: Sequence[Row], grown: Sequence[float]) -> str:
    """Of the growth with the data."""
    if grown[-1] < SOME_MB or len(grown) == 1:
        return ""
    return f"{math.log(grown[-1] / max(grown[0], 1.0)) / math.log(runs[-1]['gigabytes'] / runs[0]['gigabytes']):.2f}"


def _grown_mb(row: Row, base: Row, name: str) -> float:
    return _figure(row, name, MEMORY) - _figure(base, name, MEMORY)


def _figure(row: Row, name: str, figure: str) -> float:
    return float(row["components"].get(name, {}).get(figure, 0.0))


def main() -> None:
    """Measure and print."""
    options = {
        "--sizes": {"type": _numbers, "default": SIZES, "help": "GB of CSV, such as 1,5"},
        "--kinds": {"type": lambda text: text.split(","), "default": list(KINDS), "help": "csv,parquet"},
        "--rows": {"type": Path, "help": "a file with the figures of earlier runs, in place of new ones"},
        "--picture": {"type": Path, "help": "where to draw them"},
    }

    def measured(given: argparse.Namespace) -> list[Row]:
        lines = given.rows.read_text(encoding="utf-8").splitlines() if given.rows else []
        found = [json.loads(line) for line in lines] or measure_all(given.sizes, given.kinds)
        if given.picture:
            given.picture.write_text(picture(found), encoding="utf-8")
        return found

    measure.command(__doc__, measured, section, options=options)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
