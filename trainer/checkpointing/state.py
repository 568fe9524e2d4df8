"""The state of a training besides its position in the data: captured as arrays and JSON, and restored.

tree = capture(model)
restore(model, tree)       # the same model in another process continues as this one would have
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import keras
import numpy as np
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer import private_api
from headrace.trainer.checkpointing.checkpoints import StateTree, TrainingPosition
from headrace.trainer.private_api import ensure_global_seeds, global_seeds

_EARLY_STOPPING = ("wait", "best", "stopped_epoch", "best_epoch")


@runtime_checkable
class Resumable(Protocol):
    """A callback with state that a checkpoint saves."""

    def state(self) -> StateTree | None:
        """Return the state; None if there is none."""

    def restore(self, state: StateTree) -> None:
        """Restore the state, after `on_train_begin`."""


def capture(model: keras.Model) -> StateTree:
    """Copy weights, random states of layers, the optimizer, the epoch's metrics, and the global random states.

    The latter are those of Python, NumPy and Keras. Training may continue afterwards.
    """
    return {
        "model": values_of(model.variables),
        "optimizer": values_of(model.optimizer.variables),
        "metrics": values_of(model.metrics_variables),
        "random": _random_states(),
    }


def restore(model: keras.Model, tree: StateTree) -> None:
    """Restore the captured state of a compiled and built model, except for the metrics.

    Raises TrainingError if it is the state of another model.
    """
    assign(model.variables, tree["model"])
    assign(model.optimizer.variables, tree["optimizer"])
    _restore_random_states(tree["random"])


def values_of(variables: Iterable[Any]) -> list[np.ndarray]:
    """Copy the values of variables. TensorFlow's own method copies once, Keras' three times."""
    return [np.asarray(getattr(variable, "value", variable).numpy()) for variable in variables]


def assign(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Set the values of variables. Raises TrainingError if the shapes differ."""
    if [tuple(variable.shape) for variable in variables] != [value.shape for value in values]:
        raise TrainingError(
            "the checkpoint belongs to another model: the shapes of its weights differ. Does your own code build the"
            " same model each time? Remove the pipeline's folder `checkpoints` to train from scratch"
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def callback_states(callbacks: Iterable[keras.callbacks.Callback]) -> StateTree:
    """Return the states of callbacks by the names of their classes."""
    return {type(one).__name__: state for one in callbacks if (state := _callback_state(one)) is not None}


def restore_callbacks(callbacks: Iterable[keras.callbacks.Callback], tree: StateTree) -> None:
    """Restore the states of callbacks of the same classes."""
    for one in callbacks:
        state = tree.get(type(one).__name__)
        if state is not None and isinstance(one, Resumable):
            one.restore(state)
        elif state is not None:
            vars(one).update(state)


def _callback_state(callback: keras.callbacks.Callback) -> StateTree | None:
    if isinstance(callback, keras.callbacks.EarlyStopping):
        known = {name: getattr(callback, name) for name in _EARLY_STOPPING}
        return {name: value if value is None else float(value) for name, value in known.items()}
    return callback.state() if isinstance(callback, Resumable) else None


def _random_states() -> StateTree:
    seeds = global_seeds()
    name, keys, *rest = np.random.get_state(legacy=True)  # what keras.utils.set_random_seed sets
    return {
        "python": list(random.getstate()),
        "numpy": [name, np.asarray(keys), *rest],
        "keras": None if seeds is None else values_of([seeds.state])[0],
    }


def _restore_random_states(tree: StateTree) -> None:
    version, numbers, last = tree["python"]
    random.setstate((version, tuple(numbers), last))
    np.random.set_state(tuple(tree["numpy"]))
    if tree["keras"] is not None:
        ensure_global_seeds().state.assign(tree["keras"])


def skip_executions(model: keras.Model, position: TrainingPosition) -> None:
    """Make the first executions of `fit` do nothing: those of the batches before the position.

    The counts of `fit`, and what callbacks see, are then those of a training without interruption. The data must start
    after these batches.
    """
    model.make_train_function()
    real = model.train_function
    left = -(-position.step // model.steps_per_execution)

    def function(iterator: Any) -> Any:  # noqa: ARG001 - what is skipped is not read
        nonlocal left
        if not left:  # the epoch was finished, and Keras asks for one more batch to find out
            raise StopIteration
        left -= 1
        if not left and not position.evaluating:
            model.train_function = real
        return model.get_metrics_result()

    function.real = real  # type: ignore[attr-defined]
    model.train_function = function


def stop_skipping(model: keras.Model) -> None:
    """Restore the real training function, if the end of the epoch came before that of the skipped executions."""
    model.train_function = getattr(model.train_function, "real", model.train_function)


def build_metrics(model: keras.Model, batches: tf.data.Dataset) -> None:
    """Create the variables of the metrics, which Keras does in the first step, too late to restore them."""
    private_api.build(model, next(iter(batches.take(1))))
