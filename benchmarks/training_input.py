"""Examples a second that reach the training step: ours, TFX's tf_dataset_factory and the lectures' plain pipeline.

    python -m benchmarks.training_input            a table
    python -m benchmarks.training_input --json     the same figures as JSON

All read the same transformed examples of the taxi data (configs/taxi.yaml, the train split, four gzip shards),
shuffled, in the same process. In each round every pipeline is opened afresh, warmed up and read for most of a second,
in turn; the median over the rounds counts. What is measured is the time that a graph takes to fetch batches and throw
them away. The gather of NumPy, on the columns in memory, is what the machine could do at best with one thread and no
TensorFlow.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ |= {"TF_USE_LEGACY_KERAS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from benchmarks.tables import Section, Table

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "taxi.yaml"
SHARDS = 4
SHUFFLE = 10_000
"""Examples in the shuffle buffer: what TFX's factory takes by default."""
ROUNDS = 5
SECONDS = 0.7
"""How long each pipeline is read in a round."""
OPENED_AND_READ = "{}, opened and read once"
"""The first epoch of a training, with all that comes before it."""

Fetch = Callable[[int], int]
"""Fetches so many batches, and says how many examples they held."""


def transform_taxi(folder: Path) -> tuple[list[str], tft.TFTransformOutput, str]:
    """The shards of the taxi data's transformed train split, the Transform output, and the label's key."""
    import apache_beam as beam
    import pyarrow.csv
    import tensorflow_transform.beam as tft_beam

    from components.example_gen.paths import resolve
    from configs.loader import load
    from trainer.preprocessing import preprocessing_fn
    from trainer.sections import TrainerSections

    config = load(CONFIG)
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    table = pyarrow.csv.read_csv(resolve(config.data.source.path)[0], convert_options=options)
    dtypes = {"int64": tf.int64, "double": tf.float32, "string": tf.string}
    spec = {field.name: tf.io.VarLenFeature(dtypes[str(field.type)]) for field in table.schema}
    rows = [
        {name: [] if value is None else [value] for name, value in row.items()}
        for number, row in enumerate(table.to_pylist())
        if number % 10 < 8
    ]
    custom_config = {"config": TrainerSections.of(config).to_json()}
    with (
        beam.Pipeline(argv=["--runner=FnApiRunner"]) as pipeline,
        tft_beam.Context(temp_dir=str(folder / "tmp"), force_tf_compat_v1=False),
    ):
        raw = (pipeline | beam.Create(rows, reshuffle=False), tft.DatasetMetadata.from_feature_spec(spec))
        (data, metadata), function = raw | tft_beam.AnalyzeAndTransformDataset(
            lambda inputs: preprocessing_fn(inputs, custom_config)
        )
        function | tft_beam.WriteTransformFn(str(folder / "graph"))
        # the schema of the outputs is known when Beam runs, not before
        encoded = data | beam.Map(
            lambda row, schema: tft.coders.ExampleProtoCoder(schema.schema).encode(row),
            beam.pvalue.AsSingleton(metadata.deferred_metadata),
        )
        encoded | beam.io.WriteToTFRecord(str(folder / "examples"), file_name_suffix=".gz", num_shards=SHARDS)
    return sorted(map(str, folder.glob("examples*.gz"))), tft.TFTransformOutput(str(folder / "graph")), config.label.key


class Pipelines:
    """The pipelines to compare; each method opens one, endless and shuffled."""

    def __init__(self, files: list[str], output: tft.TFTransformOutput, label_key: str, batch_size: int) -> None:
        self.files, self.output, self.label_key, self.batch_size = files, output, label_key, batch_size
        self.spec = output.transformed_feature_spec()

    def all(self) -> dict[str, Callable[[], Fetch]]:
        """Name → how to open it."""
        return {
            "lecture: map one by one, shuffle, batch, prefetch": lambda: fetcher(self.lecture()),
            "TFX tf_dataset_factory": lambda: fetcher(self.stock()),
            "ours, cache: none": lambda: fetcher(self.ours(in_memory=False)),
            "ours, cache: memory": lambda: fetcher(self.ours(in_memory=True)),
            "NumPy gather in memory": self.numpy,
        }

    def lecture(self) -> tf.data.Dataset:
        """What the lecture notes teach."""

        def parse(record: tf.Tensor) -> Any:
            features = tf.io.parse_single_example(record, self.spec)
            return features, features.pop(self.label_key)

        records = tf.data.TFRecordDataset(self.files, "GZIP").map(parse).repeat()
        return records.shuffle(SHUFFLE).batch(self.batch_size).prefetch(tf.data.AUTOTUNE)

    def stock(self, epochs: int | None = None) -> tf.data.Dataset:
        """`fn_args.data_accessor.tf_dataset_factory`, as the templates of TFX call it."""
        from tfx.components.util import tfxio_utils
        from tfx.types import standard_artifacts
        from tfx_bsl.public.tfxio import TensorFlowDatasetOptions

        examples = standard_artifacts.Examples()
        examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
        factory = tfxio_utils.get_tf_dataset_factory_from_artifact([examples], [])
        options = TensorFlowDatasetOptions(
            self.batch_size, num_epochs=epochs, label_key=self.label_key, shuffle_buffer_size=SHUFFLE
        )
        return factory(self.files, options, self.output.transformed_metadata.schema)

    def ours(self, in_memory: bool, endless: bool = True) -> tf.data.Dataset:
        """The product's pipeline."""
        from trainer.input_pipeline import InputPipeline

        pipeline = InputPipeline(
            self.spec,
            self.label_key,
            self.batch_size,
            in_memory,
            shuffle=SHUFFLE,
            steps_per_epoch=1 if endless else None,
        )
        return pipeline.open("train", self.files).dataset

    def numpy(self) -> Fetch:
        """The columns in memory, fetched at random places."""
        columns = {name: np.concatenate(parts) for name, parts in self._columns().items()}
        random, size = np.random.default_rng(0), len(columns[self.label_key])

        def places() -> Iterator[np.ndarray]:
            while True:
                order = random.permutation(size)
                yield from (order[start : start + self.batch_size] for start in range(0, size, self.batch_size))

        batches = places()
        return lambda count: sum(
            len({name: column[which] for name, column in columns.items()}[self.label_key])
            for _, which in zip(range(count), batches, strict=False)
        )

    def _columns(self) -> dict[str, list[np.ndarray]]:
        columns: dict[str, list[np.ndarray]] = {}
        for features, label in self.ours(in_memory=True, endless=False).as_numpy_iterator():
            for name, column in {**features, self.label_key: label}.items():
                columns.setdefault(name, []).append(column)
        return columns


def fetcher(dataset: tf.data.Dataset) -> Fetch:
    """Fetches batches in a graph, as a training step does."""
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def fetch(count: tf.Tensor) -> tf.Tensor:
        def body(step: tf.Tensor, examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            _, label = iterator.get_next()
            return step + 1, examples + tf.size(label)

        return tf.while_loop(lambda step, _: step < count, body, (0, 0), parallel_iterations=1)[1]

    return lambda count: int(fetch(tf.constant(count)))


def examples_per_second(fetch: Fetch, seconds: float) -> float:
    """Of a pipeline that has been opened: after a warm-up, over about so many seconds."""
    fetch(20)  # fills the shuffle buffer
    count, spent = 20, 0.0
    while spent < seconds / 4:  # find out how many batches take a while
        count *= 2
        start = time.perf_counter()
        fetch(count)
        spent = time.perf_counter() - start
    count = max(int(count * seconds / spent), 1)
    start = time.perf_counter()
    examples = fetch(count)
    return examples / (time.perf_counter() - start)


def first_epoch(open_one: Callable[[], tf.data.Dataset]) -> float:
    """Examples a second of opening a pipeline and reading a single epoch."""
    start = time.perf_counter()
    examples = sum(int(tf.size(label)) for _, label in open_one())
    return examples / (time.perf_counter() - start)


def measure(rounds: int, batch_size: int, seconds: float) -> dict[str, Any]:
    """Medians over the rounds, and their ratio to TFX's factory."""
    with tempfile.TemporaryDirectory() as folder:
        pipelines = Pipelines(*transform_taxi(Path(folder)), batch_size)
        once = {
            OPENED_AND_READ.format("TFX"): lambda: pipelines.stock(epochs=1),
            OPENED_AND_READ.format("ours"): lambda: pipelines.ours(in_memory=True, endless=False),
        }
        found: dict[str, list[float]] = {name: [] for name in (*pipelines.all(), *once)}
        for _ in range(rounds):
            for name, opened in pipelines.all().items():
                found[name].append(examples_per_second(opened(), seconds))
            for name, open_one in once.items():
                found[name].append(first_epoch(open_one))
    rates = {name: statistics.median(values) for name, values in found.items()}
    stock = rates["TFX tf_dataset_factory"]
    rows = [{"pipeline": name, "examples_per_second": rate, "times_tfx": rate / stock} for name, rate in rates.items()]
    return {"batch_size": batch_size, "rounds": rounds, "pipelines": rows}


def section(result: Mapping[str, Any]) -> Section:
    """The figures for people."""
    rows = [
        [row["pipeline"], f"{row['examples_per_second']:,.0f}", f"{row['times_tfx']:.1f}"]
        for row in result["pipelines"]
    ]
    table = Table(["", "examples/s", "times TFX"], rows)
    notes = (
        "All read the same transformed examples of the taxi data (four gzip shards), shuffled; what is measured is the"
        f" time that a graph takes to fetch batches and throw them away; medians of {result['rounds']} rounds.",
        "NumPy's gather is what the machine could do at best with one thread and no TensorFlow.",
    )
    caption = f"Examples a second that reach the training step, batches of {result['batch_size']}"
    return Section("Training input", [(caption, table)], notes)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--batch-size", type=int, default=1024)
    arguments = parser.parse_args()
    result = measure(arguments.rounds, arguments.batch_size, SECONDS)
    print(json.dumps(result) if arguments.json else section(result).text())
    gc.freeze()  # what TensorFlow Transform leaves behind crashes Python where it is collected at the end


if __name__ == "__main__":
    main()
