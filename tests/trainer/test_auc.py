"""The AUC of an epoch with fewer operations, against Keras' own."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.trainer.auc import Auc


def batches(classes: int, seed: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Labels, probabilities and weights; among them 0, 1, the thresholds themselves, and labels that are missing."""
    rng = np.random.default_rng(seed)
    found = []
    for rows in (1, 97, 64):
        p = rng.random((rows, classes)).astype(np.float32)
        steps = np.float32(rng.integers(0, 200, p.shape)) / np.float32(199)
        p = np.where(rng.random(p.shape) < 0.3, steps, p)
        w = rng.exponential(size=rows).astype(np.float32)
        w[rng.random(rows) < 0.2] = 0
        found.append(((rng.random(p.shape) < p).astype(np.float32), p, w))
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("classes", "shape", "dtype"),
    [(1, (-1,), tf.int64), (1, (-1, 1), tf.float32), (5, (-1, 5), tf.int64), (5, (-1, 5), tf.float32)],
)
def test_auc_with_fewer_operations_is_keras_auc(
    classes: int, shape: tuple[int, ...], dtype: tf.DType, weighted: bool
) -> None:
    found = []
    for metric in (Auc(), keras.metrics.AUC()):

        @tf.function(autograph=False, reduce_retracing=True)
        def update(*given: Any, metric: Any = metric) -> None:
            metric.update_state(*given)

        for y, p, w in batches(classes, seed=classes):
            label = np.where(w[:, None] == 0, np.nan, y) if weighted and dtype == tf.float32 else y
            update(tf.cast(label.reshape(shape), dtype), p, *([tf.constant(w)] if weighted else []))
        variables = [np.asarray(variable) for variable in metric.variables]
        assert variables[0].max() > 0
        found.append([*variables, np.asarray(metric.result())])
    for own, of_keras in zip(*found, strict=True):
        np.testing.assert_array_equal(own, of_keras)


@pytest.mark.parametrize("shape", [(97, 5), (97, 1), (97,)])
def test_auc_takes_the_weights_that_keras_takes(shape: tuple[int, ...]) -> None:
    y, p, _ = batches(5, seed=3)[1]
    w = np.random.default_rng(3).exponential(size=shape).astype(np.float32)
    found = []
    for metric in (Auc(), keras.metrics.AUC()):
        metric.update_state(y, p, w)
        found.append([np.asarray(variable) for variable in metric.variables])
    assert found[1][0].max() > 0
    np.testing.assert_array_equal(found[0], found[1])


def test_auc_has_less_than_half_the_operations_of_keras() -> None:
    def operations(metric: Any) -> int:
        function = tf.function(metric.update_state, autograph=False)
        specs = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 1], tf.float32)
        return len(function.get_concrete_function(*specs).graph.get_operations())

    assert operations(Auc()) < operations(keras.metrics.AUC()) / 2


def test_auc_compiled_by_xla_is_the_same() -> None:
    ((y, p, w),) = batches(1, seed=7)[1:2]
    found = []
    for compiled in (False, True):
        metric = Auc()
        tf.function(metric.update_state, autograph=False, jit_compile=compiled)(y, p, w)
        found.append([np.asarray(variable) for variable in metric.variables])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-4)


def test_auc_is_made_again_from_its_config() -> None:
    assert keras.metrics.get(keras.metrics.serialize(Auc("micro_auc"))).name == "micro_auc"
