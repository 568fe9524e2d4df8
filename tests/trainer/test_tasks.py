"""Several labels of one model: losses and metrics against NumPy, over every kind of model that has several heads."""

import json
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import columns, models, training
from headrace.trainer.callbacks.diagnosis import diagnose_batch
from headrace.trainer.columns import Batch
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.errors import explain_label_errors, label_check
from headrace.trainer.model import compile_model, loss, losses_on
from headrace.trainer.models import layers
from headrace.trainer.models.layers import adapt_scale, label_variances
from headrace.trainer.preprocessing import transform_label
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tasks import joined_labels, tasks_of

Array = np.ndarray
LABEL = {
    "kind": "multitask",
    "tasks": {
        "price": {"kind": "regression", "loss_weight": 2.0, "missing": "mask"},
        "sold": {"kind": "binary", "loss_weight": 0.5, "missing": "mask"},
        "grade": {"kind": "multiclass", "classes": ["a", "b", "c"]},
        "tags": {"kind": "multilabel", "classes": ["x", "y"], "missing": "mask"},
    },
}
FEATURES: dict[str, dict[str, Any]] = {
    "amount": {"column": "numeric"},
    "hour": {"column": "identity", "num_buckets": 24},
}
ROWS = 40
KINDS = ["linear", "dnn", "wide_and_deep", "dcn", "tabm"]


def sections(kind: str = "wide_and_deep", label: dict[str, Any] = LABEL) -> TrainerSections:
    plain = {"label": label, "features": FEATURES, "model": {"kind": kind}}
    return TrainerSections.from_json(json.dumps(plain))


def build(kind: str = "wide_and_deep", label: dict[str, Any] = LABEL) -> keras.Model:
    chosen = sections(kind, label)
    keras.utils.set_random_seed(1)
    inputs = columns.ModelInputs(columns.build(chosen.features), lambda _: 0, chosen.model.embedding)
    built = models.build(inputs, chosen.label, chosen.model)
    rng = np.random.default_rng(3)
    for layer in built.layers:  # also those that start as zeros
        if not isinstance(layer, keras.layers.Normalization):
            layer.set_weights([rng.normal(0, 0.3, each.shape) for each in layer.get_weights()])
    return built


def batch() -> tuple[dict[str, Array], Array]:
    """Features, and joined labels of which some of each task are masked."""
    rng = np.random.default_rng(0)
    features = {"amount": rng.normal(size=ROWS).astype("float32"), "hour": rng.integers(0, 24, ROWS)}
    y = np.stack(
        [
            rng.normal(300_000, 50_000, ROWS),
            rng.integers(0, 2, ROWS),
            rng.integers(0, 3, ROWS),
            *rng.integers(0, 2, (2, ROWS)),
        ],
        axis=1,
    ).astype("float32")
    y[::4, 0], y[1::5, 1], y[2::3, 3:] = np.nan, np.nan, np.nan
    return features, y


def split(features: dict[str, Array], y: Array) -> InputSplit:
    dataset = tf.data.Dataset.from_tensor_slices((features, y)).batch(7)
    return InputSplit(lambda: dataset, lambda: dataset, steps=-(-ROWS // 7), size=ROWS, seen=lambda: ROWS)


def task_losses(y: Array, p: Array) -> dict[str, Array]:
    """Of each example and task, 0 where it is masked, by NumPy."""
    known = ~np.isnan(y[:, [0, 1, 2, 3]])
    labels, p = np.nan_to_num(y).astype(np.float64), p.astype(np.float64)
    tags = -np.where(labels[:, 3:] == 1, np.log(p[:, 5:]), np.log(1 - p[:, 5:])).mean(axis=1)
    each = {
        "price": (labels[:, 0] - p[:, 0]) ** 2 / np.nanvar(y[:, 0].astype(np.float64)),
        "sold": -np.where(labels[:, 1] == 1, np.log(p[:, 1]), np.log(1 - p[:, 1])),
        "grade": -np.log(p[np.arange(ROWS), 2 + labels[:, 2].astype(int)]),
        "tags": tags,
    }
    return {name: np.where(known[:, place], one, 0) for place, (name, one) in enumerate(each.items())}


WEIGHTS = {"price": 2.0, "sold": 0.5, "grade": 1.0, "tags": 1.0}


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_weighted_sum_over_the_tasks_of_what_is_not_masked(kind: str) -> None:
    model, (features, y) = build(kind), batch()
    label = sections(kind).label
    adapt_scale(model, split(features, y), label)
    p = np.asarray(model(features))
    assert p.shape == (ROWS, 7)
    expected = np.sum([WEIGHTS[name] * one for name, one in task_losses(y, p).items()], axis=0)
    dataset = tf.data.Dataset.from_tensor_slices((features, y)).batch(16)
    np.testing.assert_allclose(losses_on(model, dataset, label), expected, rtol=2e-4)
    compile_model(model, label, TrainConfig(), 1)
    found = model.evaluate(dataset, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(expected.mean(), rel=1e-4)


def test_weights_of_examples_apply_to_the_loss_and_the_metrics_of_every_task() -> None:
    label = {**LABEL, "weight": "count"}
    model, (features, y), config = build(label=label), batch(), sections(label=label).label
    adapt_scale(model, split(features, y), config)
    weights = np.random.default_rng(2).choice([0.0, 0.5, 3.0], ROWS).astype("float32")
    compile_model(model, config, TrainConfig(), 1)
    dataset = tf.data.Dataset.from_tensor_slices((features, y, weights)).batch(16)
    found, p = model.evaluate(dataset, verbose=0, return_dict=True), np.asarray(model(features))
    expected = np.sum([WEIGHTS[name] * one for name, one in task_losses(y, p).items()], axis=0) * weights
    assert found["loss"] == pytest.approx(expected.mean(), rel=1e-4)
    known = ~np.isnan(y[:, 1])
    right = (p[known, 1] > 0.5) == y[known, 1]
    assert found["sold/binary_accuracy"] == pytest.approx(np.average(right, weights=weights[known]))


def test_a_masked_label_is_not_taken_for_the_cause_of_a_loss_that_is_not_finite() -> None:
    model, (features, y), config = build(), batch(), sections().label
    compile_model(model, config, TrainConfig(), 1)
    features["amount"][3] = np.inf
    found, _ = diagnose_batch(model, features, y)
    assert found.startswith(f"feature 'amount' holds inf in 1 of {ROWS} values")


def test_metrics_of_an_epoch_are_those_of_each_task_over_its_labels() -> None:
    model, (features, y) = build(), batch()
    label = sections().label
    adapt_scale(model, split(features, y), label)
    compile_model(model, label, TrainConfig(), 1)
    found = model.evaluate(tf.data.Dataset.from_tensor_slices((features, y)).batch(16), verbose=0, return_dict=True)
    p = np.asarray(model(features))
    priced, known = ~np.isnan(y[:, 0]), ~np.isnan(y[:, 1])
    assert found["price/mean_absolute_error"] == pytest.approx(np.abs(y[priced, 0] - p[priced, 0]).mean(), rel=1e-4)
    assert found["sold/binary_accuracy"] == pytest.approx(np.mean((p[known, 1] > 0.5) == y[known, 1]))
    assert found["sold/auc"] == pytest.approx(sklearn.metrics.roc_auc_score(y[known, 1], p[known, 1]), abs=0.02)
    assert found["grade/accuracy"] == pytest.approx(np.mean(p[:, 2:5].argmax(axis=1) == y[:, 2]))
    assert {*found} == {
        "loss",
        "price/mean_absolute_error",
        "sold/auc",
        "sold/binary_accuracy",
        "grade/accuracy",
        "tags/micro_auc",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_head_and_the_shared_layers_get_gradients_of_their_own_tasks(kind: str) -> None:
    model, (features, y) = build(kind), batch()
    label = sections(kind).label
    adapt_scale(model, split(features, y), label)
    tasks = {task.name: task for task in tasks_of(label)}
    whole = loss(label, "none", model)
    with tf.GradientTape(persistent=True) as tape:
        p = model(features)
        each = {name: tf.reduce_mean(whole.of_task(task, tf.constant(y), p)) for name, task in tasks.items()}
    last = [one for one in model.trainable_variables if one.shape and one.shape[-1] == 7]
    assert last
    for name, task in tasks.items():
        sizes = sum(
            tf.reduce_sum(tf.abs(tf.convert_to_tensor(gradient)), axis=[*range(len(gradient.shape) - 1)])
            for gradient in tape.gradient(each[name], last)
            if gradient is not None
        ).numpy()
        outside = np.delete(sizes, np.arange(7)[task.output_slice])
        assert (sizes[task.output_slice] > 0).all()
        assert outside == pytest.approx(0)
    shared = [one for one in model.trainable_variables if "hidden_1" in one.path and one.path.endswith("kernel")]
    for name in tasks if shared else ():
        (gradient,) = tape.gradient(each[name], shared)
        assert np.abs(gradient).sum() > 0


def test_masked_labels_do_not_change_the_step_of_a_training() -> None:
    features, y = batch()
    learned = []
    for filler in (0.0, 1.0):
        model, label = build(), sections().label
        compile_model(model, label, TrainConfig(), 1)
        masked = y.copy()
        masked[3::4] = np.nan  # rows without any label
        given = {
            name: np.where(np.arange(ROWS) % 4 == 3, filler, one).astype(one.dtype) for name, one in features.items()
        }
        model.train_on_batch(given, masked)
        learned.append(np.concatenate([one.numpy().ravel() for one in model.trainable_variables]))
    assert np.isfinite(learned).all()
    np.testing.assert_allclose(learned[0], learned[1], atol=1e-7)


def test_the_scale_follows_the_labels_behind_masked_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "SCALE_BATCHES", 2)
    model, (features, y), label = build(), batch(), sections().label
    y[:21, 0] = np.nan  # the first three of six batches
    adapt_scale(model, split(features, y), label)
    expected = np.nanvar(y[21:35, 0].astype(np.float64))
    assert label_variances(model, label)["price"] == pytest.approx(expected, rel=1e-4)


def test_a_task_without_any_label_leaves_its_head_as_it_is() -> None:
    model, (features, y), label = build(), batch(), sections().label
    y[:, 0] = np.nan
    before = np.asarray(model(features))
    adapt_scale(model, split(features, y), label)
    assert label_variances(model, label) == {"price": 1.0}
    np.testing.assert_array_equal(model(features), before)


def test_the_diagnosis_of_a_distributed_training_repeats_it_with_the_same_scales() -> None:
    features, y = batch()
    inputs: Any = SimpleNamespace(train=split(features, y), eval=split(features, y))
    job: Any = SimpleNamespace(sections=sections(), transformed=None)
    error: Any = SimpleNamespace(diagnosed=lambda model, *_: model)
    model: Any = training._diagnose(error, job, inputs, lambda _: inputs.train.dataset)
    expected = {"price": pytest.approx(np.nanvar(y[:, 0].astype(np.float64)), rel=1e-4)}
    assert model.loss._variances == label_variances(model, sections().label) == expected


def test_a_constant_task_leaves_the_others_to_learn() -> None:
    rng = np.random.default_rng(1)
    amount = rng.normal(size=400).astype("float32")
    label = {"kind": "multitask", "tasks": {"price": {"kind": "regression"}, "sold": {"kind": "binary"}}}
    y = np.stack([np.full(400, 7.0), amount > 0], axis=1).astype("float32")
    features = {"amount": amount, "hour": rng.integers(0, 24, 400)}
    model, config = build(label=label), sections(label=label).label
    adapt_scale(model, split(features, y), config)
    compile_model(model, config, TrainConfig.model_validate({"learning_rate": 0.02}), 1)
    model.fit(tf.data.Dataset.from_tensor_slices((features, y)).batch(32), epochs=8, verbose=0)
    p = np.asarray(model(features))
    assert sklearn.metrics.roc_auc_score(y[:, 1], p[:, 1]) > 0.95
    assert p[:, 0] == pytest.approx(7, abs=0.1)


def test_a_confident_wrong_class_still_has_a_gradient() -> None:
    """The loss is computed from logits: a probability that rounds to 0 or 1 does not end the learning."""
    label = {"kind": "multitask", "tasks": {"sold": {"kind": "binary"}, "won": {"kind": "binary"}}}
    model, config = build("linear", label), sections("linear", label).label
    model.get_layer("logits").set_weights([np.full((1, 2), 60.0), np.zeros(2)])
    features = {"amount": np.ones(2, np.float32), "hour": np.zeros(2, np.int64)}
    with tf.GradientTape() as tape:
        value = loss(config, "none", model)(np.zeros((2, 2), np.float32), model(features))
    assert np.asarray(value) == pytest.approx([120, 120], rel=0.01)
    (gradient,) = tape.gradient(value, [model.get_layer("logits").kernel])
    assert np.abs(gradient).min() > 1


def test_transformed_labels_are_joined_with_nan_where_a_row_may_lack_them() -> None:
    label = LabelConfig.model_validate_json(json.dumps(LABEL))
    raw = {
        "price": tf.constant([1.5, np.nan, 3.0]),
        "sold": tf.constant([1, 0, tf.int64.min], tf.int64),
        "grade": tf.constant(["c", "b", "a"]),
        "tags": tf.sparse.from_dense([["x", "y"], ["", ""], ["y", ""]]),
    }
    transformed = {part.key: transform_label(part, Batch(raw, {})) for part in label.parts.values()}
    found = joined_labels(label, {**transformed, "amount": tf.zeros(3)})
    nan = np.nan
    np.testing.assert_array_equal(found, [[1.5, 1, 2, 1, 1], [nan, 0, 1, nan, nan], [3, nan, 0, 0, 1]])
    np.testing.assert_array_equal(label_check(label)(found), found)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, np.inf, "label 'price': it is missing or infinite in 1 of 2"),
        (1, -1.0, "label 'sold': it is missing or not one of its classes (0, 1) in 1 of 2"),
        (2, 3.0, "label 'grade': it is missing or not one of its classes (a, b, c) in 1 of 2"),
        (4, 0.5, "label 'tags': it is missing or not one of its classes (x, y)"),
    ],
)
def test_an_invalid_label_is_reported_with_its_task(place: int, value: float, message: str) -> None:
    label = LabelConfig.model_validate_json(json.dumps(LABEL))
    y = np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], np.float32)
    y[1, place] = value
    with pytest.raises(TrainingError) as caught, explain_label_errors(label):
        label_check(label)(tf.constant(y))
    assert message in str(caught.value)
