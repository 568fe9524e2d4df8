"""All that a training goes on from, beside its place in the data: as arrays and JSON, and back.

tree = captured(model)
restored(model, tree)      # the same model in another process trains on as this one would have
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import keras
import numpy as np

from headrace.configs.errors import TrainingError
from headrace.trainer.private_api import global_seeds, made_seeds

Tree = dict[str, Any]
"""Names to JSON values, NumPy arrays, and lists and mappings of them."""
_EARLY_STOPPING = ("wait", "best", "stopped_epoch", "best_epoch")


@runtime_checkable
class Resumable(Protocol):
    """A callback that knows something of the training so far."""

    def state(self) -> Tree | None:
        """What it knows; None if that is nothing."""

    def restore(self, state: Tree) -> None:
        """Know that, after `on_train_begin`."""


def captured(model: keras.Model) -> Tree:
    """Weights and the layers' random states, the optimizer, the metrics of the epoch so far, and Python's, NumPy's and
    Keras' own random states: copies, so that training may go on.
    """
    return {
        "model": copies(model.variables),
        "optimizer": copies(model.optimizer.variables),
        "metrics": copies(model.metrics_variables),
        "random": _random(),
    }


def restored(model: keras.Model, tree: Tree) -> None:
    """Give a compiled and built model what `captured` took, but for the metrics. Raises TrainingError if it is of
    another model.
    """
    assign(model.variables, tree["model"])
    assign(model.optimizer.variables, tree["optimizer"])
    _restore_random(tree["random"])


def copies(variables: Iterable[Any]) -> list[np.ndarray]:
    """The values of variables. TensorFlow's own method copies once, Keras' three times."""
    return [np.asarray(getattr(variable, "value", variable).numpy()) for variable in variables]


def assign(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """The opposite. Raises TrainingError where shapes differ, which they do in no checkpoint of the same work."""
    if [tuple(variable.shape) for variable in variables] != [value.shape for value in values]:
        raise TrainingError(
            "the checkpoint is of another model: the shapes of its weights differ. Is the model that your own code"
            " builds the same each time? Remove the pipeline's folder `checkpoints` to train anew"
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def of_callbacks(callbacks: Iterable[keras.callbacks.Callback]) -> Tree:
    """What the callbacks know, by the names of their classes."""
    return {type(one).__name__: state for one in callbacks if (state := _state(one)) is not None}


def restore_callbacks(callbacks: Iterable[keras.callbacks.Callback], tree: Tree) -> None:
    """Give it back to callbacks of the same classes."""
    for one in callbacks:
        state = tree.get(type(one).__name__)
        if state is not None and isinstance(one, Resumable):
            one.restore(state)
        elif state is not None:
            vars(one).update(state)


def _state(callback: keras.callbacks.Callback) -> Tree | None:
    if isinstance(callback, keras.callbacks.EarlyStopping):
        known = {name: getattr(callback, name) for name in _EARLY_STOPPING}
        return {name: value if value is None else float(value) for name, value in known.items()}
    return callback.state() if isinstance(callback, Resumable) else None


def _random() -> Tree:
    seeds = global_seeds()
    name, keys, *rest = np.random.get_state(legacy=True)  # what keras.utils.set_random_seed sets
    return {
        "python": list(random.getstate()),
        "numpy": [name, np.asarray(keys), *rest],
        "keras": None if seeds is None else copies([seeds.state])[0],
    }


def _restore_random(tree: Tree) -> None:
    version, numbers, last = tree["python"]
    random.setstate((version, tuple(numbers), last))
    np.random.set_state(tuple(tree["numpy"]))
    if tree["keras"] is not None:
        made_seeds().state.assign(tree["keras"])
