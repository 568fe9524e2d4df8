"""Weights of examples and of classes in the loss: against NumPy, scikit-learn, and rows that occur several times."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf
from sklearn.utils.class_weight import compute_class_weight

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.weights import ExampleWeights
from headrace.trainer.model import compile_model

SPEC = {name: tf.io.FixedLenFeature([], tf.float32) for name in ("x", "y", "w")}
BINARY = LabelConfig(key="y", kind="binary", weight="w")
UNWEIGHTED = BINARY.model_copy(update={"weight": None})
Rows = dict[str, np.ndarray]


def rows(number: int, seed: int) -> Rows:
    """A label that follows from x, more or less; and small whole weights, some of which are 0."""
    random = np.random.default_rng(seed)
    x = random.normal(size=number)
    y = (x + random.normal(size=number) > 0.8).astype(float)
    return {"x": x, "y": y, "w": random.choice([0.0, 1.0, 2.0, 5.0], number)}


def repeated(given: Rows) -> Rows:
    """Each row as often as its weight says, with the weight 1."""
    times = given["w"].astype(int)
    return {"x": np.repeat(given["x"], times), "y": np.repeat(given["y"], times), "w": np.ones(times.sum())}


def write(path: Path, given: Rows, compression: str = "GZIP") -> str:
    file = str(path.with_suffix(".gz" if compression else ".tfrecord"))
    with tf.io.TFRecordWriter(file, compression) as writer:
        for values in zip(*given.values(), strict=True):
            example = tf.train.Example()
            for name, value in zip(given, values, strict=True):
                example.features.feature[name].float_list.value.append(value)
            writer.write(example.SerializeToString())
    return file


def open_split(
    file: str, label: LabelConfig, class_weight: Any = None, batch_size: int = 5000, **settings: Any
) -> InputSplit:
    spec = SPEC if label.weight else {name: SPEC[name] for name in ("x", "y")}
    weights = ExampleWeights.of("train", [file], spec, label, class_weight)
    return InputPipeline(feature_spec=spec, label_key="y", batch_size=batch_size, weights=weights, **settings).open(
        "train", [file]
    )


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
@pytest.mark.parametrize("shuffle", [0, 300])
def test_each_example_has_its_weight_over_the_mean_times_that_of_its_class(
    tmp_path: Path, cache: Any, shuffle: int
) -> None:
    given = rows(500, 1)
    split = open_split(write(tmp_path / "a", given), BINARY, {"1": 3.0}, batch_size=64, cache=cache, shuffle=shuffle)
    by_x = dict(zip(given["x"].astype(np.float32).tolist(), zip(given["y"], given["w"], strict=True), strict=True))
    seen = 0
    for features, label, weight in split.dataset:
        assert list(features) == ["x"]
        expected = np.array([by_x[x] for x in features["x"].numpy().tolist()])
        np.testing.assert_array_equal(label, expected[:, 0])
        factor = np.where(expected[:, 0] == 1, 3.0, 1.0)
        np.testing.assert_allclose(weight, factor * expected[:, 1] / given["w"].mean(), rtol=1e-6)
        seen += len(expected)
    assert seen == 500


@pytest.mark.parametrize("compression", ["GZIP", ""])
def test_balanced_classes_weigh_as_in_scikit_learn(tmp_path: Path, compression: str) -> None:
    random = np.random.default_rng(2)
    y, w = random.choice(3, 400, p=[0.7, 0.25, 0.05]), random.choice([0.0, 1.0, 2.0], 400)
    file = write(tmp_path / "a", {"x": np.zeros(400), "y": y, "w": w}, compression)
    spec = {**SPEC, "y": tf.io.FixedLenFeature([], tf.float32)}
    label = LabelConfig(key="y", kind="multiclass", classes=("a", "b", "c", "absent"))
    found = ExampleWeights.of("train", [file], spec, label, "balanced")
    assert found is not None
    expected = compute_class_weight("balanced", classes=np.arange(3), y=y)
    assert found.classes == pytest.approx([*expected, 1.0])
    assert found.words == f"class weights: a {expected[0]:.4g}, b {expected[1]:.4g}, c {expected[2]:.4g}, absent 1"
    weighted = label.model_copy(update={"weight": "w"})
    found = ExampleWeights.of("train", [file], spec, weighted, "balanced")
    assert found is not None
    often = np.repeat(y, w.astype(int))
    assert found.classes == pytest.approx([*compute_class_weight("balanced", classes=np.arange(3), y=often), 1.0])
    assert found.words.startswith(f"weights of 'w' divided by their mean, {w.mean():.4g}; class weights: a ")


def test_without_weights_batches_have_none(tmp_path: Path) -> None:
    given = rows(10, 1)
    assert len(next(iter(open_split(write(tmp_path / "a", given), UNWEIGHTED).dataset))) == 2


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, -0.5, float("nan")], "2 of 3 examples have no valid weight"),
        ([1, float("inf"), 2], "1 of 3 examples have no valid weight"),
        ([0, 0, 0], "all 3 weights are 0"),
    ],
)
def test_invalid_weights_are_refused_with_column_and_split(tmp_path: Path, weights: list[float], words: str) -> None:
    file = write(tmp_path / "a", {"x": np.zeros(3), "y": np.array([0, 1, 1]), "w": np.array(weights)})
    with pytest.raises(TrainingError, match=f"label.weight: column 'w', split train: {words}"):
        open_split(file, BINARY)


def train(train_split: InputSplit, eval_split: InputSplit, label: LabelConfig) -> tuple[keras.Model, dict[str, Any]]:
    """A logistic regression after thirty full-batch steps, and the history of its epochs."""
    inputs = {"x": keras.Input((), name="x")}
    x = keras.layers.Reshape((1,))(inputs["x"])
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid", kernel_initializer="zeros")(x))
    compile_model(model, label, TrainConfig(optimizer="sgd", learning_rate=0.5, jit="off"), 1, 30)
    run = model.fit(train_split.dataset, validation_data=eval_split.dataset, epochs=30, verbose=0, shuffle=False)
    return model, run.history


Splits = Callable[..., tuple[InputSplit, InputSplit]]


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Splits:
    """Opens the train and the eval split; `often`: with repeated rows and no weights."""
    folder = tmp_path_factory.mktemp("splits")
    plain = {"train": rows(400, 1), "eval": rows(150, 2)}
    files = {split: write(folder / split, given) for split, given in plain.items()}
    often = {split: write(folder / f"{split}-often", repeated(given)) for split, given in plain.items()}

    def open_(label: LabelConfig, class_weight: Any = None, *, repeat: bool = False) -> tuple[InputSplit, InputSplit]:
        chosen = often if repeat else files
        return open_split(chosen["train"], label, class_weight), open_split(chosen["eval"], label)

    return open_


@pytest.mark.parametrize("class_weight", [None, "balanced", {"0": 0.5, "1": 4.0}])
def test_a_weight_of_two_trains_and_evaluates_like_two_rows(splits: Splits, class_weight: Any) -> None:
    weighted, history = train(*splits(BINARY, class_weight), BINARY)
    repeated_rows, expected = train(*splits(UNWEIGHTED, class_weight, repeat=True), UNWEIGHTED)
    for one, other in zip(weighted.get_weights(), repeated_rows.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)
    assert history.keys() == expected.keys()
    evaluated = [name for name in history if name.startswith("val_") or name == "loss"]
    for name in evaluated:
        assert history[name] == pytest.approx(expected[name], rel=1e-4), name
    assert {"val_loss", "val_auc", "val_binary_accuracy"} < {*evaluated}


def test_the_eval_loss_is_weighted_by_the_column_and_not_by_class(splits: Splits) -> None:
    given = rows(150, 2)
    model, history = train(*splits(BINARY, "balanced"), BINARY)
    p = model.predict({"x": given["x"].astype(np.float32)}, verbose=0)[:, 0].astype(float)
    expected = sklearn.metrics.log_loss(given["y"], p, sample_weight=given["w"])
    assert history["val_loss"][-1] == pytest.approx(expected, rel=1e-4)
