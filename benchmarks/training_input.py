"""Examples a second that reach the training step: ours, TFX's tf_dataset_factory and the lectures' plain pipeline.

    python -m benchmarks.training_input            tables
    python -m benchmarks.training_input --json     the same figures as JSON

All read the same transformed examples of the taxi data (configs/taxi.yaml, the train split, four gzip shards),
shuffled, in the same process. In each round every pipeline is opened afresh, warmed up and read for most of a second,
in turn; the median over the rounds counts. What is measured is the time that a graph takes to fetch batches and throw
them away. The gather of NumPy, on the columns in memory, is what the machine could do at best with one thread and no
TensorFlow. How long the worked examples' steps wait for their input is measured by benchmarks/training_wait.py.

The first table compares like for like, per CPU second: what is in memory with what is in memory, and as well shuffled.
grain and Hugging Face's datasets take part once `.venv/bin/uv pip install grain datasets` has installed them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ |= {"TF_USE_LEGACY_KERAS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}

import tensorflow as tf
import tensorflow_transform as tft

from benchmarks.tables import Section, Table
from benchmarks.training_ladder import LECTURE, NUMPY, STOCK, Fetch, Pipelines
from benchmarks.training_rivals import OURS_CACHED, OURS_UNCACHED, Rivals
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "taxi.yaml"
SHARDS = 4
ROUNDS = 5
SECONDS = 0.7
"""How long each pipeline is read in a round."""
OPENED_AND_READ = "{}, opened and read once"
"""The first epoch of a training, with all that comes before it."""


def transform_taxi(folder: Path, config: PipelineConfig) -> tuple[list[str], tft.TFTransformOutput]:
    """The shards of the taxi data's transformed train split, and the Transform output."""
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam

    from benchmarks.ingest import taxi_table
    from headrace.trainer.preprocessing import preprocessing_fn
    from headrace.trainer.sections import TrainerSections

    table = taxi_table()
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
    return sorted(map(str, folder.glob("examples*.gz"))), tft.TFTransformOutput(str(folder / "graph"))


def examples_per_second(fetch: Fetch, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Of a pipeline that has been opened: after a warm-up, over about this many seconds of that clock."""
    fetch(20)  # fills the shuffle buffer
    count, spent = 20, 0.0
    while spent < seconds / 4:  # find out how many batches take a while
        count *= 2
        start = clock()
        fetch(count)
        spent = clock() - start
    count = max(int(count * seconds / spent), 1)
    start = clock()
    examples = fetch(count)
    return examples / (clock() - start)


def first_epoch(open_one: Callable[[], tf.data.Dataset]) -> float:
    """Examples a second of opening a pipeline and reading a single epoch."""
    start = time.perf_counter()
    examples = sum(int(tf.size(label)) for _, label in open_one())
    return examples / (time.perf_counter() - start)


def measure(rounds: int, batch_size: int, seconds: float) -> dict[str, Any]:
    """Medians over the rounds, and their ratio to TFX's factory, to the lecture's pipeline and to NumPy's gather."""
    config = load(CONFIG)
    with tempfile.TemporaryDirectory() as folder:
        pipelines = Pipelines(*transform_taxi(Path(folder), config), config.label.key, batch_size)
        once = {
            OPENED_AND_READ.format("TFX"): lambda: pipelines.stock(epochs=1),
            OPENED_AND_READ.format("ours"): lambda: pipelines.ours("memory", endless=False).dataset,
        }
        found: dict[str, list[float]] = {name: [] for name in (*pipelines.all(), *once)}
        for _ in range(rounds):
            for name, opened in pipelines.all().items():
                found[name].append(examples_per_second(opened(), seconds))
            for name, open_one in once.items():
                found[name].append(first_epoch(open_one))
        like_for_like = compare(Rivals(pipelines), rounds, seconds)
    rates = {name: statistics.median(values) for name, values in found.items()}
    rows = [
        {
            "pipeline": name,
            "examples_per_second": rate,
            "times_tfx": rate / rates[STOCK],
            "times_lecture": rate / rates[LECTURE],
            "of_numpy": rate / rates[NUMPY],
        }
        for name, rate in rates.items()
    ]
    return {"batch_size": batch_size, "rounds": rounds, "pipelines": rows, "like_for_like": like_for_like}


def compare(rivals: Rivals, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Medians of the examples per CPU second, of all threads, and how many times ours are those of the others."""
    rows = []
    for cached, ours, contestants in (
        (True, OURS_CACHED, rivals.cached()),
        (False, OURS_UNCACHED, rivals.uncached()),
    ):
        found: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(rounds):
            for name, opened in contestants.items():
                found[name].append(examples_per_second(opened(), seconds, time.process_time))
        rates = {name: statistics.median(values) for name, values in found.items()}
        rows += [
            {"pipeline": name, "cached": cached, "examples_per_cpu_second": rate, "ours_by_it": rates[ours] / rate}
            for name, rate in rates.items()
        ]
    return rows


def section(result: Mapping[str, Any]) -> Section:
    """The table and notes."""
    rows = [
        [
            row["pipeline"],
            f"{row['examples_per_second']:,.0f}",
            f"{row['times_tfx']:.1f}",
            f"{row['times_lecture']:.1f}",
        ]
        for row in result["pipelines"]
    ]
    table = Table(["", "examples/s", "times TFX", "times the lecture's"], rows)
    alike = [
        [
            row["pipeline"],
            "in memory" if row["cached"] else "from files",
            f"{row['examples_per_cpu_second']:,.0f}",
            f"{row['ours_by_it']:.1f}",
        ]
        for row in result["like_for_like"]
    ]
    like_for_like = Table(["", "examples", "examples/CPU s", "ours by it"], alike)
    rates = {row["pipeline"]: row for row in result["pipelines"]}
    best = max(row["of_numpy"] for name, row in rates.items() if "ours" in name)
    ours = {name.rpartition("cache: ")[2].rstrip(")"): row for name, row in rates.items() if "(ours" in name}
    reach = ", ".join(f"{row['examples_per_second'] / 1e6:.1f} ({cache})" for cache, row in ours.items())
    notes = (
        "All threads count. What is in memory is shuffled over all examples, except by the factory whose batches stay"
        " together; polars, NumPy, grain and datasets end with arrays, of which no tensors are made.",
        f"Millions of examples that reach a training step per second of wall time, by `cache`: {reach}.",
        f"NumPy's gather is the best that one thread can do without TensorFlow; ours reaches {best:.0%} of it in wall"
        " time.",
    )
    details = (
        "All read the same transformed examples of the taxi data (four gzip shards), shuffled through at least 10,000"
        " examples. Measured: the time that a graph takes to fetch batches and discard them; medians of"
        f" {result['rounds']} rounds.",
    )
    return Section(
        "Training input",
        [
            ("Like for like, per CPU second", like_for_like),
            (f"Examples a second that reach the training step, batches of {result['batch_size']}", table),
        ],
        notes,
        details,
    )


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
