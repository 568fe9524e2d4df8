"""Importance and partial dependence from transformed features, against the model's answers to whole tf.Examples.

The examples are changed one by one, as TensorFlow's own protocol buffers.
"""

from __future__ import annotations

import functools
import gc
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from exported_columns import exported
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.components.evaluation.explain import Judge, loaded_model
from headrace.components.evaluation.importance import REPEATS, permutations
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.transformed_sample import FeatureModel, row_work
from headrace.components.served_graph import ServedModel, served_model
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.description import ModelDescription
from headrace.trainer.served_model import ModelCall

ROWS = 120
RANDOM = np.random.default_rng(8)
TYPES = {
    "area": tf.float32,
    "floor": tf.int64,
    "tags": tf.string,
    "words": tf.string,
    "place": tf.float32,
    "image": tf.string,
    "price": tf.float32,
    "sold": tf.int64,
    "marks": tf.string,
}
TABLE: dict[str, Any] = {
    "features": {
        "area": {"column": "numeric", "normalize": "log", "missing": 0.5},
        "floor": {"column": "identity", "num_buckets": 9},
        "tags": {"column": "hashed", "hash_buckets": 12, "multivalued": True},
        "words": {"column": "hashed", "hash_buckets": 12, "multivalued": True, "separator": " "},
        "place": {"column": "vector", "size": 3, "normalize": "none", "missing": 0.25},
        "half": {"column": "bucketized", "key": "area", "boundaries": [-0.5, 0.5]},
        "area x floor": {"column": "crossed", "keys": ["half", "floor"], "hash_buckets": 50},
        "floor again": {"column": "hashed", "key": "floor", "hash_buckets": 4},
    },
    "model": {"kind": "wide_and_deep", "hidden": [8]},
}
LABELS: dict[str, dict[str, Any]] = {
    "regression": {"key": "price", "kind": "regression"},
    "binary": {"key": "sold", "kind": "binary"},
    "multilabel": {"key": "marks", "kind": "multilabel", "classes": ["a", "b", "c"]},
    "multitask": {
        "kind": "multitask",
        "tasks": {"price": {"kind": "regression"}, "sold": {"kind": "binary", "missing": "mask"}},
    },
}
Row = Mapping[str, list[Any]]


def made_rows() -> Sequence[Row]:
    """Every column lacks values, and lists have any number of them, or are empty."""
    rows = []
    for _ in range(ROWS):
        row: dict[str, list[Any]] = {
            "area": [float(np.float32(RANDOM.normal()))],
            "floor": [int(RANDOM.integers(0, 9))],
            "tags": RANDOM.choice([b"x", b"y", b"z"], RANDOM.integers(0, 4)).tolist(),
            "words": [b" ".join(RANDOM.choice([b"sea", b"view", b"old"], RANDOM.integers(1, 5)))],
            "place": RANDOM.normal(size=3).astype(np.float32).tolist(),
        }
        rows.append({name: [] if RANDOM.random() < 0.15 else values for name, values in row.items()})
    return rows


def serialized(rows: Sequence[Row]) -> list[bytes]:
    kinds = {tf.float32: "float_list", tf.int64: "int64_list", tf.string: "bytes_list"}
    found = []
    for row in rows:
        example = tf.train.Example()
        for name, values in row.items():
            if values:
                getattr(example.features.feature[name], kinds[TYPES.get(name, tf.string)]).value.extend(values)
            else:
                example.features.feature[name].SetInParent()  # present, without a kind: missing
        found.append(example.SerializeToString())
    return found


class Case:
    """A model, the sample, and what predicts whole examples."""

    def __init__(
        self, folder: Path, label: dict[str, Any], rows: Sequence[Row], config: Mapping[str, Any], task: str = ""
    ) -> None:
        columns = {name: one for name, one in TYPES.items() if name in {*rows[0], "price", "sold", "marks"}}
        path, reads = exported(folder, {**config, "label": label, "train": {}}, columns)
        self.rows, self.reads, parsed = rows, reads, LabelConfig.model_validate_json(json.dumps(label))
        part = parsed.parts[task]
        types: Any = dict.fromkeys(columns, "bytes")
        described = ModelDescription(label=parsed, types=types, features=tuple(rows[0]), reads=reads)
        self.call = ModelCall(part.key, prediction_key=f"{task}_predictions" if task else None)
        metrics = metrics_of(part.kind, 0.5)
        self.judge = Judge(str(path), self.call, part.kind, metrics, described, task)
        self.loaded = tf.saved_model.load(str(path))
        shape = [len(rows), 3] if part.kind == "multilabel" else [len(rows)]
        self.labels = np.random.default_rng(1).integers(0, 2, shape).astype(float)
        self.weights = np.random.default_rng(2).choice([0.5, 1.0, 3.0], len(rows))
        self.batch = ExamplesToRecordBatchDecoder().DecodeBatch(serialized(rows))
        assert isinstance(loaded_model(str(path), self.call), ServedModel)
        transformed = self.judge.transformed(self.batch)
        assert transformed is not None
        self.explainer = self.judge.explainer(self.batch, self.labels, self.weights, transformed)

    def predictions(self, rows: Sequence[Row]) -> np.ndarray:
        found = self.loaded.signatures["serving_default"](examples=tf.constant(serialized(rows)))
        return np.asarray(found[self.call.prediction_key or "predictions"], np.float64).reshape(len(rows), -1)

    def loss(self, rows: Sequence[Row]) -> float:
        return float(np.average(self.judge.metrics.losses(self.labels, self.predictions(rows)), weights=self.weights))

    def grown(self, columns: list[str], order: np.ndarray) -> float:
        changed = [
            {**row, **{name: self.rows[taken][name] for name in columns}}
            for row, taken in zip(self.rows, order, strict=True)
        ]
        return self.loss(changed) - self.loss(self.rows)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    rows = made_rows()

    @functools.cache
    def made(kind: str) -> Case:
        task = "sold" if kind == "multitask" else ""
        return Case(tmp_path_factory.mktemp(kind), LABELS[kind], rows, TABLE, task)

    return made


@pytest.mark.parametrize("kind", LABELS)
def test_importance_is_that_of_changed_examples(case: Callable[[str], Case], kind: str) -> None:
    one = case(kind)
    assert one.reads["area x floor"] == ("area", "floor")
    assert one.reads["floor again"] == ("floor",)
    found = {each.column: each for each in one.explainer.importance([*one.rows[0]])}
    assert found.keys() == one.rows[0].keys()
    for name in one.rows[0]:
        grown = [one.grown([name], order) for order in permutations(ROWS, REPEATS)]
        assert found[name].increase == pytest.approx(np.mean(grown), rel=1e-5, abs=1e-8)
        assert found[name].error == pytest.approx(np.std(grown, ddof=1) / REPEATS**0.5, rel=1e-4, abs=1e-8)
        assert abs(found[name].increase) > 1e-6  # every column matters to this model
    (order,) = permutations(ROWS, 1)
    blocks = [["area", "floor"], ["floor", "tags", "place"]]
    expected = [one.grown(block, order) for block in blocks]
    assert one.explainer.increases(blocks) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_importance_and_dependence_are_bit_for_bit_those_of_examples(case: Callable[[str], Case]) -> None:
    one = case("regression")
    of_examples = one.judge.explainer(one.batch, one.labels, one.weights, None)
    columns = [*one.rows[0]]
    assert one.explainer.importance(columns) == of_examples.importance(columns)
    for name in columns:
        assert one.explainer.dependence(name, classes=False) == of_examples.dependence(name, classes=False)
    assert one.explainer.dependence("floor", classes=False) is not None


def test_the_first_rows_of_a_sample_are_a_sample(case: Callable[[str], Case]) -> None:
    one = case("regression")
    assert one.explainer.transformed is not None
    given = one.batch.slice(0, 50), one.labels[:50], one.weights[:50]
    first = one.judge.explainer(*given, one.explainer.transformed.first(50))
    assert first.importance(["tags", "area"]) == one.judge.explainer(*given, None).importance(["tags", "area"])


def test_a_model_of_features_keeps_the_functions_that_it_calls(case: Callable[[str], Case]) -> None:
    sample = case("regression").explainer.transformed
    assert sample is not None
    loaded = served_model(Path(case("regression").judge.model), ["serving_transformed"])
    model = FeatureModel.of(loaded, case("regression").call, sample.reads)
    del loaded
    gc.collect()
    (found,), (expected,) = model.predict_each(sample.features, [{}]), sample.predict_each([{}])
    assert found.tolist() == expected.tolist()


def test_images_are_permuted_without_being_decoded_again(tmp_path: Path) -> None:
    pixels = np.random.default_rng(4).integers(0, 256, (20, 4, 4, 1)).astype(np.uint8)
    rows: Sequence[Row] = [
        {"image": [tf.io.encode_png(one).numpy()] if number else []} for number, one in enumerate(pixels)
    ]
    config = {
        "features": {"image": {"column": "image", "height": 4, "width": 4, "channels": 1}},
        "model": {"kind": "image", "filters": [8], "hidden": [16]},
    }
    one = Case(tmp_path, LABELS["binary"], rows, config)
    (found,) = one.explainer.importance(["image"])
    grown = [one.grown(["image"], order) for order in permutations(20, REPEATS)]
    assert found.increase == pytest.approx(np.mean(grown), rel=1e-5)
    assert abs(found.increase) > 1e-6


def test_a_model_of_which_it_is_unknown_what_features_read_is_asked_with_examples(case: Callable[[str], Case]) -> None:
    one = case("regression")
    assert one.judge.described is not None
    described = one.judge.described.model_copy(update={"reads": {}})
    judge = Judge(one.judge.model, one.call, "regression", one.judge.metrics, described)
    assert judge.transformed(one.batch) is None


def test_the_work_of_a_row_grows_with_what_the_layers_compute() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 32])])
    def layers(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.matmul(2.0 * x, tf.ones([32, 64])))

    @tf.function(input_signature=[tf.TensorSpec([None, 32])])
    def called(x: tf.Tensor) -> tf.Tensor:
        return layers(x)

    graph = called.get_concrete_function().graph.as_graph_def(add_shapes=True)
    products = 64 * 32 // 16
    assert row_work(graph) == 32 + 64 + products + 64 + 64  # the double, its product, what is positive, and a copy
