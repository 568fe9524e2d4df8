"""CSV to sharded examples: ours and TFX's CsvExampleGen at equal work (one file, the same split ratio, gzip).

    python -m benchmarks.ingest            a table
    python -m benchmarks.ingest --json     the same figures as JSON

Every measurement is a separate process, ours and stock alternately. What is measured is the executor's `Do`: processor
time of the process and its forks, and the peak of its resident memory, reset just before. Imports (TFX, Beam and
TensorFlow for both) and the generation of the data are not included. The data is the taxi data with its numbers changed
from copy to copy, so no rows repeat.
"""

from __future__ import annotations

import importlib
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks import measure
from benchmarks.tables import Section, Table
from headrace.configs.schema.sources import CsvSource, SourceConfig

if TYPE_CHECKING:
    import apache_beam as beam
    import pyarrow as pa

ENGINES = {
    "ours": "Headrace",
    "plain": "Headrace, uncompressed",
    "two": "Headrace, two workers",
    "stock": "stock CsvExampleGen",
}
REPEATS = {1: 3, 4: 3, 16: 1, 64: 3}
"""How often each size (in copies of the taxi data) is measured."""

QUICK = {4: 1}

LARGEST_OF_STOCK = 16
"""Copies that take stock half a minute; larger sizes are measured without it."""

SPLITS = {"train": 8, "eval": 1, "test": 1}


def taxi_table() -> pa.Table:
    import pyarrow.csv

    from headrace.common.storage.paths import resolve

    (file,) = resolve("pkg://tfx/examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv")
    return pyarrow.csv.read_csv(file, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True))


def write_taxi(path: Path, copies: int) -> int:
    """Write the taxi data with other numbers in every copy, and return the number of rows."""
    import pyarrow.csv

    rows = 0
    with pyarrow.csv.CSVWriter(path, taxi_table().schema) as out:
        for taxi in taxi_copies(copies):
            out.write(taxi)
            rows += len(taxi)
    return rows


def taxi_copies(copies: int) -> Iterator[pa.Table]:
    """The taxi data, with other numbers in every copy."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute

    taxi = taxi_table()
    random = np.random.default_rng(0)
    for copy in range(copies):
        for name in ("fare", "trip_miles", "tips") if copy else ():
            noise = np.round(random.uniform(0, 1, len(taxi)), 2)
            column = pa.compute.round(pa.compute.add(taxi[name], pa.array(noise)), 2)
            taxi = taxi.set_column(taxi.schema.get_field_index(name), name, column)
        later = pa.compute.add(taxi["trip_start_timestamp"], 900 * copy)
        yield taxi.set_column(taxi.schema.get_field_index("trip_start_timestamp"), "trip_start_timestamp", later)


def prepare_ours(
    source: SourceConfig, out: Path, workers: int = 1, compression: Literal["gzip", "none"] = "gzip"
) -> Iterator[None]:
    """Import and set up our executor. The code after the first yield is measured."""
    from tfx.types import standard_artifacts

    from headrace.components.example_gen.component import Executor
    from headrace.components.spans.find import find_spans
    from headrace.configs.schema.data import DataConfig

    data = DataConfig(source=source, splits=SPLITS, compression=compression)
    spans, examples = standard_artifacts.String(), standard_artifacts.Examples()
    spans.uri, examples.uri = str(out / "spans"), str(out / "examples")
    spans.write(find_spans(data).to_json())
    executor = Executor(Executor.Context(make_beam_pipeline_fn=partial(beam_pipeline, workers)))
    yield
    executor.Do({"spans": [spans]}, {"examples": [examples]}, {"data": data.model_dump_json(by_alias=True)})
    yield


def prepare_stock(module: str, file: Path, out: Path) -> Iterator[None]:
    """The same for an executor of TFX."""
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    examples = standard_artifacts.Examples()
    examples.uri = str(out / "examples")
    split = example_gen_pb2.SplitConfig.Split
    config = example_gen_pb2.SplitConfig(splits=[split(name=name, hash_buckets=n) for name, n in SPLITS.items()])
    properties = {
        "input_base": str(file.parent),
        "input_config": proto_utils.proto_to_json(
            example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern=file.name)])
        ),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output(split_config=config)),
        "output_data_format": example_gen_pb2.FORMAT_TF_EXAMPLE,
    }
    stock = importlib.import_module(f"tfx.components.example_gen.{module}").Executor
    executor = stock(stock.Context(make_beam_pipeline_fn=beam_pipeline))
    yield
    executor.Do({}, {"examples": [examples]}, properties)
    yield


def measure_here(engine: str, csv: str, out: str) -> measure.Figures:
    """Run one engine in this process."""
    if engine == "stock":
        return measured(prepare_stock("csv_example_gen.executor", Path(csv), Path(out)))
    source = CsvSource(kind="csv", path=csv)
    return measured(
        prepare_ours(source, Path(out), 2 if engine == "two" else 1, "none" if engine == "plain" else "gzip")
    )


def measured(steps: Iterator[None]) -> measure.Figures:
    """What the second step takes: processor and wall seconds, peak memory and what was held before, in MB."""
    next(steps)
    held = measure.own_memory("VmRSS")
    measure.reset_own_peak()
    before, start = measure.processor_seconds(), time.perf_counter()
    next(steps)
    return {
        "cpu_seconds": measure.processor_seconds() - before,
        "wall_seconds": time.perf_counter() - start,
        "peak_mb": measure.own_peak(held),
        "held_before_mb": held,
    }


def measure_all(repeats: Mapping[int, int]) -> list[dict[str, float | str]]:
    """One row of figures for each size and engine: medians over fresh processes, ours and stock in turn."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for copies, count in repeats.items():
            csv = Path(folder, f"in-{copies}", "taxi.csv")
            csv.parent.mkdir()
            number = write_taxi(csv, copies)
            engines = [engine for engine in ENGINES if engine != "stock" or copies <= LARGEST_OF_STOCK]
            found = measure.in_turn(dict.fromkeys(engines, count), measure.engine_in_child("ingest", str(csv)))
            rows += [_summary(engine, copies, number, found[engine]) for engine in engines]
    return rows


def section(rows: Sequence[Mapping[str, float | str]]) -> Section:
    """The figures for people."""
    head = ["", "copies", *measure.THROUGHPUT, "grew MB"]
    cells = [
        [ENGINES[str(row["engine"])], f"{row['copies']}", *measure.throughput_cells(row), f"{row['grew_mb']:,.0f}"]
        for row in rows
    ]
    notes = (
        *_ratios({(int(row["copies"]), str(row["engine"])): row for row in rows}),
        "One CSV file, of copies of the taxi data with other numbers in each, becomes gzip shards of tf.Example in"
        " three splits; stock does not shuffle the rows.",
    )
    caption = "CSV to sharded examples. `grew MB` is the peak of memory beyond what the process held before."
    return Section("Ingest", [(caption, Table(head, cells))], notes)


def _ratios(found: Mapping[tuple[int, str], Mapping[str, float | str]]) -> Iterator[str]:
    """What the figures say beside each other."""

    def by(figure: str, one: tuple[int, str], other: tuple[int, str]) -> float:
        return float(found[one][figure]) / float(found[other][figure])

    sizes = sorted({copies for copies, _ in found})
    reported = [
        f"{by('rows_per_cpu_second', (n, 'ours'), (n, 'stock')):.0f} ({n} x)" for n in sizes if (n, "stock") in found
    ]
    yield f"Rows per CPU second, Headrace by stock, gzip: {', '.join(reported)}."
    few, many = sizes[0], sizes[-1]
    workers = (
        f"Two workers are {by('wall_seconds', (many, 'ours'), (many, 'two')):.2f} times as fast as one at {many} x"
    )
    if few == many:
        yield f"{workers}."
    else:
        exponent = math.log(by("peak_mb", (many, "ours"), (few, "ours"))) / math.log(many / few)
        yield f"{workers}; peak memory grows with the data to the power {exponent:.3f} from {few} x to {many} x."


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    sizes = {"type": _sizes, "default": REPEATS, "help": "copies:repeats, such as 1:3,16:1"}
    measure.command(
        __doc__, lambda given: measure_all(given.sizes), section, child=measure_here, options={"--sizes": sizes}
    )


def _sizes(text: str) -> dict[int, int]:
    return {int(copies): int(count) for copies, count in (part.split(":") for part in text.split(","))}


def _summary(engine: str, copies: int, rows: int, found: Sequence[measure.Figures]) -> dict[str, float | str]:
    figures = measure.throughput(rows, found)
    grew = figures["peak_mb"] - figures["held_before_mb"]
    return {"engine": engine, "copies": copies, "grew_mb": grew, **figures}


def beam_pipeline(workers: int = 1) -> beam.Pipeline:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    mode = ["--direct_running_mode=multi_threading", f"--direct_num_workers={workers}"] if workers > 1 else []
    return beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *mode]))


if __name__ == "__main__":
    main()
