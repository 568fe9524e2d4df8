"""The ensemble that shares its weights, against separate networks in NumPy."""

import json
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import columns, models
from headrace.trainer.model import compile_model
from headrace.trainer.models.tabm import MemberDense, Periodic, SharedDense, for_each_member
from headrace.trainer.sections import TrainerSections

FEATURES: dict[str, dict[str, Any]] = {
    "amount": {"column": "numeric"},
    "miles": {"column": "numeric"},
    "hour": {"column": "identity", "num_buckets": 24},
}
BATCH: dict[str, np.ndarray] = {
    "amount": np.array([-1.0, 0.0, 2.5], np.float32),
    "miles": np.array([0.5, -3.0, 1.0], np.float32),
    "hour": np.array([23, 0, 24], np.int64),
}
LABELS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "binary": ({"key": "y", "kind": "binary"}, np.array([1, 0, 1])),
    "multiclass": ({"key": "y", "kind": "multiclass", "classes": ["a", "b", "c"]}, np.array([2, 0, 1])),
    "multilabel": (
        {"key": "y", "kind": "multilabel", "classes": ["a", "b"]},
        np.array([[1, 0], [0, 0], [1, 1]], np.float32),
    ),
    "regression": ({"key": "y", "kind": "regression"}, np.array([0.5, -1.0, 3.0])),
}
MEMBERS = 3
Array = np.ndarray


def sections(kind: str = "binary", features: dict[str, Any] = FEATURES, **model: Any) -> TrainerSections:
    chosen = {"kind": "tabm", "members": MEMBERS, "hidden": [8, 4], "frequencies": 5, "number_embedding": 2, **model}
    return TrainerSections.from_json(json.dumps({"label": LABELS[kind][0], "features": features, "model": chosen}))


def build(kind: str = "binary", features: dict[str, Any] = FEATURES, **model: Any) -> keras.Model:
    chosen = sections(kind, features, **model)
    keras.utils.set_random_seed(1)
    inputs = columns.ModelInputs(columns.build(chosen.features), lambda _: 0, chosen.model.embedding)
    return models.build(inputs, chosen.label, chosen.model)


def filled(model: keras.Model) -> keras.Model:
    """With weights that are not zero anywhere, biases too."""
    rng = np.random.default_rng(2)
    model.set_weights([rng.normal(0, 0.5, weights.shape) ** 2 for weights in model.get_weights()])
    return model


def weights(model: keras.Model, layer: str) -> dict[str, Array]:
    return {one.name: np.asarray(one, np.float64) for one in model.get_layer(layer).weights}


def at(model: keras.Model, layer: str) -> Array:
    """What a layer gives for the batch."""
    return np.asarray(keras.Model(model.input, model.get_layer(layer).output)(BATCH), np.float64)


def member(model: keras.Model, number: int) -> Array:
    """The logits of one member alone: a plain network whose matrices are the shared ones, scaled by its vectors."""
    periodic = weights(model, "periodic")
    numbers = np.stack((BATCH["amount"], BATCH["miles"]), axis=1).astype(np.float64)
    angles = 2 * np.pi * numbers[:, :, None] * periodic["frequencies"]
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=2)
    embedded = np.maximum(waves @ periodic["kernel"] + periodic["bias"], 0).reshape(3, -1)
    x = np.concatenate([at(model, "deep"), embedded], axis=1)
    for name in ("hidden_1", "hidden_2"):
        own = weights(model, name)
        kernel = own["scale_in"][number][:, None] * own["kernel"] * own["scale_out"][number]
        x = np.maximum(x @ kernel + own["bias"][number], 0)
    last = weights(model, "logits")
    return x @ last["kernel"][number] + last["bias"][number]


def predictions(kind: str, scores: Array) -> Array:
    """Of logits [batch, classes]."""
    if kind in ("binary", "multilabel"):
        return 1 / (1 + np.exp(-scores))
    if kind == "multiclass":
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return scores


def losses(kind: str, predicted: Array) -> Array:
    """Of each example of the batch."""
    labels = LABELS[kind][1]
    if kind == "binary":
        return -np.log(np.where(labels == 1, predicted[:, 0], 1 - predicted[:, 0]))
    if kind == "multilabel":
        return -np.log(np.where(labels == 1, predicted, 1 - predicted)).mean(axis=1)
    if kind == "multiclass":
        return -np.log(predicted[np.arange(3), labels])
    return (labels - predicted[:, 0]) ** 2


@pytest.mark.parametrize("kind", LABELS)
def test_it_predicts_the_mean_and_learns_each_member(kind: str) -> None:
    model, weight = filled(build(kind)), np.array([1.0, 0.5, 2.0])
    compile_model(model, sections(kind).label, TrainConfig(), steps_per_execution=1)
    each = [predictions(kind, member(model, number)) for number in range(MEMBERS)]
    mean = np.mean(each, axis=0)
    np.testing.assert_allclose(model(BATCH), mean, rtol=1e-4)

    labels = tf.constant(LABELS[kind][1])
    in_training = model.compute_loss(BATCH, labels, model(BATCH, training=True), tf.constant(weight), training=True)
    expected = np.mean([losses(kind, one) @ weight / 3 for one in each])
    np.testing.assert_allclose(float(in_training), expected, rtol=1e-4)
    evaluated = model.compute_loss(BATCH, labels, model(BATCH, training=False), tf.constant(weight), training=False)
    np.testing.assert_allclose(float(evaluated), losses(kind, mean) @ weight / 3, rtol=1e-4)
    assert abs(float(evaluated) - expected) > 3e-4  # members differ


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 3), (4, 3, 2)])
@pytest.mark.parametrize("unknown", [False, True])
def test_labels_of_any_rank_are_repeated_for_each_member(shape: tuple[int, ...], unknown: bool) -> None:
    y = np.arange(np.prod(shape)).reshape(shape)
    spec = tf.TensorSpec([None] * y.ndim if unknown else [None, *shape[1:]], tf.int64)
    found = tf.function(lambda y: for_each_member(y, 3), input_signature=[spec])(y)
    expected = np.repeat(y if y.ndim > 1 else y[:, None], 3, axis=0)
    np.testing.assert_array_equal(found, expected, strict=True)


def test_members_differ_from_the_start_and_share_almost_all_weights() -> None:
    model = build(members=8, hidden=[64], frequencies=0)
    signs = weights(model, "hidden_1")["scale_in"]
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert len(np.unique(signs, axis=0)) > 4  # of five inputs, two members may get the same
    layer = model.get_layer("hidden_1")
    width = layer.kernel.shape[0]
    assert layer.count_params() == width * 64 + 8 * (width + 64 + 64)
    assert "periodic" not in [layer.name for layer in model.layers]


def test_a_steep_function_of_a_number_is_learned_that_plain_numbers_miss() -> None:
    rng = np.random.default_rng(3)
    batch = {"amount": rng.uniform(-2, 2, 2000).astype(np.float32)}
    waves = np.sin(6 * batch["amount"])
    errors = []
    for frequencies in (16, 0):
        model = build("regression", {"amount": FEATURES["amount"]}, frequencies=frequencies, hidden=[32])
        model.compile(keras.optimizers.Adam(0.02), "mse")
        errors.append(model.fit(batch, waves, batch_size=200, epochs=40, verbose=0).history["loss"][-1])
    assert errors[0] < 0.05
    assert errors[1] > 0.3  # the variance of the labels is 0.5


def test_a_step_computes_the_members_of_the_first_layer_like_predictions_do() -> None:
    rng = np.random.default_rng(4)
    layer, x = SharedDense(5, "signs", members=MEMBERS), rng.normal(size=(7, 6)).astype(np.float32)
    layer.build(x.shape)
    layer.set_weights([rng.normal(size=one.shape) for one in layer.weights])
    kernel, scale_in, scale_out, bias = (np.asarray(one, np.float64) for one in layer.weights)
    assert [one.name for one in layer.weights] == ["kernel", "scale_in", "scale_out", "bias"]
    expected = np.stack([(x * scale_in[i]) @ kernel * scale_out[i] + bias[i] for i in range(MEMBERS)], axis=1)
    gradients = []
    for training in (False, True):
        with tf.GradientTape() as tape:
            found = layer(x, training=training)
            loss = tf.reduce_sum(found**2)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        gradients.append(tape.gradient(loss, layer.trainable_variables))
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_members_side_by_side_compute_in_the_precision_of_the_layer() -> None:
    layer = SharedDense(5, "signs", members=MEMBERS, dtype="mixed_bfloat16")
    x = np.random.default_rng(4).normal(size=(7, 6)).astype(np.float32)
    found = [layer(x, training=training) for training in (False, True)]
    assert {one.dtype for one in found} == {tf.bfloat16}
    assert {one.dtype for one in layer.weights} == {"float32"}
    scaled, side_by_side = (np.asarray(one, np.float32) for one in found)
    np.testing.assert_allclose(scaled, side_by_side, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "layer", [Periodic(3, 2), SharedDense(4, "ones"), SharedDense(4, "signs", members=3), MemberDense(2)]
)
def test_layers_come_back_from_their_config(layer: keras.layers.Layer) -> None:
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_without_a_deep_feature_it_is_refused() -> None:
    features = {"hour": {"column": "identity", "num_buckets": 24, "deep": False}}
    with pytest.raises(TrainingError, match=r"model\.kind: tabm has nothing to learn from"):
        build(features=features)
