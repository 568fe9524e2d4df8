"""Finds the cause of a non-finite loss, the batch and the feature in it, by repeating the training up to it.

The loss is checked once per execution of several steps, when all weights are already spoiled. So the state before is
restored, and the steps are repeated one by one until one is bad. Then each feature of that batch is blanked in turn:
the one without which the loss is finite is the cause.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from headrace.trainer.checkpointing.checkpoints import StateTree, all_finite, optimizer_is_finite
from headrace.trainer.checkpointing.state import restore, values_of
from headrace.trainer.task_losses import TaskLosses
from headrace.trainer.tasks import known

MAX_SECONDS = 120.0
"""Maximum duration of the repetition."""
MAX_STATE_BYTES = 1 << 30
"""Larger states are not kept in memory for this purpose."""

DATA_ADVICE = "Correct these values in the data, or make them missing"
GENERAL_ADVICE = (
    "Lower `train.learning_rate` or set `train.clip`, or look in the statistics for a numeric feature with infinite"
    " values, which must be corrected or made missing, or with extreme ones, which `normalize: z_score` or `log` scale"
)

LabeledBatch = tuple[Any, ...]
"""Features by name, the label, and perhaps the weights of the examples."""


@dataclass(frozen=True)
class Diagnosis:
    """The cause of a non-finite number."""

    batches: int
    """Batches between the restored state and the bad batch."""
    words: str
    """What is wrong with that batch."""
    remedy: str


def replay(
    model: keras.Model,
    state: StateTree,
    batches: Iterable[LabeledBatch],
    clock: Callable[[], float] = time.perf_counter,
) -> Diagnosis | None:
    """Train from a state until a step is bad; None if no step is, or after MAX_SECONDS. Destroys the model's state."""
    restore(model, state)
    began = clock()
    for number, (features, label, *weight) in enumerate(batches):
        before = values_of(model.variables)
        model.reset_metrics()
        loss = float(np.asarray(model.train_on_batch(features, label, *weight, return_dict=True)["loss"]))
        if not (math.isfinite(loss) and _is_good(model)):
            for variable, value in zip(model.variables, before, strict=True):
                variable.assign(value)
            return Diagnosis(number, *diagnose_batch(model, features, label))
        if clock() - began > MAX_SECONDS:
            return None
    return None


def optimizer_variables_finite(model: keras.Model) -> bool:
    """Whether the optimizer's variables are finite.

    An infinite square spoils Adam's next step; where Adagrad divides by one, weights no longer learn, and the loss does
    not show it.
    """
    return optimizer_is_finite(values_of([variable])[0] for variable in model.optimizer.variables)  # one at a time


def _is_good(model: keras.Model) -> bool:
    """Whether the model can continue after a step."""
    return all_finite(values_of(model.trainable_variables)) and optimizer_variables_finite(model)


def first_bad_batch(model: keras.Model, batches: Iterable[LabeledBatch]) -> Diagnosis | None:
    """Find the first batch on which the loss of the model is not finite."""
    for number, (features, label, *_) in enumerate(batches):
        if not math.isfinite(_loss(model, features, label)):
            return Diagnosis(number, *diagnose_batch(model, features, label))
    return None


def diagnose_batch(model: keras.Model, features: dict[str, Any], label: Any) -> tuple[str, str]:
    """Describe what in a batch makes the loss or the gradients non-finite, and the remedy."""
    named = {**{f"feature {name!r}": value for name, value in features.items()}, "the label": _unmasked(model, label)}
    if infinite := [words for name, value in named.items() if (words := _describe_infinite(name, value))]:
        return "; ".join(infinite), DATA_ADVICE
    if finite_without := _finite_without(model, features, label):
        for name in sorted(features, key=lambda name: -_largest(features[name])):
            if not _finite_without(model, {**features, name: _blank(features[name])}, label):
                words = f"feature {name!r} is the cause: {_range(features[name])}; without it {finite_without}"
                return f"{words}{_layer(model, features)}", GENERAL_ADVICE
    weights = [float(np.abs(value).max()) for value in values_of(model.trainable_variables) if value.size]
    largest = f"the largest weight was {max(weights, default=0):.2g}"
    return f"no single feature of that batch is the cause{_layer(model, features)}; {largest}", GENERAL_ADVICE


def _unmasked(model: keras.Model, label: Any) -> Any:
    """The label; of several, those that are not masked."""
    return known(label) if isinstance(model.loss, TaskLosses) else label


def _largest(value: Any) -> float:
    numbers = _numbers(value)
    return float(np.abs(numbers).max()) if numbers.size and numbers.dtype.kind == "f" else 0.0


def _numbers(value: Any) -> np.ndarray:
    """The values in a dense, ragged or sparse tensor."""
    flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
    return np.asarray(flat.values if isinstance(flat, tf.SparseTensor) else flat)


def _describe_infinite(what: str, value: Any) -> str:
    """Describe the non-finite values of a tensor; empty if there are none."""
    numbers = _numbers(value)
    if numbers.dtype.kind != "f" or np.isfinite(numbers).all():
        return ""
    bad = ~np.isfinite(numbers)
    return f"{what} holds {numbers[bad][0]} in {int(bad.sum()):,} of {numbers.size:,} values of that batch"


def _range(value: Any) -> str:
    numbers = _numbers(value)
    if numbers.dtype.kind != "f":
        return f"its categories in that batch are {numbers.min()} to {numbers.max()}"
    median = float(np.median(np.abs(numbers)))
    extreme = numbers.flat[np.abs(numbers).argmax()]
    return f"it reaches {extreme:.3g} in that batch, where half of the values are below {median:.3g}"


def _blank(value: Any) -> Any:
    return tf.zeros_like(value) if not isinstance(value, tf.SparseTensor) else value * 0


def _finite_without(model: keras.Model, features: dict[str, Any], label: Any) -> str:
    """What a model without the cause would have: finite loss, or squares of gradients; empty if they are finite now.

    The squares count because optimizers compute them.
    """
    with tf.GradientTape() as tape:
        loss = model.compute_loss(features, label, model(features, training=False), None, training=False)
    found = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    gradients = [tf.convert_to_tensor(gradient) for gradient in found if gradient is not None]
    if not math.isfinite(float(loss)):
        return "the loss is finite"
    squares = (tf.reduce_sum(tf.square(gradient)) for gradient in gradients)
    is_finite = all(math.isfinite(float(square)) for square in squares)
    return "" if is_finite else "the squares of the gradients are finite"


def _loss(model: keras.Model, features: dict[str, Any], label: Any) -> float:
    predictions = model(features, training=False)
    return float(model.compute_loss(features, label, predictions, None, training=False))


def _layer(model: keras.Model, features: dict[str, Any]) -> str:
    """Name the first layer whose output is not finite, if the model has a list of layers."""
    for layer in itertools.islice(_after_inputs(model), 200):
        try:
            output = keras.Model(model.input, layer.output)(features)
        except (ValueError, TypeError, AttributeError):
            continue
        if any(_describe_infinite("", value) for value in keras.tree.flatten(output)):
            return f" (the first layer with a non-finite output is {layer.name})"
    return ""


def _after_inputs(model: keras.Model) -> Iterator[keras.layers.Layer]:
    return (layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer))
