"""The cross network against the paper's formula in NumPy."""

import json
from typing import Any

import keras
import numpy as np
import pytest

from headrace.common.errors import TrainingError
from headrace.trainer import columns, models
from headrace.trainer.models.dcn import Cross
from headrace.trainer.sections import TrainerSections

FEATURES: dict[str, dict[str, Any]] = {
    "amount": {"column": "numeric"},
    "miles": {"column": "numeric"},
    "hour": {"column": "identity", "num_buckets": 24},
}
BATCH = {
    "amount": np.array([-1.0, 0.0, 2.5], np.float32),
    "miles": np.array([0.5, -3.0, 1.0], np.float32),
    "hour": np.array([23, 0, 24], np.int64),
}


def build(features: dict[str, Any] = FEATURES, **model: Any) -> keras.Model:
    config = {"label": {"key": "tip", "kind": "regression"}, "features": features, "model": {"kind": "dcn", **model}}
    sections = TrainerSections.from_json(json.dumps(config))
    keras.utils.set_random_seed(1)
    inputs = columns.ModelInputs(columns.build(sections.features), lambda _: 0, sections.model.embedding)
    return models.build(inputs, sections.label, sections.model)


def filled(model: keras.Model) -> keras.Model:
    """With weights that are not zero anywhere, biases too."""
    rng = np.random.default_rng(2)
    model.set_weights([rng.normal(0, 0.5, weights.shape) for weights in model.get_weights()])
    return model


def at(model: keras.Model, layer: str) -> np.ndarray:
    """What a layer gives for the batch."""
    inner = keras.Model(model.input, model.get_layer(layer).output)
    return np.asarray(inner(BATCH), np.float64)


def cross(x0: np.ndarray, x: np.ndarray, layer: keras.layers.Layer) -> np.ndarray:
    """The formula of the paper, one example and one place at a time."""
    *kernels, bias = [np.asarray(weight, np.float64) for weight in layer.weights]
    matrix = kernels[0] if len(kernels) == 1 else kernels[0] @ kernels[1]
    given = np.empty_like(x)
    for row in range(len(x)):
        for place in range(x.shape[1]):
            given[row, place] = x0[row, place] * (matrix[:, place] @ x[row] + bias[place]) + x[row, place]
    return given


def dense(x: np.ndarray, layer: keras.layers.Dense) -> np.ndarray:
    return x @ np.asarray(layer.kernel, np.float64) + np.asarray(layer.bias, np.float64)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("structure", ["parallel", "stacked"])
def test_the_model_is_the_papers(structure: str, rank: int | None) -> None:
    model = filled(build(structure=structure, rank=rank, cross_layers=3, hidden=[8, 4]))
    x = x0 = at(model, "deep")
    for position in (1, 2, 3):
        x = cross(x0, x, model.get_layer(f"cross_{position}"))
    deep = x0 if structure == "parallel" else x
    for position in (1, 2):
        deep = np.maximum(dense(deep, model.get_layer(f"hidden_{position}")), 0)
    joined = np.concatenate([x, deep], axis=1) if structure == "parallel" else deep
    np.testing.assert_allclose(at(model, "logits"), dense(joined, model.get_layer("logits")), rtol=1e-4)


@pytest.mark.parametrize(("rank", "weights"), [(None, 100 * 100 + 100), (5, 2 * 100 * 5 + 100)])
def test_a_rank_makes_fewer_weights(rank: int | None, weights: int) -> None:
    layer = Cross(rank)
    layer([np.ones((1, 100)), np.ones((1, 100))])
    assert layer.count_params() == weights
    assert Cross.from_config(layer.get_config()).rank == rank


def test_products_of_features_are_learned_that_dense_layers_of_that_size_miss() -> None:
    rng = np.random.default_rng(3)
    batch = {name: rng.uniform(-1, 1, 2000).astype(np.float32) for name in ("amount", "miles")}
    product = batch["amount"] * batch["miles"]
    features = {name: FEATURES[name] for name in batch}
    errors = []
    for settings in ({"cross_layers": 1, "hidden": []}, {"kind": "dnn", "hidden": []}):
        model = build(features, **settings)
        model.compile(keras.optimizers.Adam(0.05), "mse")
        errors.append(model.fit(batch, product, batch_size=200, epochs=12, verbose=0).history["loss"][-1])
    assert errors[0] < 0.001 < np.var(product) * 0.9 < errors[1]


def test_without_dense_layers_only_products_are_left() -> None:
    assert "joined" not in [layer.name for layer in build(hidden=[]).layers]


def test_without_a_deep_feature_it_is_refused() -> None:
    features = {"hour": {"column": "identity", "num_buckets": 24, "deep": False}}
    with pytest.raises(TrainingError, match=r"model\.kind: dcn has nothing to learn from"):
        build(features)
