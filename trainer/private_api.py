"""All uses of private APIs of TensorFlow and Keras, where the public ones offer no way.

They may change with any version; a test fails for versions other than the ones they were written for.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from tensorflow.python.eager import context, execute
from tensorflow.python.eager.cancellation import CancellationManager
from tensorflow.python.trackable.autotrackable import AutoTrackable

__all__ = [
    "TESTED_VERSIONS",
    "AutoTrackable",
    "CancellationManager",
    "add_function",
    "build",
    "call_flat",
    "call_function",
    "disable_gradient_reduction",
    "ensure_global_seeds",
    "global_seeds",
    "keep_functions",
    "moving_averages",
    "optimizer_slots",
    "remove_function",
    "variable_index",
]

TESTED_VERSIONS = {"tensorflow": "2.21", "keras": "3.15"}
_SEEDS = "global_seed_generator"


def moving_averages(optimizer: keras.optimizers.Optimizer) -> list[Any]:
    """The variables that hold the moving averages of the weights, in the order of the weights."""
    return list(optimizer._model_variables_moving_average)


def optimizer_slots(optimizer: keras.optimizers.Optimizer, name: str) -> list[Any]:
    """The variables of one kind that an optimizer has for each weight: "momentums" of Adam, for example."""
    public = getattr(optimizer, name, None)
    return getattr(optimizer, f"_{name}") if public is None else public


def variable_index(optimizer: keras.optimizers.Optimizer, variable: Any) -> int:
    """The position of a weight among those that the optimizer was built for."""
    return optimizer._get_variable_index(variable)


def disable_gradient_reduction(optimizer: keras.optimizers.Optimizer) -> None:
    """Keep an optimizer from summing the gradients of the replicas, which Keras does after clipping them."""
    optimizer._all_reduce_sum_gradients = list


def build(model: keras.Model, batch: Any) -> None:
    """Create the variables of a compiled model's metrics, which Keras does in the first step."""
    model._symbolic_build(data_batch=batch)


def call_flat(function: Any, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Call a function that `WrappedFunction.prune` returned with its inputs in order.

    A call tries the arguments as structures first, which always fails here, and writes them into the error that it then
    drops: for up to a thousand strings this takes time by the square of their number.
    """
    return list(function._call_with_flat_signature(tensors, {}))


def global_seeds() -> keras.random.SeedGenerator | None:
    """The generator for layers without one of their own; None before the first random number."""
    return global_state.get_global_attribute(_SEEDS)


def ensure_global_seeds() -> keras.random.SeedGenerator:
    """The same generator, created if necessary."""
    seeds = global_seeds()
    if seeds is None:
        seeds = keras.random.SeedGenerator(seed=0, name=_SEEDS)
        global_state.set_global_attribute(_SEEDS, seeds)
    return seeds


def add_function(function: Any) -> None:
    """Add a FunctionDef to TensorFlow's runtime, where functions call it by its name."""
    context.context().add_function_def(function)


def call_function(name: str, tensors: Sequence[tf.Tensor], outputs: int, config: Any) -> list[tf.Tensor]:
    """Call a function of TensorFlow's runtime with its inputs in order, eagerly. config: a ConfigProto.

    The public operation that calls functions makes one more around each, which stays when the function is removed.
    """
    attributes = ("executor_type", "", "config_proto", config.SerializeToString())
    return list(execute.execute(name, outputs, [*tensors], attributes, context.context()))


def remove_function(name: str) -> None:
    """Remove a function that `add_function` added."""
    context.context().remove_function(name)


def keep_functions(table: Any) -> None:
    """Let a table that was loaded be saved with the three functions that it was loaded with.

    TensorFlow would write each of them within two others, which every loader then has to load.
    """
    loaded = {name: getattr(table, name) for name in ("_create_resource", "_initialize", "_destroy_resource")}
    if not all(len(getattr(function, "concrete_functions", ())) == 1 for function in loaded.values()):
        return  # it was made here
    for function in loaded.values():
        (concrete,) = function.concrete_functions
        function.get_concrete_function = functools.partial(_same, concrete)
    children = table._trackable_children
    table._trackable_children = lambda *args, **kwargs: {**children(*args, **kwargs), **loaded}


def _same(concrete: Any) -> Any:
    return concrete
