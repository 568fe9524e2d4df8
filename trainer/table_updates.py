"""How embedding tables are updated: only the rows that a batch looked up, or the whole table.

    tables = TableUpdates.install(model.optimizer, train)
    model.fit(...)
    tables.words    # "rows of table of embeddings_16 (59,200,000 weights)"

TensorFlow represents the gradient of a look-up as a list of rows, in which a category occurs once per example. Keras 3
passes the list on, and an optimizer that squares gradients, such as Adam, then sums the squares of the parts instead of
squaring the sum: how fast a row learns depends on how often it occurs in the batch, and on how the batch is split among
devices. So the rows of a category are summed first.

Keras then updates every weight of the table and of the optimizer's moments, so a step costs as much as the vocabulary
is large. For large tables this module reads, updates and writes only the looked-up rows. With SGD without momentum and
with Adagrad the result is that of the whole table, as a row without a gradient does not change. With Adam and with
momentum, the moments of a row neither decay nor move it in steps that do not look it up ("lazy Adam").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.private_api import optimizer_slots, variable_index

LARGE_TABLE = 1 << 20
"""Number of weights from which `auto` updates a table by rows. There, both ways take about the same time: with 26
categories for each of 2,048 examples, Adam, and 16 weights per category, a step took 35 ms of CPU by rows and 28 ms
with the whole table at 0.96 million weights, 33 and 39 ms at 1.6 million, and 36 and 1,400 ms at 58 million."""


@dataclass(frozen=True)
class TableRows:
    """The rows of a table that a batch looked up."""

    table: int
    """The number of the table among the optimizer's variables."""
    indices: tf.Tensor
    """int [rows], each row once."""

    def read(self, slots: Sequence[Any]) -> tf.Tensor:
        """Read the rows from the optimizer's variables of one kind: [rows, width]."""
        return tf.gather(slots[self.table].value, self.indices)

    def write(self, slots: Sequence[Any], values: tf.Tensor) -> None:
        slots[self.table].value.scatter_update(tf.IndexedSlices(values, self.indices))


RowRule = Callable[[Any, TableRows, tf.Tensor, tf.Tensor], tf.Tensor]
"""The change that an optimizer subtracts from rows, [rows, width], given the optimizer, the rows, their gradients and
the learning rate. Updates the rows of the optimizer's moments."""


def _adam(optimizer: Any, rows: TableRows, gradient: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
    """Adam (Kingma and Ba 2015, arXiv:1412.6980), with Keras' bias correction by the number of all steps."""
    momentums, velocities = optimizer_slots(optimizer, "momentums"), optimizer_slots(optimizer, "velocities")
    step = tf.cast(optimizer.iterations + 1, gradient.dtype)
    momentum, velocity = rows.read(momentums), rows.read(velocities)
    momentum += (gradient - momentum) * (1 - optimizer.beta_1)
    velocity += (tf.square(gradient) - velocity) * (1 - optimizer.beta_2)
    rows.write(momentums, momentum)
    rows.write(velocities, velocity)
    corrected = rate * tf.sqrt(1 - optimizer.beta_2**step) / (1 - optimizer.beta_1**step)
    return corrected * momentum / (tf.sqrt(velocity) + optimizer.epsilon)


def _adagrad(optimizer: Any, rows: TableRows, gradient: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
    """Adagrad (Duchi et al. 2011), as in Keras."""
    accumulators = optimizer_slots(optimizer, "accumulators")
    accumulator = rows.read(accumulators) + tf.square(gradient)
    rows.write(accumulators, accumulator)
    return rate * gradient / tf.sqrt(accumulator + optimizer.epsilon)


def _sgd(optimizer: Any, rows: TableRows, gradient: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
    """Gradient descent, with momentum and Nesterov's form as in Keras."""
    if not optimizer.momentum:
        return rate * gradient
    momentums = optimizer_slots(optimizer, "momentums")
    velocity = rows.read(momentums) * optimizer.momentum - rate * gradient
    rows.write(momentums, velocity)
    return rate * gradient - velocity * optimizer.momentum if optimizer.nesterov else -velocity


RULES: dict[type[keras.optimizers.Optimizer], RowRule] = {
    keras.optimizers.Adam: _adam,
    keras.optimizers.Adagrad: _adagrad,
    keras.optimizers.SGD: _sgd,
}


class TableUpdates:
    """The updates of the tables of one optimizer; `words` describes them once a step has been traced."""

    def __init__(self, optimizer: keras.optimizers.Optimizer, train: TrainConfig) -> None:
        """Raises TrainingError if the config asks for updates by rows, which this optimizer or device does not allow.

        optimizer: not a LossScaleOptimizer.
        """
        self._optimizer = optimizer
        self._whole = whole_tables_because(optimizer, train)
        if self._whole and train.embedding_updates == "rows":
            raise TrainingError(f"train.embedding_updates: rows is not possible: {self._whole}. Use auto")
        self._smallest = {"auto": LARGE_TABLE, "rows": 0}.get(train.embedding_updates, math.inf)
        self._by_rows: dict[int, str] = {}
        self._looked_up: dict[int, tf.Tensor] = {}

    @classmethod
    def install(cls, optimizer: keras.optimizers.Optimizer, train: TrainConfig) -> TableUpdates:
        """Make a new optimizer, or the one inside a LossScaleOptimizer, update tables as `train` says."""
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        tables = cls(inner, train)
        apply, update_step = inner.apply, inner.update_step

        def apply_sums(gradients: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
            variables = trainable_variables or [None] * len(gradients)
            apply([tables.summed(*pair) for pair in zip(gradients, variables, strict=True)], trainable_variables)

        def update_rows(gradient: Any, variable: Any, learning_rate: Any) -> None:
            if (rows := tables.rows(variable)) is None:
                update_step(gradient, variable, learning_rate)
            else:
                tables.update(rows, gradient, variable, learning_rate)

        inner.apply, inner.update_step = apply_sums, update_rows
        return tables

    @property
    def by_rows(self) -> tuple[str, ...]:
        """The tables that are updated by rows, each with its number of weights; none before a step has been traced."""
        return tuple(self._by_rows.values())

    @property
    def words(self) -> str:
        """What was updated by rows, or why nothing was."""
        if self._by_rows:
            return f"rows of {', '.join(self.by_rows)}"
        if self._whole:
            return f"whole tables: {self._whole}"
        if math.isinf(self._smallest):
            return "whole tables: `train.embedding_updates` says so"
        return f"whole tables: none has {LARGE_TABLE:,} weights" if self._smallest else "there is no embedding table"

    def summed(self, gradient: Any, variable: Any) -> Any:
        """Sum the gradients of each row. Return a tensor of the table's shape, or of [rows, width] for `update`."""
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if self._whole or variable is None or math.prod(variable.shape) < self._smallest:
            return tf.convert_to_tensor(gradient)
        table = variable_index(self._optimizer, variable)
        self._by_rows[table] = f"{variable.path} ({math.prod(variable.shape):,} weights)"
        indices, positions = tf.unique(gradient.indices)
        self._looked_up[table] = indices
        return tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(indices))

    def rows(self, variable: Any) -> TableRows | None:
        """The rows that the current step looked up; None if the whole variable is updated."""
        table = variable_index(self._optimizer, variable)
        return TableRows(table, self._looked_up[table]) if table in self._by_rows else None

    def update(self, rows: TableRows, gradient: tf.Tensor, variable: tf.Variable, learning_rate: Any) -> None:
        """Update rows of a table, given their summed (and clipped) gradients [rows, width]."""
        change = RULES[type(self._optimizer)](self._optimizer, rows, gradient, tf.cast(learning_rate, gradient.dtype))
        variable.scatter_sub(tf.IndexedSlices(change, rows.indices))


def whole_tables_because(optimizer: keras.optimizers.Optimizer, train: TrainConfig) -> str | None:
    """The reason why an optimizer must update whole tables; None if it can update rows."""
    if type(optimizer) not in RULES:
        return f"{type(optimizer).__name__} has no update by rows; adam, adagrad and sgd have"
    if optimizer.weight_decay or optimizer.use_ema or getattr(optimizer, "amsgrad", False):
        return "weight_decay, use_ema and amsgrad concern all weights in each step"
    if train.gradient_accumulation > 1:
        return "accumulated gradients are those of whole tables"
    if train.jit == "on":
        return "XLA compiles fixed shapes, and the number of rows in a batch varies"
    if tf.distribute.has_strategy() and tf.distribute.get_strategy().num_replicas_in_sync > 1:
        return "several devices sum gradients of fixed shapes"
    return None
