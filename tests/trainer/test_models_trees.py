"""Trees as a Keras model against LightGBM's own predictions, and their training against LightGBM's and NumPy's."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn.metrics import log_loss
from trainings import train_alone

from headrace.common.errors import ModelError, TrainingError, TrainingStoppedError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import EarlyStopping
from headrace.configs.schema.trees_model import TreesModel
from headrace.trainer import columns, models
from headrace.trainer.models.trees import TREES_AT_ONCE, Forest, ForestLayer, Split, round_down
from headrace.trainer.run import run_fn
from headrace.trainer.sections import TrainerSections
from headrace.trainer.trees.boosting import Boosting
from headrace.trainer.trees.examples import Examples, check_memory
from headrace.trainer.trees.training import is_over

Array = np.ndarray[Any, Any]
LABELS = {
    "binary": LabelConfig(key="y", kind="binary"),
    "multiclass": LabelConfig(key="y", kind="multiclass", classes=3),
    "regression": LabelConfig(key="y", kind="regression"),
}
CATEGORIES = 70
"""More than two words of a set."""
TREES = {"kind": "trees", "iterations": 60, "learning_rate": 0.2}
EXTREME = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-39, -1e-39, 0.0, -0.0]
Prepare = Callable[[str], Any]


def table(seed: int, rows: int, missing: float) -> tuple[Array, Array]:
    """Three numbers, one of them huge, and two categories; and what depends on them."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, 3)).astype(np.float32) * np.array([1e30, 1, 1e-3], np.float32)
    numbers[rng.random(numbers.shape) < missing] = np.nan
    categories = rng.integers(0, CATEGORIES, size=(rows, 2)).astype(np.float32)
    z = np.nan_to_num(numbers[:, 1]) + (categories[:, 0] % 3 == 0) + rng.normal(size=rows) / 3
    return np.hstack([numbers, categories]), z.astype(np.float64)


def grown(kind: str, seed: int, missing: float, model: TreesModel, iterations: int) -> tuple[Boosting, Array]:
    x, z = table(seed, 600, missing)
    y = {"binary": (z > 0.3) * 1.0, "multiclass": np.digitize(z, [0.0, 1.0]) * 1.0, "regression": z}[kind]
    train, evaluation = Examples(x[:400], y[:400], None), Examples(x[400:], y[400:], None)
    boosting = Boosting(model, LABELS[kind], train, evaluation, [3, 4], seed=seed)
    for _ in range(iterations):
        boosting.grow()
    return boosting, x


def queries(x: Array, seed: int) -> Array:
    """Examples with values that are not in the train split."""
    rng = np.random.default_rng(seed)
    asked = x.copy()
    for column in range(3):
        where = rng.random(len(asked)) < 0.3
        asked[where, column] = rng.choice(EXTREME, where.sum())
    asked[:40, 3] = rng.integers(CATEGORIES, 5000, 40)
    return asked


def scores_of_library(boosting: Boosting, x: Array, classes: int) -> Array:
    (text,) = boosting.texts
    raw = lightgbm.Booster(model_str=text).predict(x, raw_score=True)
    return np.reshape(np.asarray(raw), (-1, classes)) + boosting.base


@settings(deadline=None, max_examples=12)
@given(
    kind=st.sampled_from(sorted(LABELS)),
    seed=st.integers(0, 1000),
    missing=st.sampled_from([0.0, 0.2]),
    shape=st.tuples(st.integers(2, 40), st.sampled_from([None, 1, 4]), st.integers(1, 30)),
)
def test_scores_are_those_of_the_library_for_any_values(
    kind: str, seed: int, missing: float, shape: tuple[int, int | None, int]
) -> None:
    leaves, depth, examples = shape
    model = TreesModel(kind="trees", max_leaves=leaves, max_depth=depth, min_examples_per_leaf=examples)
    boosting, x = grown(kind, seed, missing, model, 8)
    classes, asked = LABELS[kind].num_classes, queries(x, seed)
    layer = ForestLayer(Forest.of(boosting.trees(8), classes, boosting.base))
    assert depth is None or layer.depth <= depth
    found = np.asarray(layer(asked))
    np.testing.assert_allclose(found, scores_of_library(boosting, asked, classes), rtol=1e-5, atol=1e-6)


def test_many_trees_are_added_up_in_chunks() -> None:
    boosting, x = grown("multiclass", 1, 0.1, TreesModel(kind="trees", max_leaves=4), 2 * TREES_AT_ONCE // 3 + 5)
    forest = Forest.of(boosting.trees(10**6), 3, boosting.base)
    assert len(forest.roots) == 3
    asked = queries(x, 1)
    found = tf.function(ForestLayer(forest))(tf.constant(asked))
    np.testing.assert_allclose(found, scores_of_library(boosting, asked, 3), rtol=1e-4, atol=1e-5)
    assert ForestLayer(forest)(asked[:0]).shape == (0, 3)


@pytest.mark.parametrize("kind", sorted(LABELS))
def test_continued_trees_are_those_of_an_uninterrupted_training(kind: str) -> None:
    model = TreesModel(kind="trees")
    whole, x = grown(kind, 5, 0.1, model, 12)
    first, _ = grown(kind, 5, 0.1, model, 5)
    _, z = table(5, 600, 0.1)
    y = {"binary": (z > 0.3) * 1.0, "multiclass": np.digitize(z, [0.0, 1.0]) * 1.0, "regression": z}[kind]
    parts = Examples(x[:400], y[:400], None), Examples(x[400:], y[400:], None)
    second = Boosting(model, LABELS[kind], *parts, [3, 4], seed=5, texts=first.texts)
    for _ in range(6):
        second.grow()
    third = Boosting(model, LABELS[kind], *parts, [3, 4], seed=5, texts=second.texts)
    metrics = third.grow()
    assert third.trees(12) == whole.trees(12)
    assert metrics is not None
    np.testing.assert_allclose(metrics["val_loss"], _loss(kind, y[400:], whole, x[400:]), rtol=1e-6)


def _loss(kind: str, y: Array, boosting: Boosting, x: Array) -> float:
    scores = scores_of_library(boosting, x, LABELS[kind].num_classes)
    if kind == "regression":
        return float(np.square(scores[:, 0] - y).mean())
    return float(log_loss(y, expit(scores[:, 0]) if kind == "binary" else softmax(scores, axis=1)))


@given(st.floats(allow_nan=False), st.floats(width=32, allow_nan=False))
def test_a_rounded_threshold_decides_as_the_exact_one(threshold: float, x: float) -> None:
    assert (np.float32(x) <= round_down(threshold)) == (x <= threshold)


def test_nodes_by_hand() -> None:
    of_category = Split(1, 0.0, (0, 33), True, 1.0, 2.0)
    tree = Split(0, 0.5, None, False, of_category, 10.0)
    layer = ForestLayer(Forest.of([tree, 100.0], 1, np.array([1000.0])))
    x = np.array([[0.5, 0], [0.5, 33], [0.5, 1], [0.5, 32], [0.5, 64], [0.6, 0], [np.nan, 0]], np.float32)
    assert np.asarray(layer(x))[:, 0].tolist() == [1101, 1101, 1102, 1102, 1102, 1110, 1101]


def test_before_any_tree_the_model_predicts_the_base_and_texts_are_refused() -> None:
    def build(features: dict[str, Any]) -> Any:
        config = {"label": {"key": "y", "kind": "binary"}, "features": features, "model": {"kind": "trees"}}
        sections = TrainerSections.from_json(json.dumps(config))
        inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 9)
        return models.build(inputs, sections.label, sections.model)

    model = build({"hour": {"column": "identity", "num_buckets": 24}, "v": {"column": "vector", "size": 2}})
    batch = {"hour": np.array([3, 24]), "v": np.zeros((2, 2), np.float32)}
    assert np.asarray(model(batch)).tolist() == [[0.5], [0.5]]
    with pytest.raises(ModelError, match=r"features\.words: .*numbers and single categories"):
        build({"words": {"column": "text"}})
    with pytest.raises(ModelError, match=r"features\.h has 16,777,218 categories"):
        build({"h": {"column": "hashed", "hash_buckets": 2**24 + 1}})


@pytest.mark.parametrize(
    ("losses", "patience", "min_delta", "over"),
    [([3, 2, 1], 1, 0.0, False), ([3, 2, 2], 1, 0.0, True), ([3, 2, 2, 1.9], 2, 0.0, False), ([3, 2.9], 1, 0.5, True)],
)
def test_early_stopping_waits_for_a_better_loss(
    losses: list[float], patience: int, min_delta: float, over: bool
) -> None:
    assert is_over(losses, EarlyStopping(patience=patience, min_delta=min_delta)) == over
    assert not is_over(losses, None)
    assert not is_over([1.0, *[2.0] * 49], EarlyStopping())
    assert is_over([1.0, *[2.0] * 50], EarlyStopping())


def test_examples_that_do_not_fit_in_memory_are_refused() -> None:
    assert check_memory(1000, 10, 1, 10**9) < 10**6
    with pytest.raises(TrainingError, match=r"1,000 of them with 10 numbers.* 100\.0 kB are free.*fewer"):
        check_memory(1000, 10, 1, 100_000)


def arguments(data: Any, folder: Path, **model: Any) -> SimpleNamespace:
    """Those of `run_fn`, with checkpoints next to the folder."""
    fn_args: SimpleNamespace = data.fn_args(folder, {**TREES, **model})
    fn_args.custom_config["checkpoints"] = str(folder.parent / "checkpoints")
    return fn_args


@pytest.mark.slow
def test_training_exports_what_the_library_grows(prepared: Prepare, tmp_path: Path) -> None:
    """The same examples, read and ordered by the test, given to LightGBM's own training."""
    data = prepared("multiclass")
    fn_args = arguments(data, tmp_path / "a")
    run_fn(fn_args)
    record = json.loads((tmp_path / "a" / "run" / "training.json").read_text())
    assert record["examples"] == {"train": 2000, "eval": 500}
    losses = [epoch["metrics"]["val_loss"] for epoch in record["epochs"]]
    assert record["best_epoch"] == 1 + int(np.argmin(losses)) < 60

    order = ["amount", "color", "pickup area", "where"]
    x, y = read(data, "train", order)
    asked, wanted = read(data, "eval", order)
    prior = np.log(np.bincount(y.astype(int)) / len(y))
    parts = lightgbm.Dataset(x, y, categorical_feature=[1, 2, 3], init_score=np.tile(prior, (len(y), 1)))
    parameters = {"objective": "multiclass", "num_class": 3, "learning_rate": 0.2, "verbosity": -1, "num_threads": 1}
    library = lightgbm.train(parameters, parts, record["best_epoch"])
    expected = softmax(np.asarray(library.predict(asked, raw_score=True)) + prior, axis=1)
    assert min(losses) == pytest.approx(log_loss(wanted, expected), rel=1e-5)

    served = tf.saved_model.load(fn_args.serving_model_dir).signatures
    predictions = served["serving_default"](examples=tf.constant(data.serialized["eval"]))["predictions"]
    np.testing.assert_allclose(np.sort(predictions, axis=0), np.sort(expected, axis=0), rtol=1e-4, atol=1e-6)
    given = {"amount": asked[:, 0], "color": asked[:, 1], "pickup_area": asked[:, 2], "where": asked[:, 3]}
    tensors = {name: tf.constant(x, tf.float32 if name == "amount" else tf.int64) for name, x in given.items()}
    found = served["serving_transformed"](**tensors)["predictions"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    by_c = through_c(fn_args.serving_model_dir, "serving_transformed", given, tmp_path)
    np.testing.assert_allclose(by_c, found, rtol=1e-6, atol=1e-7)


def read(data: Any, split: str, order: list[str]) -> tuple[Array, Array]:
    """The transformed examples of a split: float32 [examples, features], and the class ids."""
    spec = {name: tf.io.FixedLenFeature([], tf.float32 if name == "amount" else tf.int64) for name in order}
    files = sorted(tf.io.gfile.glob(data.patterns[split]))
    (parsed,) = [
        tf.io.parse_example(records, {**spec, "size": tf.io.FixedLenFeature([], tf.int64)})
        for records in tf.data.TFRecordDataset(files, "GZIP").batch(10**6)
    ]
    return np.stack([np.asarray(parsed[name], np.float32) for name in order], axis=1), np.asarray(parsed["size"])


def through_c(model: str, signature: str, given: dict[str, Array], folder: Path) -> Array:
    """The predictions that a process without TensorFlow's Python gets."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        definition = tf.compat.v1.saved_model.loader.load(session, ["serve"], model).signature_def[signature]
    feeds = {
        tensor.name: {
            "dtype": tf.as_dtype(tensor.dtype).name,
            "shape": [len(given[name])],
            "values": given[name].astype(tf.as_dtype(tensor.dtype).as_numpy_dtype).tolist(),
        }
        for name, tensor in definition.inputs.items()
    }
    calls = [{"feeds": feeds, "fetches": [definition.outputs["predictions"].name]}]
    (folder / "calls.json").write_text(json.dumps(calls))
    library = Path(tf.__file__).with_name("libtensorflow_cc.so.2")
    program = Path(__file__).parents[1] / "integration" / "cpp_loader.py"
    arguments = (library, model, folder / "calls.json", folder / "results.npz")
    done = subprocess.run([sys.executable, program, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "results.npz") as results:
        return np.asarray(results["arr_0"])


@pytest.mark.slow
def test_stopped_training_resumes_and_ends_as_an_uninterrupted_one(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("regression")
    whole = train_alone(arguments(data, tmp_path / "whole" / "x"))

    class Stop(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("iteration 1/"):
                os.kill(os.getpid(), signal.SIGTERM)

    log, stop = logging.getLogger("headrace.trainer.trees.training"), Stop()
    log.addHandler(stop)
    before = log.level
    log.setLevel(logging.INFO)
    try:
        with pytest.raises(TrainingStoppedError, match=r"after iteration 1\. .*saved in .*resumes"):
            train_alone(arguments(data, tmp_path / "parts" / "x"))
    finally:
        log.removeHandler(stop)
        log.setLevel(before)
    resumed = train_alone(arguments(data, tmp_path / "parts" / "y"))
    for name in ("best_epoch", "stopped_early", "parameters"):
        assert resumed[name] == whole[name]
    metrics = [[epoch["metrics"] for epoch in record["epochs"]] for record in (resumed, whole)]
    assert metrics[0] == metrics[1]
    price = np.array([row["price"][0] for row in data.rows["eval"]])
    assert min(one["val_loss"] for one in metrics[0]) < 0.05 * price.var()
