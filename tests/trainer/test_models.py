"""The models, and the user's own builder in their place."""

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from headrace.common.errors import TrainingError
from headrace.configs.json_schema import json_schema, kinds_of
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import MODELS
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import columns, models
from headrace.trainer.model import compile_model
from headrace.trainer.sections import TrainerSections

FEATURES = {
    "amount": {"column": "numeric"},
    "color": {"column": "vocabulary", "values": ["red", "green", "blue"]},
    "hour": {"column": "identity", "num_buckets": 24},
}
BINARY = {"key": "label", "kind": "binary"}
BATCH: dict[str, np.ndarray] = {
    "amount": np.array([-1.0, 0.0, 2.5], np.float32),
    "color": np.array([0, 4, 1], np.int64),
    "hour": np.array([23, 0, 24], np.int64),
}
HOOKS = """
import keras

def build(features, label, model):
    x = keras.layers.Dense(model.options["units"], name="mine")(features.deep())
    return keras.Model(features.inputs, keras.layers.Dense(label.num_classes, activation="sigmoid")(x))

def wrong_width(features, label, model):
    return keras.Model(features.inputs, keras.layers.Dense(7)(features.deep()))

def nothing(features, label, model):
    return None

value = 3
"""


def build(model: dict[str, Any], label: dict[str, Any] = BINARY, features: dict[str, Any] = FEATURES) -> keras.Model:
    sections = TrainerSections.model_validate_json(json.dumps({"label": label, "features": features, "model": model}))
    keras.utils.set_random_seed(1)
    inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 0, sections.model.embedding)
    return models.build(inputs, sections.label, sections.model)


def predict(model: keras.Model, batch: dict[str, np.ndarray] = BATCH) -> np.ndarray:
    return np.asarray(model(batch, training=False))


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "model_test_hooks.py").write_text(HOOKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("model_test_hooks", None)
    return "model_test_hooks"


def dense(x: np.ndarray, layer: keras.layers.Dense) -> np.ndarray:
    return x @ np.asarray(layer.kernel) + np.asarray(layer.bias)


def deep_logits(model: keras.Model, name: str, deep: str = "deep") -> np.ndarray:
    """The dense layers once more, in NumPy, from what the features give for the deep part."""
    batch = {name: BATCH[name] for name in model.input}
    x = np.asarray(keras.Model(list(model.input.values()), model.get_layer(deep).output)(list(batch.values())))
    for position in (1, 2):
        x = np.maximum(dense(x, model.get_layer(f"hidden_{position}")), 0)
    return dense(x, model.get_layer(name))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_dnn_is_dense_layers_over_the_deep_features() -> None:
    model = build({"kind": "dnn", "hidden": [8, 4]})
    np.testing.assert_allclose(predict(model), sigmoid(deep_logits(model, "logits")), rtol=1e-5)


def test_wide_and_deep_starts_at_zero_and_adds_linear_terms_to_the_deep_logits() -> None:
    model = build({"kind": "wide_and_deep", "hidden": [8, 4]})
    np.testing.assert_array_equal(predict(model), 0.5)
    model.get_layer("deep_logits").kernel.assign(np.linspace(-1, 1, 4)[:, np.newaxis])
    deep = deep_logits(model, "deep_logits")
    np.testing.assert_allclose(predict(model), sigmoid(deep), rtol=1e-5)
    (table,) = model.get_layer("wide").trainable_weights
    weights = np.arange(5 + 25, dtype=np.float32)[:, np.newaxis] / 10  # of color, then of hour
    table.assign(weights)
    (kernel,) = model.get_layer("wide_numbers").trainable_weights
    kernel.assign([[0.7]])
    wide = weights[BATCH["color"]] + weights[5 + BATCH["hour"]] + 0.7 * BATCH["amount"][:, np.newaxis]
    np.testing.assert_allclose(predict(model), sigmoid(deep + wide), rtol=1e-5)


def test_wide_and_deep_over_numbers_alone_has_both_parts() -> None:
    model = build({"kind": "wide_and_deep", "hidden": [8, 4]}, features={"amount": {"column": "numeric"}})
    model.get_layer("deep_logits").kernel.assign(np.linspace(-1, 1, 4)[:, np.newaxis])
    model.get_layer("wide_numbers").kernel.assign([[-0.3]])
    found = predict(model, {"amount": BATCH["amount"]})
    logits = deep_logits(model, "deep_logits", "numbers") - 0.3 * BATCH["amount"][:, np.newaxis]
    np.testing.assert_allclose(found, sigmoid(logits), rtol=1e-5)


def test_wide_and_deep_with_only_wide_features_is_linear() -> None:
    model = build(
        {"kind": "wide_and_deep"}, features={"hour": {"column": "identity", "num_buckets": 24, "deep": False}}
    )
    assert model.count_params() == 25


def test_features_may_have_any_names() -> None:
    names = ["a/b", "a_b", "pickup area (km)", "año", "deep", "wide", "predictions", "hidden_1", "2"]
    model = build(
        {"kind": "wide_and_deep", "hidden": [2]},
        features={name: {"column": "identity", "num_buckets": 3} for name in names},
    )
    zeros = {name: np.zeros(2, np.int64) for name in names}
    model.get_layer("wide").table.assign(np.kron(np.arange(len(names)) / 10, [1.0, 0, 0, 0])[:, np.newaxis])
    for place, name in enumerate(names):  # each name reaches its own weights
        one = predict(model, zeros | {name: np.array([0, 1])})[:, 0]
        logits = np.log(one / (1 - one))
        assert logits[0] - logits[1] == pytest.approx(place / 10, abs=0.03)


@pytest.mark.parametrize("kind", ["dnn", "wide_and_deep"])
def test_model_without_any_feature_to_learn_from_is_refused(kind: str) -> None:
    hidden = {"hour": {"column": "identity", "num_buckets": 24, "deep": False, "wide": False}}
    with pytest.raises(TrainingError, match=rf"model\.kind: {kind} .*nothing to learn from"):
        build({"kind": kind}, features=hidden)


@pytest.mark.parametrize("kind", ["dnn", "wide_and_deep"])
def test_multiclass_gives_a_probability_for_each_class(kind: str) -> None:
    predictions = predict(build({"kind": kind}, {"key": "label", "kind": "multiclass", "classes": 5}))
    assert predictions.shape == (3, 5)
    np.testing.assert_allclose(predictions.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("kind", ["dnn", "wide_and_deep"])
def test_regression_is_not_bounded(kind: str) -> None:
    model = build({"kind": kind}, {"key": "label", "kind": "regression"})
    model.get_layer("logits" if kind == "dnn" else "deep_logits").bias.assign([-500.0])
    assert predict(model).max() < -100


def test_dropout_and_activation_are_the_configs() -> None:
    model = build({"kind": "dnn", "hidden": [8, 4], "dropout": 0.25, "activation": "gelu"})
    assert [model.get_layer(f"dropout_{position}").rate for position in (1, 2)] == [0.25, 0.25]
    assert model.get_layer("hidden_1").activation is keras.activations.gelu


def test_unknown_activation_offers_the_nearest() -> None:
    with pytest.raises(TrainingError, match=r"model.activation: 'rellu' .* Did you mean relu"):
        build({"activation": "rellu"})


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        (
            "glu",
            r"glu .*shape \[2, 2\] .*shape \[2, 4\], .*activation",
        ),
        ("threshold", "threshold takes more than a tensor"),
    ],
)
@pytest.mark.parametrize("kind", ["dnn", "dcn"])
def test_activation_that_is_none_for_a_layer_is_refused(kind: str, name: str, reported: str) -> None:
    with pytest.raises(TrainingError, match=rf"model\.activation: {reported}"):
        build({"kind": kind, "activation": name})


def test_own_builder_is_called_with_features_label_and_options(hooks: str) -> None:
    model = build({"kind": f"{hooks}.build", "options": {"units": 13}})
    assert model.get_layer("mine").units == 13
    assert predict(model).shape == (3, 1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("wrong_width", r"shape \(None, 7\); a binary label .*shape \(None, 1\)"),
        ("nothing", "returned NoneType, not a keras.Model"),
        ("value", "is not a function"),
        ("absent", "has no callable 'absent'"),
    ],
)
def test_builder_that_gives_no_fitting_model_is_refused(hooks: str, function: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        build({"kind": f"{hooks}.{function}"})


def test_builder_in_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"model\.kind: cannot import 'no_such_module'"):
        build({"kind": "no_such_module.build"})


@pytest.mark.parametrize(
    ("label", "truth", "predicted", "expected"),
    [
        (BINARY, [[1.0], [0.0]], [[0.8], [0.4]], -(np.log(0.8) + np.log(0.6)) / 2),
        ({"key": "k", "kind": "multiclass", "classes": 3}, [2, 0], [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]],
         -(np.log(0.7) + np.log(0.5)) / 2),
        ({"key": "k", "kind": "multilabel", "classes": 2}, [[1.0, 0.0], [1.0, 1.0]], [[0.8, 0.4], [0.3, 0.9]],
         -(np.log(0.8) + np.log(0.6) + np.log(0.3) + np.log(0.9)) / 4),
        ({"key": "k", "kind": "regression"}, [[3.0], [1.0]], [[1.0], [1.5]], (4 + 0.25) / 2),
    ],
    ids=["binary", "multiclass", "multilabel", "regression"],
)  # fmt: skip
def test_loss_fits_the_kind_of_label(label: dict[str, Any], truth: Any, predicted: Any, expected: float) -> None:
    config = LabelConfig.model_validate(label)
    model = build({"kind": "dnn"}, label)
    compile_model(model, config, TrainConfig(), steps_per_execution=1)
    assert float(model.loss(np.array(truth), np.array(predicted, np.float32))) == pytest.approx(expected, rel=1e-5)


def test_every_kind_that_the_config_allows_has_a_builder() -> None:
    assert MODELS.kinds.keys() == kinds_of(json_schema()["properties"]["model"]).keys() - {"run_fn"}
    assert all(callable(kind.load_implementation()) for kind in MODELS.kinds.values())
