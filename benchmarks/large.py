"""The whole pipeline on gigabytes: the peak memory of every component, and how it grows with the data.

    python -m benchmarks.large                              a table; hours on two cores
    python -m benchmarks.large --sizes 1,5 --kinds csv      the sizes in GB of CSV, and the kinds of sources
    python -m benchmarks.large --json                       the same figures as JSON

Every run is `headrace run configs/taxi.yaml` in a fresh process and an empty folder, on one CSV file of that size, or
on the same rows as Parquet, with one epoch of batches of 4,096 examples. The rows are the taxi data with other numbers
in every copy, so none repeats. A component's memory is the peak of its largest process, from the run's record; what it
grew is that peak less its peak on the taxi data as it ships, which is 2 MB.

The largest size is run twice from CSV, with the parsed examples in memory and on disk. The folder for temporary files
needs about five times the largest size.
"""

from __future__ import annotations

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
from headrace.pipeline.results.record import RunRecord

CONFIG = measure.PROJECT / "configs" / "taxi.yaml"
SETTINGS = ("train.epochs=1", "train.batch_size=4096", "train.early_stopping=null")
SIZES = (0.25, 0.5, 1.0, 2.0)
"""GB of CSV."""
KINDS = {"csv": "CSV", "parquet": "Parquet"}
COMPONENTS = (
    *("ExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator", "DataGate", "Transform", "Trainer", "Evaluator"),
    "Canary",
)
SOME_MB = 48.0
"""What grew by less is within what a run with the same data varies by; its growth has no exponent."""

Row = dict[str, Any]
"""`kind`, `cache`, `gigabytes`, `megabytes` of the file, `rows`, `components` with the figures of each, and `total`."""


def measure_all(sizes: Sequence[float], kinds: Sequence[str]) -> list[Row]:
    """A row for each run: of each kind the taxi data as it ships first."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        csv = Path(name, "taxi.csv")
        one = ingest.write_taxi(csv, 1), csv.stat().st_size
        for gigabytes in (0.0, *sorted(sizes)):
            copies = max(1, round(gigabytes * 1e9 / one[1]))
            rows = ingest.write_taxi(csv, copies)
            about = {"gigabytes": gigabytes, "rows": rows}
            if "csv" in kinds:
                found.append({**about, **_run("csv", csv, "auto")})
                if gigabytes == max(sizes):
                    found.append({**about, **_run("csv", csv, "disk")})
            if "parquet" in kinds:
                found.append({**about, **_run("parquet", _as_parquet(csv), "auto")})
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


def _run(kind: str, file: Path, cache: str) -> Row:
    """Run the pipeline on a file in an empty folder."""
    source = f"data.source={{kind: {kind}, path: {file}}}"
    settings = [part for one in (*SETTINGS, source, f"train.input.cache={cache}") for part in ("--set", one)]
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
    row = {
        "kind": kind,
        "cache": cache,
        "megabytes": file.stat().st_size / 1e6,
        "components": components,
        "total": used.figures(),
        "input": chosen[0] if chosen else "",
    }
    print(json.dumps(row), file=sys.stderr, flush=True)  # an hour's work is not lost if a later run fails
    return row


class _Memory:
    """The largest anonymous memory of a process of each component, in MB, by the component's id.

    What a component maps from files is not in it: such pages are copies of the disk, which the system drops as soon as
    a process, or the container that it runs in, needs the memory for anything else.
    """

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
            parts.append((f"{title}: MB of memory that each component grew, by the size of the data", _grown(runs)))
            parts.append((f"{title}: CPU seconds of each component", _seconds(runs)))
    notes = (
        "The first column is the peak of a component's largest process on the taxi data as it ships, most of which is"
        " what TensorFlow and TFX take; the others are what the peak grew beyond that. The exponent is that of the"
        " growth from the second size to the largest: 1 is in proportion to the data. Where less than"
        f" {SOME_MB:.0f} MB grew there is none.",
        "Sizes are GB of CSV; the Parquet files hold the same rows.",
        *(
            f"The Trainer on {row['gigabytes']:g} GB of {KINDS[row['kind']]}, `cache: {row['cache']}`:"
            f" {row['input'].removeprefix('input: ')}."
            for row in found
            if row["gigabytes"] == max(one["gigabytes"] for one in found)
        ),
    )
    return Section("Gigabytes", parts, notes)


def _grown(runs: Sequence[Row]) -> Table:
    base, *larger = runs
    head = ["", *(_title(row) for row in runs), "exponent"]
    rows = []
    for name in COMPONENTS:
        least = _peak(base, name)
        grown = [_peak(row, name) - least for row in larger]
        rows.append([name, f"{least:,.0f}", *(f"+{max(more, 0):,.0f}" for more in grown), _exponent(name, runs)])
    whole = [row["total"]["peak_mb"] for row in runs]
    rows.append(["all processes together", *(f"{peak:,.0f}" for peak in whole), ""])
    return Table(head, rows)


def _exponent(name: str, runs: Sequence[Row]) -> str:
    """Of the growth with the data, over the runs with the cache that Headrace chose."""
    base, *larger = [row for row in runs if row["cache"] == "auto"]
    grown = [(row["gigabytes"], _peak(row, name) - _peak(base, name)) for row in larger]
    (small, first), (large, last) = grown[0], grown[-1]
    if last < SOME_MB or len(grown) == 1:
        return ""
    return f"{math.log(last / max(first, 1.0)) / math.log(large / small):.2f}"


def _seconds(runs: Sequence[Row]) -> Table:
    rows = [
        [name, *(f"{row['components'].get(name, {}).get('cpu_seconds', 0.0):.1f}" for row in runs)]
        for name in COMPONENTS
    ]
    rows.append(["the whole run", *(f"{row['total']['cpu_seconds']:.1f}" for row in runs)])
    return Table(["", *map(_title, runs)], rows)


def _peak(row: Row, name: str) -> float:
    return float(row["components"].get(name, {}).get("peak_mb", 0.0))


def _title(row: Row) -> str:
    size = f"{row['gigabytes']:g} GB" if row["gigabytes"] else "2 MB"
    return size + (", cache on disk" if row["cache"] == "disk" else "")


def main() -> None:
    """Measure and print."""
    options = {
        "--sizes": {"type": _numbers, "default": SIZES, "help": "GB of CSV, such as 1,5"},
        "--kinds": {"type": lambda text: text.split(","), "default": list(KINDS), "help": "csv,parquet"},
    }
    measure.command(__doc__, lambda given: measure_all(given.sizes, given.kinds), section, options=options)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
