"""Training in our graphs against training in Keras' own."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from headrace.trainer import executions

ROWS, BATCH = 44, 8
"""Five batches and a half."""


class Counted(keras.metrics.MeanAbsoluteError):
    """Counts the graphs in which its result is computed."""

    graphs = 0

    def result(self) -> Any:
        self.graphs += not tf.executing_eagerly()
        return super().result()


class OwnStep(keras.Model):
    """Returns a log that is no metric."""

    def train_step(self, data: Any) -> dict[str, Any]:
        return {**super().train_step(data), "batch": tf.shape(data[1])[0]}


def built(together: int, kind: type[keras.Model] = keras.Model, *, jit_compile: bool = False) -> keras.Model:
    """A model with random numbers in its steps and metrics of several kinds, always with the same weights."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(8, "relu")(inputs))
    model = kind(inputs, keras.layers.Dense(1, "sigmoid")(hidden))
    metrics = [keras.metrics.AUC(name="auc"), Counted(name="error")]
    model.compile(
        keras.optimizers.Adam(0.05),
        "binary_crossentropy",
        weighted_metrics=metrics,
        steps_per_execution=together,
        jit_compile=jit_compile,
    )
    model.optimizer.build(model.trainable_variables)
    return model


def data() -> tf.data.Dataset:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(ROWS, 3)).astype(np.float32)
    y = (x[:, :1] > 0).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, y, rng.random((ROWS, 1)).astype(np.float32))).batch(BATCH)


def fitted(model: keras.Model) -> tuple[dict[str, list[float]], list[bytes]]:
    """The logs of three epochs with evaluations, and the state after them."""
    history = model.fit(data(), epochs=3, validation_data=data().take(3), verbose=0, shuffle=False).history
    state = [*model.variables, *model.optimizer.variables]
    return history, [np.asarray(variable).tobytes() for variable in state]


@pytest.mark.slow
@pytest.mark.parametrize(("together", "jit"), [(4, False), (64, True)], ids=["4", "64, compiled by XLA"])
def test_epochs_of_shorter_executions_give_the_logs_and_weights_of_keras(together: int, *, jit: bool) -> None:
    keras_own, ours = (built(together, jit_compile=jit) for _ in range(2))
    executions.install(ours)
    found = fitted(ours)
    assert fitted(keras_own) == found
    assert len({*found[0]["loss"]}) == 3  # it learns
    assert [graphs_of_results(model) for model in (keras_own, ours)] == [2, 1]
    batch = next(iter(data()))
    assert ours.train_on_batch(*batch) == keras_own.train_on_batch(*batch)
    assert ours.test_on_batch(*batch) == keras_own.test_on_batch(*batch)


def graphs_of_results(model: keras.Model) -> int:
    """In how many graphs the results of the metrics were computed: of training and of evaluation, or of both."""
    return next(one.graphs for one in model._compile_metrics.metrics if isinstance(one, Counted))


@pytest.mark.slow
def test_a_model_with_a_step_of_its_own_keeps_its_logs() -> None:
    model = built(4, OwnStep)
    executions.install(model)
    assert fitted(model)[0]["batch"] == [ROWS % BATCH] * 3


@pytest.mark.slow
def test_a_step_that_was_given_to_one_model_keeps_its_logs() -> None:
    model = built(4)
    step = model.train_step
    model.train_step = lambda batch: {**step(batch), "batch": tf.shape(batch[1])[0]}
    executions.install(model)
    assert fitted(model)[0]["batch"] == [ROWS % BATCH] * 3


@pytest.mark.slow
def test_a_model_that_is_compiled_again_has_the_metrics_of_the_last_time() -> None:
    keras_own, ours = built(4), built(4)
    executions.install(ours)
    found = []
    for model in (keras_own, ours):
        fitted(model)
        model.compile("sgd", "mse", metrics=["mse"], steps_per_execution=2)
        found += [model.evaluate(data(), verbose=0, return_dict=True), fitted(model)]
    assert found[:2] == found[2:]
    assert found[0]["mse"] != found[0]["loss"]  # which has weights


@pytest.mark.slow
def test_a_model_that_is_compiled_to_run_eagerly_does() -> None:
    model = built(4)
    executions.install(model)
    eager = list[bool]()

    def loss(y: Any, predicted: Any) -> Any:
        eager.append(tf.executing_eagerly())
        return keras.losses.mean_squared_error(y, predicted)

    model.compile("sgd", loss, run_eagerly=True)
    fitted(model)
    assert eager
    assert all(eager)
