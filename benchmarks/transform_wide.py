"""Transform of many feature columns: ours, and the same executor and columns with TensorFlow Transform's analysis.

python -m benchmarks.transform_wide
"""

from __future__ import annotations

import gzip
import json
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.tables import Section, Table
from headrace.common.environment import prepare

TABLES = {"numeric": (10, 100, 1000), "vocabulary": (100,)}
"""Numbers of columns, by kind."""
REPEATS = {"ours": 3, "tft": 1}
QUICK = {"ours": 1, "tft": 1}
SPLITS = {"train": (4, 1000), "eval": (1, 500), "test": (1, 500)}
"""Shards, and rows of each."""
FUNCTIONS = {
    "ours": "headrace.trainer.preprocessing.preprocessing_fn",
    "tft": "benchmarks.transform_wide.preprocessing_fn",
}

Figures = dict[str, float | str]


def preprocessing_fn(inputs: Mapping[str, Any], custom_config: Mapping[str, str]) -> dict[str, Any]:
    """The same columns in a function that the executor does not know, so that TFT analyzes it."""
    from headrace.trainer import preprocessing

    return preprocessing.preprocessing_fn(inputs, custom_config)


def write(kind: str, columns: str, folder: str) -> Figures:
    """Write examples with random columns, a tenth of whose values is missing, their schema and the features."""
    prepare()
    import numpy as np
    import pyarrow as pa

    random, names = np.random.default_rng(1), [f"c{number}" for number in range(int(columns))]

    def batch(rows: int) -> pa.RecordBatch:
        table = {"label": pa.array(random.integers(0, 2, rows))}
        for name in names:
            absent = random.random(rows) < 0.1
            if kind == "numeric":
                table[name] = pa.array(random.normal(5, 3, rows).astype(np.float32), mask=absent)
            else:
                words = [f"word {value}".encode() for value in random.zipf(1.3, rows) % 1000]
                table[name] = pa.array(words, pa.binary(), mask=absent)
        return pa.record_batch(table)

    write_inputs(Path(folder), SPLITS, batch, {name: {"column": kind} for name in names})
    return {}


def write_inputs(
    folder: Path,
    splits: Mapping[str, tuple[int, int]],
    batch: Callable[[int], Any],
    features: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write what Transform reads: gzip shards of tf.Examples, their schema, and the config.

    splits: shards, and rows of each; batch: the Arrow record batch of a shard with this many rows, a `label` among
    its columns.
    """
    import pyarrow as pa

    from headrace.components.examples.tfexample.framing import framed_examples

    for split, (shards, rows) in splits.items():
        (folder / "examples" / f"Split-{split}").mkdir(parents=True)
        for shard in range(shards):
            table = batch(rows)
            file = f"Split-{split}/data_tfrecord-{shard:05d}-of-{shards:05d}.gz"
            (folder / "examples" / file).write_bytes(gzip.compress(memoryview(framed_examples(table).buffers()[2]), 1))
    types = {pa.int64(): "INT", pa.float32(): "FLOAT", pa.binary(): "BYTES"}
    schema = "\n".join(f'feature {{ name: "{field.name}" type: {types[field.type]} }}' for field in table.schema)
    (folder / "schema").mkdir()
    (folder / "schema" / "schema.pbtxt").write_text(schema, encoding="utf-8")
    config = json.dumps({"label": {"key": "label", "kind": "binary"}, "features": features})
    (folder / "config.json").write_text(config, encoding="utf-8")


def transform(engine: str, given: str, out: str) -> Figures:
    """Run the executor in this process. The imports are not measured."""
    prepare()
    import apache_beam as beam
    from tfx.types import artifact_utils, standard_artifacts

    from headrace.components.transform.component import Executor

    def artifact(kind: type[Any], folder: Path) -> list[Any]:
        made = kind()
        made.uri = str(folder)
        return [made]

    inputs = {
        "examples": artifact(standard_artifacts.Examples, Path(given, "examples")),
        "schema": artifact(standard_artifacts.Schema, Path(given, "schema")),
    }
    splits = sorted(path.name.removeprefix("Split-") for path in Path(given, "examples").iterdir())
    inputs["examples"][0].split_names = artifact_utils.encode_split_names(splits)
    inputs["examples"][0].set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    outputs = {
        "transform_graph": artifact(standard_artifacts.TransformGraph, Path(out, "transform_graph")),
        "transformed_examples": artifact(standard_artifacts.Examples, Path(out, "transformed_examples")),
    }
    custom_config = json.dumps({"config": Path(given, "config.json").read_text(encoding="utf-8")})
    properties = {"preprocessing_fn": FUNCTIONS[engine], "custom_config": custom_config, "materialize": "auto"}
    context = Executor.Context(make_beam_pipeline_fn=lambda: beam.Pipeline(argv=["--runner=FnApiRunner"]))
    before, held, started = measure.processor_seconds(), measure.own_memory("VmHWM"), time.perf_counter()
    Executor(context).Do(inputs, outputs, {**properties, "disable_statistics": 1, "force_tf_compat_v1": 0})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    used, wall = measure.processor_seconds() - before, time.perf_counter() - started
    return {"cpu_seconds": used, "wall_seconds": wall, "above_imports_mb": peak - held}


def measure_all(repeats: Mapping[str, int]) -> list[Figures]:
    """A row of figures for each table: medians over fresh processes, both ways in turn."""
    rows: list[Figures] = []
    for kind, columns in ((kind, columns) for kind, sizes in TABLES.items() for columns in sizes):
        with tempfile.TemporaryDirectory() as name:
            given = Path(name, "given")
            measure.in_child("transform_wide", "write", kind, str(columns), str(given))
            found = measure.in_turn(repeats, partial(_transform, given))
            figures = {engine: measure.medians(one) for engine, one in found.items()}
            row: Figures = {"kind": kind, "columns": columns}
            row |= {f"{engine}_{what}": value for engine, one in figures.items() for what, value in one.items()}
            rows.append(row)
    return rows


def section(rows: Sequence[Figures]) -> Section:
    """The table and notes."""
    header = ["columns", "ours, CPU s", "TFT, CPU s", "TFT by ours", "ours, MB above imports", "TFT, MB above imports"]
    table = Table(header, [_cells(row) for row in rows])
    notes = (
        "Both are our executor with the same columns and 5,000 rows; TFT's analysis is the one that a user's own"
        " preprocessing_fn gets. The transformed examples are equal.",
    )
    return Section("Transform of wide tables", [("Transform of many columns", table)], notes)


def _cells(row: Figures) -> list[str]:
    ours, tft = float(row["ours_cpu_seconds"]), float(row["tft_cpu_seconds"])
    memory = [f"{float(row[f'{engine}_above_imports_mb']):,.0f}" for engine in REPEATS]
    return [f"{row['columns']:,} {row['kind']}", f"{ours:.1f}", f"{tft:.1f}", f"{tft / ours:.1f}", *memory]


def _transform(given: Path, engine: str) -> measure.Figures:
    with tempfile.TemporaryDirectory() as out:
        return measure.in_child("transform_wide", "transform", engine, str(given), out)


def _child(what: str, *arguments: str) -> Figures:
    return {"write": write, "transform": transform}[what](*arguments)


def main() -> None:
    """Measure and print; with --child, do one part here."""
    measure.command(__doc__, lambda _: measure_all(REPEATS), section, child=_child)


if __name__ == "__main__":
    main()
