"""CSV to sharded examples: ours and TFX's CsvExampleGen at equal work (one file, the same split ratio, gzip).

    python -m benchmarks.ingest            a table
    python -m benchmarks.ingest --json     the same figures as JSON

Every measurement is a process of its own, ours and stock in turn. What is measured is the executor's `Do`: processor
time of the whole process, and the peak of its resident memory, reset just before. Imports (TFX, Beam and TensorFlow for
both) and the generating of the data are left out. The data is the taxi data with its numbers changed from copy to copy,
so no rows repeat.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ENGINES = ("ours", "stock")
REPEATS = {1: 3, 4: 3, 16: 1}
"""How often each size (in copies of the taxi data) is measured; stock takes half a minute for the largest."""

SPLITS = {"train": 8, "eval": 1, "test": 1}


def write_taxi(path: Path, copies: int) -> int:
    """The taxi data, with other numbers in every copy; the number of rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.csv

    from components.example_gen.paths import resolve

    (file,) = resolve("pkg://tfx/examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv")
    taxi = pyarrow.csv.read_csv(file, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True))
    random = np.random.default_rng(0)
    with pyarrow.csv.CSVWriter(path, taxi.schema) as out:
        for copy in range(copies):
            for name in ("fare", "trip_miles", "tips") if copy else ():
                noise = np.round(random.uniform(0, 1, len(taxi)), 2)
                column = pa.compute.round(pa.compute.add(taxi[name], pa.array(noise)), 2)
                taxi = taxi.set_column(taxi.schema.get_field_index(name), name, column)
            later = pa.compute.add(taxi["trip_start_timestamp"], 900 * copy)
            out.write(
                taxi.set_column(taxi.schema.get_field_index("trip_start_timestamp"), "trip_start_timestamp", later)
            )
    return copies * len(taxi)


def prepare_ours(csv: Path, out: Path) -> Iterator[None]:
    """Import and set up our executor; the work is what runs after the first step."""
    from tfx.types import standard_artifacts

    from components.example_gen.component import Executor
    from components.example_gen.spans import find_spans
    from configs.data import CsvSource, DataConfig

    data = DataConfig(source=CsvSource(kind="csv", path=str(csv)), splits=SPLITS)
    spans, examples = standard_artifacts.String(), standard_artifacts.Examples()
    spans.uri, examples.uri = str(out / "spans"), str(out / "examples")
    spans.write(find_spans(data.source).to_json())
    executor = Executor(Executor.Context(make_beam_pipeline_fn=_beam_pipeline))
    yield
    executor.Do({"spans": [spans]}, {"examples": [examples]}, {"data": data.model_dump_json(by_alias=True)})
    yield


def prepare_stock(csv: Path, out: Path) -> Iterator[None]:
    """The same for TFX's executor."""
    from tfx.components.example_gen.csv_example_gen import executor as stock
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    examples = standard_artifacts.Examples()
    examples.uri = str(out / "examples")
    split = example_gen_pb2.SplitConfig.Split
    config = example_gen_pb2.SplitConfig(splits=[split(name=name, hash_buckets=n) for name, n in SPLITS.items()])
    properties = {
        "input_base": str(csv.parent),
        "input_config": proto_utils.proto_to_json(
            example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern=csv.name)])
        ),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output(split_config=config)),
        "output_data_format": example_gen_pb2.FORMAT_TF_EXAMPLE,
    }
    executor = stock.Executor(stock.Executor.Context(make_beam_pipeline_fn=_beam_pipeline))
    yield
    executor.Do({}, {"examples": [examples]}, properties)
    yield


def measure_here(engine: str, csv: Path, out: Path) -> dict[str, float]:
    """Run one engine in this process: processor and wall seconds, peak memory and what was held before, in MB."""
    steps = {"ours": prepare_ours, "stock": prepare_stock}[engine](csv, out)
    next(steps)
    held = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, the peak
    before, start = _processor_seconds(), time.perf_counter()
    next(steps)
    return {
        "cpu_seconds": _processor_seconds() - before,
        "wall_seconds": time.perf_counter() - start,
        "peak_mb": _memory("VmHWM"),
        "held_before_mb": held,
    }


def measure(repeats: dict[int, int]) -> list[dict[str, float | str]]:
    """One row of figures for each size and engine: medians over fresh processes, ours and stock in turn."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for copies, count in repeats.items():
            csv = Path(folder, f"in-{copies}", "taxi.csv")
            csv.parent.mkdir()
            number = write_taxi(csv, copies)
            found: dict[str, list[dict[str, float]]] = {engine: [] for engine in ENGINES}
            for _ in range(count):
                for engine in ENGINES:
                    found[engine].append(_in_fresh_process(engine, csv))
            rows += [_summary(engine, copies, number, found[engine]) for engine in ENGINES]
    return rows


def table(rows: list[dict[str, float | str]]) -> str:
    """The figures for people."""
    head = f"{'copies':>6} {'rows':>8}  {'engine':6} {'rows/CPU s':>11} {'CPU s':>8} {'wall s':>8} {'peak MB':>8}"
    lines = [
        f"{row['copies']:>6} {row['rows']:>8}  {row['engine']:6} {row['rows_per_cpu_second']:>11,.0f} "
        f"{row['cpu_seconds']:>8.2f} {row['wall_seconds']:>8.2f} {row['peak_mb']:>8.0f} {row['grew_mb']:>8.0f}"
        for row in rows
    ]
    speeds = {(row["copies"], row["engine"]): float(row["rows_per_cpu_second"]) for row in rows}
    ratios = [f"{n}x data: {speeds[n, 'ours'] / speeds[n, 'stock']:.1f}" for n, engine in speeds if engine == "ours"]
    return "\n".join([f"{head} {'grew MB':>8}", *lines, f"ours / stock, rows per CPU second: {', '.join(ratios)}"])


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", help="copies:repeats, such as 1:3,16:1")
    parser.add_argument("--child", nargs=3, metavar=("ENGINE", "CSV", "OUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        engine, csv, out = arguments.child
        print(json.dumps(measure_here(engine, Path(csv), Path(out))))
        return
    sizes = arguments.sizes and {
        int(n): int(count) for n, count in (part.split(":") for part in arguments.sizes.split(","))
    }
    rows = measure(sizes or REPEATS)
    print(json.dumps(rows, indent=1) if arguments.json else table(rows))


def _in_fresh_process(engine: str, csv: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "benchmarks.ingest", "--child", engine, str(csv), out]
        quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "0"}
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _summary(engine: str, copies: int, rows: int, found: list[dict[str, float]]) -> dict[str, float | str]:
    medians = {key: statistics.median(one[key] for one in found) for key in found[0]}
    return {
        "engine": engine,
        "copies": copies,
        "rows": rows,
        "rows_per_cpu_second": rows / medians["cpu_seconds"],
        "grew_mb": medians["peak_mb"] - medians["held_before_mb"],
        **medians,
    }


def _beam_pipeline():
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    return beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _memory(field: str) -> float:
    """A field of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1e3


if __name__ == "__main__":
    main()
