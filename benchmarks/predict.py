"""Predictions for new data: `headrace predict` and TFX's BulkInferrer at equal work (the same model and examples).

    python -m benchmarks.predict            a table
    python -m benchmarks.predict --json     the same figures as JSON

The model is that of the taxi example after an epoch; the data is the taxi data several times, with its numbers changed
from copy to copy. BulkInferrer reads tf.Examples only, so both read one gzip file of them and write all columns with
the predictions to another. Two more are ours from CSV to Parquet and to JSON lines, for which TFX would need ExampleGen
first. Beside them, ExampleGen's ingest of the same CSV file shows what rows cost that are only read and written; and
the model alone, what its calls cost for the same rows when they are in memory already. As loading the model takes half
a second, what starts from CSV has more rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import measure
from benchmarks.ingest import beam_pipeline, measured, write_taxi
from benchmarks.ingest import prepare_ours as prepare_ingest
from benchmarks.tables import Section, Table
from headrace.configs.schema.sources import CsvSource

COPIES = 8
"""Of the taxi data as tf.Examples: 120,016 rows."""
CSV_COPIES = 64
"""As CSV: 960,128 rows."""

REPEATS = {"csv": 3, "lines": 3, "model": 3, "ingest": 3, "ours": 3, "stock": 1}
QUICK = dict.fromkeys(REPEATS, 1)
ENGINES = {
    "csv": "headrace predict, CSV to Parquet",
    "lines": "headrace predict, CSV to JSON lines",
    "model": "the model alone, the same columns in memory",
    "ingest": "ExampleGen of Headrace, CSV to TFRecords",
    "ours": "headrace predict, TFRecords to TFRecords",
    "stock": "stock BulkInferrer, TFRecords to TFRecords",
}
FROM_EXAMPLES = ("ours", "stock")
MODEL, EXAMPLES, CSV = "model", "examples/Split-all/taxi.tfrecord.gz", "taxi.csv"
FILES = {
    "ours": (EXAMPLES, "out.tfrecord.gz"),
    "csv": (CSV, "out.parquet"),
    "lines": (CSV, "out.jsonl"),
}
"""What `headrace predict` reads and writes."""


def prepare(folder: Path, copies: int) -> int:
    """Train a model, and write the data as CSV and as examples; the number of rows."""
    import headrace

    rows = write_taxi(folder / CSV, copies)
    settings = {"train.epochs": 1, "pipeline.root": str(folder / "runs"), "deploy.push": None}
    run = headrace.run(measure.PROJECT / "configs" / "taxi.yaml", overrides=settings, show=False)
    (folder / MODEL).symlink_to(run.artifact("Trainer", "model").uri)
    write_examples(folder)
    return rows


def write_examples(folder: Path) -> None:
    """Write the rows of the CSV file as one gzip file of tf.Examples too."""
    from headrace.components.examples.compression import Compression
    from headrace.components.examples.tfexample.framing import framed_examples
    from headrace.components.sources import open_source, serial_map
    from headrace.components.sources.types import Kind

    source = open_source(CsvSource(kind="csv", path=str(folder / CSV)))
    found = [source.scan(part, {}) for part in source.parts(serial_map)]
    kinds: dict[str, Kind] = {name: kind for one in found for name, kind in one.kinds.items()}
    (folder / EXAMPLES).parent.mkdir(parents=True)
    compressor = Compression().compressor()
    with open(folder / EXAMPLES, "wb") as file:
        for part in source.parts(serial_map):
            for batch in source.batches(part, kinds):
                file.write(compressor.compress(memoryview(framed_examples(batch).buffers()[2])))
        file.write(compressor.flush())


def prepare_ours(folder: Path, given: str, output: Path) -> Iterator[None]:
    """Import everything. The code after the first yield is measured, the loading of the model included."""
    from headrace.pipeline.predict.scoring import Form, open_scoring

    scoring = open_scoring(
        str(folder / MODEL / "Format-Serving"),
        str(folder / given),
        model=None,
        form=Form(),
        profile=None,
        overrides=(),
    )
    yield
    scoring.to_file(output)
    yield


def prepare_model(folder: Path) -> Iterator[None]:
    """Read the features of all rows of the CSV file. Measured: the model is loaded, and predicts them."""
    from headrace.components.predict.call_size import MOST_ROWS
    from headrace.components.predict.model import Predictor
    from headrace.components.predict.predict import merged
    from headrace.components.predict.reading import Input, open_input
    from headrace.components.sources import serial_map
    from headrace.configs.schema.data import DataConfig
    from headrace.trainer.description import ModelDescription

    model = folder / MODEL / "Format-Serving"
    predictor = Predictor(model, ModelDescription.read(model))
    given = Input(DataConfig(source=CsvSource(kind="csv", path=str(folder / CSV))))
    with tempfile.TemporaryDirectory() as work:
        opened = open_input(given, predictor.description, (), serial_map, Path(work))
        read = (opened.features_of(batch) for part in opened.parts for batch in opened.rows(part))
        batches = list(merged(read, lambda _: MOST_ROWS))
    yield
    for batch in batches:
        predictor(batch)
    yield


def prepare_stock(folder: Path, output: Path) -> Iterator[None]:
    """The same for TFX's executor."""
    from tfx.components.bulk_inferrer.executor import Executor
    from tfx.components.util import examples_utils
    from tfx.proto import bulk_inferrer_pb2, example_gen_pb2
    from tfx.types import artifact_utils, standard_artifacts
    from tfx.utils import proto_utils

    examples, model, predicted = (
        standard_artifacts.Examples(),
        standard_artifacts.Model(),
        standard_artifacts.Examples(),
    )
    examples.uri, model.uri, predicted.uri = str(folder / "examples"), str(folder / MODEL), str(output)
    examples.split_names = artifact_utils.encode_split_names(["all"])
    for artifact in (examples, model):
        artifact.set_string_custom_property("tfx_version", "1.21.0")  # readers infer the file layout from it
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
    column = bulk_inferrer_pb2.PredictOutputCol(output_key="predictions", output_column="predictions")
    signature = bulk_inferrer_pb2.OutputColumnsSpec(
        predict_output=bulk_inferrer_pb2.PredictOutput(output_columns=[column])
    )
    properties = {
        "data_spec": "{}",
        "model_spec": "{}",
        "output_example_spec": proto_utils.proto_to_json(
            bulk_inferrer_pb2.OutputExampleSpec(output_columns_spec=[signature])
        ),
    }
    executor = Executor(Executor.Context(make_beam_pipeline_fn=beam_pipeline))
    yield
    executor.Do({"examples": [examples], "model": [model]}, {"output_examples": [predicted]}, properties)
    yield


def measure_here(engine: str, folder: str, out: str) -> measure.Figures:
    """Run one engine in this process."""
    if engine == "stock":
        return measured(prepare_stock(Path(folder), Path(out)))
    if engine == "ingest":
        source = CsvSource(kind="csv", path=str(Path(folder, CSV)))
        return measured(prepare_ingest(source, Path(out), compression="none"))
    if engine == "model":
        return measured(prepare_model(Path(folder)))
    given, output = FILES[engine]
    return measured(prepare_ours(Path(folder), given, Path(out, output)))


def measure_all(repeats: Mapping[str, int]) -> list[dict[str, float | str]]:
    """One row of figures for each engine: medians over fresh processes, ours and stock in turn."""
    with tempfile.TemporaryDirectory() as name:
        examples, rows = measure.json_of("benchmarks.predict", "--child", "prepare", name, "")
        found = measure.in_turn(repeats, measure.engine_in_child("predict", name))
        numbers = {engine: examples if engine in FROM_EXAMPLES else rows for engine in ENGINES}
        return [{"engine": engine, **measure.throughput(numbers[engine], found[engine])} for engine in ENGINES]


def section(rows: Sequence[Mapping[str, float | str]]) -> Section:
    """The figures for people."""
    cells = [[ENGINES[str(row["engine"])], *measure.throughput_cells(row)] for row in rows]
    notes = (
        measure.by_stock(rows, 1).replace("Rows", "Predictions"),
        beside_ingest({str(row["engine"]): float(row["cpu_seconds"]) for row in rows}),
        "Equal work of the last two: one gzip file of tf.Examples to gzip files of them with the predictions,"
        " by the same model, the wide and deep network of the taxi example. Measured: everything but imports, the"
        " loading of the model included.",
    )
    return Section("Predict", [("Predictions for new data", Table(["", *measure.THROUGHPUT], cells))], notes)


def beside_ingest(seconds: Mapping[str, float]) -> str:
    """A note on the CPU seconds of engines, from CSV to Parquet and where it is measured to JSON lines."""
    names = {"csv": "Parquet", "lines": "JSON lines"}

    def ratios(less: float) -> str:
        found = {name: (seconds[key] - less) / seconds["ingest"] for key, name in names.items() if key in seconds}
        return ", ".join(f"{value:.2f} to {name}" for name, value in found.items())

    return (
        f"CPU seconds from CSV by those of ingest: {ratios(0)}; without those of the model alone, which are reading and"
        f" writing: {ratios(seconds['model'])}."
    )


def child(engine: str, folder: str, last: str) -> measure.Figures | list[int]:
    """One engine; or what all of them need, with the numbers of examples and of rows of the CSV file."""
    if engine == "prepare":
        return [prepare(Path(folder), COPIES), write_taxi(Path(folder, CSV), CSV_COPIES)]
    return measure_here(engine, folder, last)


def main() -> None:
    """Measure and print; with --child, run one engine here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=child)


if __name__ == "__main__":
    main()
