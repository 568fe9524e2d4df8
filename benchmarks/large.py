"""The whole pipeline on gigabytes: the memory of every component, and how it grows with the data.

    python -m benchmarks.large                                     a table; hours on two cores
    python -m benchmarks.large --sizes 1,5 --kinds csv             the sizes in GB of CSV, and the kinds of sources
    python -m benchmarks.large --json                              the same figures as JSON
    python -m benchmarks.large --rows FILE --picture docs/large.svg    of runs that were measured before; draws them

Every run is `headrace run configs/taxi.yaml` in a fresh process and an empty folder, on one CSV file of that size, or
on the same rows as Parquet, with one epoch of batches of 4,096 examples, and without XLA, which takes memory of its own
in a training of more than a minute. Beyond 6 GB the CSV is in gzip files of about 1 GB of text each, which take a
quarter of the disk. The rows are the taxi data with other numbers in every copy, so none repeats. Each run's figures
are also a line of JSON on the standard error.

A component's memory is the anonymous memory of its largest process, at its highest of five samples a second: what it
allocated, and what only the end of the process or its own `free` gives back. What it grew is that less the same on the
taxi data as it ships, which is 2 MB. Pages of files that a process maps are not in it, although they count as resident.
They are clean copies of the disk in the page cache, which the system takes back when something else needs the memory;
the limit of a container counts them in the same way, and is not exceeded by them.

The folder for temporary files needs three times the largest size, or one and a half times what is in gzip files.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isal import igzip

from benchmarks import ingest, measure
from benchmarks.tables import Section, Table
from headrace.pipeline.report.charts import ChartLine, line_chart
from headrace.pipeline.results.record import RunRecord

if TYPE_CHECKING:
    import pyarrow as pa

CONFIG = measure.PROJECT / "configs" / "taxi.yaml"
SETTINGS = ("train.epochs=1", "train.batch_size=4096", "train.early_stopping=null", "train.jit=off")
SIZES = (0.25, 0.5, 1.0, 2.0)
"""GB of CSV."""
PLAIN_GB, COPIES_OF_A_FILE = 6.0, 512
"""GB of CSV in one file; more are in gzip files of this many copies of the taxi data."""
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
    for gigabytes in (0.0, *sorted(sizes)):
        with tempfile.TemporaryDirectory() as name:
            files, rows, text = _write_csv(Path(name), gigabytes)
            about = {"gigabytes": text / 1e9, "rows": rows}
            for kind in kinds:
                row = {**about, **_run_sampled(kind, files if kind == "csv" else [_as_parquet(files)])}
                print(json.dumps(row), file=sys.stderr, flush=True)  # hours are not lost if a later run fails
                found.append(row)
    return found


def _write_csv(folder: Path, gigabytes: float) -> tuple[list[Path], int, int]:
    """Write the taxi data about so often that it has this size; returns the files, the rows and the bytes of text."""
    one = folder / "one.csv"
    rows = ingest.write_taxi(one, 1)
    copies = max(1, round(gigabytes * 1e9 / one.stat().st_size))
    one.unlink()
    suffix, of_a_file = (".csv.gz", COPIES_OF_A_FILE) if gigabytes > PLAIN_GB else (".csv", copies)
    tables, files, size = ingest.taxi_copies(copies), list[Path](), 0
    for first in range(0, copies, of_a_file):
        files.append(folder / f"taxi-{first:05d}{suffix}")
        size += _write_tables(files[-1], itertools.islice(tables, of_a_file))
    return files, copies * rows, size


def _write_tables(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write some tables as one CSV file, or as gzip by its name; the bytes of text."""
    import pyarrow as pa
    import pyarrow.csv

    opened = igzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb")  # type: ignore[no-untyped-call]
    with opened as file:
        with pyarrow.csv.CSVWriter(pa.PythonFile(file, "w"), ingest.taxi_table().schema) as out:
            for table in tables:
                out.write(table)
        return int(file.tell())


def _as_parquet(files: Sequence[Path]) -> Path:
    """The same rows as one Parquet file, written in pieces."""
    import pyarrow.csv
    import pyarrow.parquet

    written = files[0].parent / "taxi.parquet"
    schema = ingest.taxi_table().schema
    options = pyarrow.csv.ConvertOptions(
        column_types=dict(zip(schema.names, schema.types, strict=True)), strings_can_be_null=True
    )
    with pyarrow.parquet.ParquetWriter(written, schema) as out:
        for file in files:
            with pyarrow.csv.open_csv(file, convert_options=options) as batches:
                for batch in batches:
                    out.write_batch(batch, row_group_size=1 << 16)
    return written


def _run_sampled(kind: str, files: Sequence[Path]) -> Row:
    """Run the pipeline, and again if one of the components ended between two samples."""
    for _ in range(5):
        row = _run(kind, files)
        if all(_figure(row, name, MEMORY) for name in COMPONENTS):
            break
    return row


def _run(kind: str, files: Sequence[Path]) -> Row:
    """Run the pipeline on some files in an empty folder."""
    path = files[0] if len(files) == 1 else files[0].parent / "*.csv.gz"
    source = f"data.source={{kind: {kind}, path: {path}}}"
    settings = [part for one in (*SETTINGS, source) for part in ("--set", one)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "headrace", "run", str(CONFIG), *settings]
        memory = _Memory(folder)
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
        "megabytes": sum(file.stat().st_size for file in files) / 1e6,
        "components": components,
        "total": {**used.figures(), "disk_mb": memory.disk},
        "input": chosen[0] if chosen else "",
    }


class _Memory:
    """The largest anonymous memory of a process of each component by its id, and the most that a folder took of the
    disk, in MB.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.anonymous: dict[str, float] = {}
        self.disk = 0.0

    def look(self, processes: Sequence[int]) -> None:
        """Sample these processes, and the folder. A component's processes write to the log of its name."""
        self.disk = max(self.disk, _size(self._folder))
        for each in processes:
            with contextlib.suppress(OSError, StopIteration):  # it has just ended
                component = Path(f"/proc/{each}/fd/1").readlink().stem
                held = measure.memory_of(each, "RssAnon")
                self.anonymous[component] = max(self.anonymous.get(component, 0.0), held)


def _size(folder: Path) -> float:
    """MB on the disk of all files, a file with several names once."""
    found = {}
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):  # it has just been removed
            state = file.lstat()
            found[state.st_ino] = state.st_blocks * 512
    return sum(found.values()) / 1e6


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
        " The exponent is that of the growth from the first size above 1 GB to the largest: 1 is in proportion to the"
        " data."
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
    rows.append(["the folder of the run, on the disk", *(f"{row['total'].get('disk_mb', 0):,.0f}" for row in runs)])
    return Table(["", *(f"{row['gigabytes']:.2g} GB" for row in runs)], rows)


def _exponent(runs: Sequence[Row], grown: Sequence[float]) -> str:
    """Of the growth with the data, from the first size of at least 1 GB on if there is one."""
    first = next((number for number, row in enumerate(runs) if row["gigabytes"] >= 1), 0)
    if grown[-1] < SOME_MB or first == len(runs) - 1:
        return ""
    more = runs[-1]["gigabytes"] / runs[first]["gigabytes"]
    return f"{math.log(grown[-1] / max(grown[first], 1.0)) / math.log(more):.2f}"


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
