"""Updates of embedding tables by rows, against Keras' updates of whole tables and against NumPy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from trainings import train_alone

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.table_updates import LARGE_TABLE, TableUpdates, whole_tables_because

Make = Callable[[], keras.optimizers.Optimizer]
ROWS, WIDTH = 7, 3
SAME_AS_WHOLE: dict[str, Make] = {
    "sgd": lambda: keras.optimizers.SGD(0.5),
    "sgd, clipped": lambda: keras.optimizers.SGD(0.5, clipnorm=0.7),
    "sgd, clipped together": lambda: keras.optimizers.SGD(0.5, global_clipnorm=0.7),
    "adagrad": lambda: keras.optimizers.Adagrad(0.5),
    "adagrad, clipped": lambda: keras.optimizers.Adagrad(0.5, clipvalue=0.3),
    "adagrad, scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adagrad(0.5), 4.0),
}
"""Optimizers that do not change a row without a gradient."""
LAZY: dict[str, Make] = {
    "adam": lambda: keras.optimizers.Adam(0.1),
    "adam, slow": lambda: keras.optimizers.Adam(0.1, beta_1=0.99, beta_2=0.9, epsilon=0.01),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
}
"""Optimizers whose moments also change rows without a gradient."""


def train(**given: Any) -> TrainConfig:
    return TrainConfig.model_validate_json(json.dumps(given))


def trained(make: Make, updates: str, batches: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """A table and a vector after a step for each batch, whose gradients depend on the looked-up rows and the step."""
    table = keras.Variable(np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH))
    vector = keras.Variable(np.ones(WIDTH, np.float32))
    optimizer = make()
    TableUpdates.install(optimizer, train(embedding_updates=updates))
    optimizer.build([table, vector])
    for number, batch in enumerate(batches):
        with tf.GradientTape() as tape:
            looked_up = tf.gather(table.value, tf.constant(batch))
            loss = tf.reduce_sum(tf.sin(looked_up * (number + 1)) * vector.value)
            loss = optimizer.scale_loss(loss)
        optimizer.apply(tape.gradient(loss, [table.value, vector.value]), [table, vector])
    return table.numpy(), vector.numpy()


BATCHES = [[0, 3, 3], [6], [1, 0, 1, 1], [3, 5], [0, 0]]


@pytest.mark.parametrize("name", SAME_AS_WHOLE)
def test_rows_and_the_whole_table_learn_the_same_where_rows_without_gradients_stay(name: str) -> None:
    for by_rows, whole in zip(*(trained(SAME_AS_WHOLE[name], how, BATCHES) for how in ("rows", "whole")), strict=True):
        np.testing.assert_allclose(by_rows, whole, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", LAZY)
def test_rows_learn_as_in_the_whole_table_while_each_batch_has_all_of_them(name: str) -> None:
    batches = [[*range(ROWS), number % ROWS] for number in range(6)]
    for by_rows, whole in zip(*(trained(LAZY[name], how, batches) for how in ("rows", "whole")), strict=True):
        np.testing.assert_allclose(by_rows, whole, rtol=2e-6, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=9), min_size=1, max_size=6))
def test_adam_updates_the_moments_of_the_rows_of_a_batch_only(batches: list[list[int]]) -> None:
    table = np.linspace(-1, 1, ROWS * WIDTH).reshape(ROWS, WIDTH)
    vector = np.ones(WIDTH)
    first, second = np.zeros_like(table), np.zeros_like(table)
    vector_first, vector_second = np.zeros(WIDTH), np.zeros(WIDTH)
    for step, batch in enumerate(batches, 1):
        scale = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        gradient, vector_gradient = np.zeros_like(table), np.zeros(WIDTH)
        for row in batch:
            gradient[row] += step * np.cos(table[row] * step) * vector
            vector_gradient += np.sin(table[row] * step)
        rows = sorted(set(batch))
        first[rows] = 0.9 * first[rows] + 0.1 * gradient[rows]
        second[rows] = 0.999 * second[rows] + 0.001 * gradient[rows] ** 2
        table[rows] -= scale * first[rows] / (np.sqrt(second[rows]) + 1e-7)
        vector_first = 0.9 * vector_first + 0.1 * vector_gradient
        vector_second = 0.999 * vector_second + 0.001 * vector_gradient**2
        vector -= scale * vector_first / (np.sqrt(vector_second) + 1e-7)
    learned, learned_vector = trained(LAZY["adam"], "rows", batches)
    np.testing.assert_allclose(learned, table, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(learned_vector, vector, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("how", ["rows", "whole"])
def test_gradients_of_a_row_that_occurs_twice_are_added_before_they_are_squared(how: str) -> None:
    table = keras.Variable(np.zeros((3, 2), np.float32))
    optimizer = keras.optimizers.Adagrad(1.0, initial_accumulator_value=0.0)
    TableUpdates.install(optimizer, train(embedding_updates=how))
    optimizer.build([table])
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1, 1]), tf.constant([3, 2]))
    optimizer.apply([rows], [table])
    np.testing.assert_allclose(table.numpy(), [[0, 0], [-1, -1], [0, 0]], atol=1e-5)
    np.testing.assert_allclose(optimizer.variables[-1].numpy(), [[0, 0], [16, 36], [0, 0]])


def test_auto_updates_large_tables_by_rows_and_small_ones_whole() -> None:
    large, small = (keras.Variable(np.zeros((rows, 4), np.float32), name=name)
                    for name, rows in (("large", LARGE_TABLE // 4), ("small", LARGE_TABLE // 4 - 1)))  # fmt: skip
    optimizer = keras.optimizers.Adam()
    tables = TableUpdates.install(optimizer, train())
    optimizer.build([large, small])
    for indices in ([5], [9]):
        gradients = [tf.IndexedSlices(tf.ones([1, 4]), tf.constant(indices), tf.constant(table.shape))
                     for table in (large, small)]  # fmt: skip
        optimizer.apply(gradients, [large, small])
    assert tables.words == f"rows of large ({LARGE_TABLE:,} weights)"
    # In the second step, the momentum of row 5 moves it again, but not if only the rows of the batch are updated.
    assert large.numpy()[5, 0] == pytest.approx(-0.001, rel=1e-4)
    assert small.numpy()[5, 0] < -0.0014


@pytest.mark.parametrize(
    ("optimizer", "given", "reason"),
    [
        (keras.optimizers.RMSprop(), {}, "RMSprop"),
        (keras.optimizers.Adam(weight_decay=0.1), {}, "weight_decay"),
        (keras.optimizers.SGD(use_ema=True), {}, "use_ema"),
        (keras.optimizers.Adam(amsgrad=True), {}, "amsgrad"),
        (keras.optimizers.Adam(), {"gradient_accumulation": 2}, "accumulated"),
        (keras.optimizers.Adam(), {"jit": "on"}, "XLA"),
    ],
)
def test_whole_tables_are_updated_where_rows_would_not_do(
    optimizer: keras.optimizers.Optimizer, given: dict[str, Any], reason: str
) -> None:
    assert reason in str(whole_tables_because(optimizer, train(**given)))
    assert TableUpdates.install(optimizer, train(**given)).words.startswith("whole tables: ")
    with pytest.raises(TrainingError, match=rf"train\.embedding_updates: .*{reason}"):
        TableUpdates.install(optimizer, train(embedding_updates="rows", **given))


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_a_model_learns_by_rows_and_its_record_names_the_tables(prepared: Any, tmp_path: Path, precision: str) -> None:
    given = {"embedding_updates": "rows", "precision": precision, "epochs": 3}
    record = train_alone(prepared("binary").fn_args(tmp_path, **given))
    assert "/table (" in record["chosen"]["embedding_updates"]
    assert max(epoch["metrics"]["val_auc"] for epoch in record["epochs"]) > 0.9
