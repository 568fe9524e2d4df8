"""A small data set of known structure, transformed by real TFT, for the tests of models, training and export."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import apache_beam as beam
import beam_here
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from command import PATIENCE
from forks import Forked
from made_once import copied
from tensorflow_transform.tf_metadata import metadata_io
from trainings import unoptimized

from headrace.trainer.preprocessing import preprocessing_fn
from headrace.trainer.sections import TrainerSections
from headrace.trainer.service.local import LocalService

COLORS = ["red", "green", "blue", "white"]
SIZES = ["small", "medium", "large"]
ROWS = {"train": 2000, "eval": 500}
LABELS: dict[str, dict[str, Any]] = {
    "binary": {"key": "bought", "kind": "binary"},
    "multiclass": {"key": "size", "kind": "multiclass", "classes": SIZES},
    "regression": {"key": "price", "kind": "regression"},
}
FEATURES = {
    "amount": {"column": "numeric"},
    "color": {"column": "vocabulary"},
    "pickup area": {"column": "identity", "num_buckets": 10},
    "where": {"column": "crossed", "keys": ["color", "pickup area"], "hash_buckets": 40},
}
MODEL = {"kind": "wide_and_deep", "hidden": [16, 8]}
TRAIN = {"epochs": 12, "batch_size": 64, "learning_rate": 0.02}

Row = dict[str, list[Any]]


def make_rows(count: int, seed: int) -> list[Row]:
    """Rows whose labels follow from color, amount and area, up to a little noise.

    bought: (red or blue) differs from (amount > 0), wrong once in twenty; size: by amount, in thirds of the normal
    distribution; price: 3 times the amount, plus the area.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        color, amount, area = str(rng.choice(COLORS)), float(np.float32(rng.normal())), int(rng.integers(0, 10))
        bought = (color in {"red", "blue"}) != (amount > 0)
        row: Row = {
            "color": [color] if rng.random() > 0.05 else [],
            "amount": [amount],
            "pickup area": [area] if rng.random() > 0.05 else [],
            "unread": [float(rng.random())],
            "bought": [int(bought != (rng.random() < 0.05))],
            "size": [SIZES[int(amount > -0.43) + int(amount > 0.43)]],
            "price": [float(np.float32(3 * amount + area + rng.normal(0, 0.1)))],
        }
        rows.append({key: [value.encode() if isinstance(value, str) else value for value in values]
                     for key, values in row.items()})  # fmt: skip
    return rows


def raw_spec(kind: str) -> dict[str, Any]:
    """Of the raw columns; for the regression with fixed shapes, as a curated schema may have them."""
    dtypes = {"color": tf.string, "pickup area": tf.int64, "unread": tf.float32, "amount": tf.float32}
    label = {"binary": tf.int64, "multiclass": tf.string, "regression": tf.float32}[kind]
    spec = {name: tf.io.VarLenFeature(dtype) for name, dtype in {**dtypes, LABELS[kind]["key"]: label}.items()}
    if kind == "regression":
        spec |= {name: tf.io.FixedLenFeature([1], tf.float32) for name in ("amount", "price")}
    return spec


def serialized(row: Row) -> bytes:
    """As ExampleGen writes it: a missing value is an empty list."""
    kinds = {float: "float_list", int: "int64_list", bytes: "bytes_list"}
    features = tf.train.Features()
    for name, values in row.items():
        getattr(features.feature[name], kinds[type(values[0])] if values else "float_list").value.extend(values)
        if not values:
            features.feature[name].Clear()
    return tf.train.Example(features=features).SerializeToString()


class Prepared(NamedTuple):
    """What Trainer is given."""

    kind: str
    rows: dict[str, list[Row]]
    serialized: dict[str, list[bytes]]
    output: tft.TFTransformOutput
    patterns: dict[str, str]
    """Of the transformed examples' files."""

    def sections(self, model: dict[str, Any] | None = None, **train: Any) -> TrainerSections:
        """The config, with other settings in `model:` and `train:`."""
        config = {"label": LABELS[self.kind], "features": FEATURES}
        config |= {"model": {**MODEL, **(model or {})}, "train": {**TRAIN, **train}}
        return TrainerSections.from_json(json.dumps(config))

    def fn_args(self, folder: Path, model: dict[str, Any] | None = None, **train: Any) -> SimpleNamespace:
        """What `run_fn` is given; it writes into the folder."""
        return SimpleNamespace(
            custom_config={"config": self.sections(model, **train).to_json()},
            transform_output=self.output.transform_savedmodel_dir.removesuffix("/transform_fn"),
            train_files=[self.patterns["train"]],
            eval_files=[self.patterns["eval"]],
            serving_model_dir=str(folder / "Format-Serving"),
            model_run_dir=str(folder / "run"),
        )

    def table_args(self, folder: Path, model: dict[str, Any] | None = None, **train: Any) -> SimpleNamespace:
        """The same for a config that names no kind of model, unless `model` does, and has no cross, which only a wide
        part uses.
        """
        fn_args = self.fn_args(folder, **train)
        sections = json.loads(fn_args.custom_config["config"])
        sections["model"] = {"hidden": [4], **(model or {})}
        sections["features"].pop("where")
        fn_args.custom_config["config"] = json.dumps(sections)
        return fn_args


def opened(kind: str, folder: Path) -> Prepared:
    """What `transform` has written into the folder."""
    rows, spec = rows_of_splits(), raw_spec(kind)
    patterns = {split: str(folder / f"Split-{split}" / "*") for split in rows}
    examples = {split: [serialized({key: row[key] for key in spec}) for row in rows[split]] for split in rows}
    return Prepared(kind, rows, examples, tft.TFTransformOutput(str(folder / "graph")), patterns)


def rows_of_splits() -> dict[str, list[Row]]:
    """The same at each call."""
    return {split: make_rows(count, seed) for seed, (split, count) in enumerate(ROWS.items())}


def transform(kind: str, folder: Path) -> None:
    """Run TFT on the data set."""
    rows = rows_of_splits()
    spec = raw_spec(kind)
    metadata = tft.DatasetMetadata.from_feature_spec(spec)
    config = {"config": json.dumps({"label": LABELS[kind], "features": FEATURES})}
    fixed = {name for name, feature in spec.items() if isinstance(feature, tf.io.FixedLenFeature)}

    def instances(split: str) -> list[dict[str, Any]]:
        return [{name: np.array(row[name], np.float32) if name in fixed else row[name] for name in spec}
                for row in rows[split]]  # fmt: skip

    with (
        beam_here.pipeline() as pipeline,
        tft_beam.Context(temp_dir=str(folder / "tmp"), force_tf_compat_v1=False),
    ):
        raw = {split: pipeline | split >> beam.Create(instances(split), reshuffle=False) for split in rows}
        function = (raw["train"], metadata) | tft_beam.AnalyzeDataset(lambda inputs: preprocessing_fn(inputs, config))
        function | tft_beam.WriteTransformFn(str(folder / "graph"))
        for split in rows:
            data, written = ((raw[split], metadata), function) | f"transform {split}" >> tft_beam.TransformDataset()
            coder = tft.coders.ExampleProtoCoder(written.schema)
            encoded = data | f"encode {split}" >> beam.Map(coder.encode)
            path = str(folder / f"Split-{split}" / "transformed_examples")
            encoded | f"write {split}" >> beam.io.WriteToTFRecord(path, file_name_suffix=".gz", num_shards=3)
    metadata_io.write_metadata(metadata, str(folder / "graph" / "metadata"))


@pytest.fixture(scope="module")
def as_they_are() -> Iterator[None]:
    """Graphs are not optimized in a module whose tests are about what happens around trainings."""
    with unoptimized():
        yield


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of trainings and of tf.data services start with their imports done."""
    monkeypatch.setattr(subprocess, "Popen", Forked)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """A tf.data service with two workers."""
    service = LocalService(0, 2, tmp_path_factory.mktemp("service"))
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "Popen", Forked)
            stack.enter_context(service)
        service.wait_until_ready(PATIENCE)
        yield service


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Prepared]:
    """The data set transformed for a kind of label; TFT runs once for each kind, in one of the processes."""
    made: dict[str, Prepared] = {}

    def prepare(kind: str) -> Prepared:
        if kind not in made:
            made[kind] = opened(kind, copied(tmp_path_factory, kind, partial(transform, kind)))
        return made[kind]

    return prepare
