"""What made a loss that is no number: the batch, and the feature in it, found by training once more up to it.

The loss is seen once for each execution of several steps, when all weights are spoilt already. So the state before is
put back, and the steps are made one by one until one is bad; then the batch is looked at, and each feature in it is
blanked in turn: the one without which the loss is a number is to blame.
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

from headrace.trainer.checkpointing.finite import all_finite, optimizer_finite
from headrace.trainer.checkpointing.state import Tree, copies, restored

MOST_SECONDS = 120.0
"""Steps are made once more for so long, at most."""
MOST_BYTES = 1 << 30
"""A state that is larger is not kept in memory for this."""

MEND = "Mend these values in the data, or make them missing"
TAME = (
    "Lower `train.learning_rate` or set `train.clip`, or look in the statistics for a numeric feature with infinite"
    " values, which have to be mended or made missing, or extreme ones (`normalize: z_score` or `log` tames them)"
)

Batch = tuple[dict[str, Any], Any]


@dataclass(frozen=True)
class Found:
    """What was found out."""

    batches: int
    """Batches that were trained on before the bad one, since the state that was put back."""
    words: str
    """What is wrong with it."""
    way_out: str


def replay(
    model: keras.Model, state: Tree, batches: Iterable[Batch], clock: Callable[[], float] = time.perf_counter
) -> Found | None:
    """Train from `state` on until a step is bad; None if none is, or if it takes too long. The model is spoilt."""
    restored(model, state)
    began = clock()
    for number, (features, label) in enumerate(batches):
        before = copies(model.variables)
        model.reset_metrics()
        loss = float(np.asarray(model.train_on_batch(features, label, return_dict=True)["loss"]))
        if not (math.isfinite(loss) and _good(model)):
            for variable, value in zip(model.variables, before, strict=True):
                variable.assign(value)
            return Found(number, *look_at(model, features, label))
        if clock() - began > MOST_SECONDS:
            return None
    return None


def optimizer_good(model: keras.Model) -> bool:
    """Whether what the optimizer keeps is good. An infinite square spoils Adam's next step; where Adagrad divides by
    one, weights learn no more, and the loss does not tell.
    """
    return optimizer_finite(copies([variable])[0] for variable in model.optimizer.variables)  # one at a time


def _good(model: keras.Model) -> bool:
    """Whether a step has left a model to go on with."""
    return all_finite(copies(model.trainable_variables)) and optimizer_good(model)


def first_bad(model: keras.Model, batches: Iterable[Batch]) -> Found | None:
    """The first batch on which the model as it is has a loss that is no number."""
    for number, (features, label) in enumerate(batches):
        if not math.isfinite(_loss(model, features, label)):
            return Found(number, *look_at(model, features, label))
    return None


def look_at(model: keras.Model, features: dict[str, Any], label: Any) -> tuple[str, str]:
    """What in this batch makes the loss, or the gradients, be no numbers, and the way out."""
    named = {**{f"feature {name!r}": value for name, value in features.items()}, "the label": label}
    if infinite := [words for name, value in named.items() if (words := _infinite(name, value))]:
        return "; ".join(infinite), MEND
    if bad := _bad(model, features, label):
        for name in _suspects(features):
            if not _bad(model, {**features, name: _blank(features[name])}, label):
                told = f"feature {name!r} makes it so: {_range(features[name])}; without it {bad}"
                return f"{told}{_layer(model, features)}", TAME
    weights = [float(np.abs(value).max()) for value in copies(model.trainable_variables) if value.size]
    grown = f"the largest weight was {max(weights, default=0):.2g}"
    return f"no single feature of that batch makes it so{_layer(model, features)}; {grown}", TAME


def _suspects(features: dict[str, Any]) -> list[str]:
    """The features, those with the largest numbers first."""
    return sorted(features, key=lambda name: -_largest(features[name]))


def _largest(value: Any) -> float:
    numbers = _numbers(value)
    return float(np.abs(numbers).max()) if numbers.size and numbers.dtype.kind == "f" else 0.0


def _numbers(value: Any) -> np.ndarray:
    """The values in a dense, ragged or sparse tensor."""
    flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
    return np.asarray(flat.values if isinstance(flat, tf.SparseTensor) else flat)


def _infinite(what: str, value: Any) -> str:
    numbers = _numbers(value)
    if numbers.dtype.kind != "f" or np.isfinite(numbers).all():
        return ""
    bad = ~np.isfinite(numbers)
    return f"{what} holds {numbers[bad][0]} in {int(bad.sum()):,} of {numbers.size:,} values of that batch"


def _range(value: Any) -> str:
    numbers = _numbers(value)
    if numbers.dtype.kind != "f":
        return f"its categories there are {numbers.min()} to {numbers.max()}"
    usual = float(np.median(np.abs(numbers)))
    return f"it reaches {numbers.flat[np.abs(numbers).argmax()]:.3g} in that batch, where half are below {usual:.3g}"


def _blank(value: Any) -> Any:
    return tf.zeros_like(value) if not isinstance(value, tf.SparseTensor) else value * 0


def _bad(model: keras.Model, features: dict[str, Any], label: Any) -> str:
    """What would be so if the loss, the gradients, and the squares that optimizers take of them, were numbers; empty
    if they are.
    """
    with tf.GradientTape() as tape:
        loss = model.compute_loss(features, label, model(features, training=False), None, training=False)
    found = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    gradients = [tf.convert_to_tensor(gradient) for gradient in found if gradient is not None]
    if not math.isfinite(float(loss)):
        return "the loss is a number"
    squares = (tf.reduce_sum(tf.square(gradient)) for gradient in gradients)
    return "" if all(math.isfinite(float(square)) for square in squares) else "the squares of the gradients are numbers"


def _loss(model: keras.Model, features: dict[str, Any], label: Any) -> float:
    predictions = model(features, training=False)
    return float(model.compute_loss(features, label, predictions, None, training=False))


def _layer(model: keras.Model, features: dict[str, Any]) -> str:
    """The first layer whose output is no number, where the model tells its layers."""
    for layer in itertools.islice(_after_inputs(model), 200):
        try:
            output = keras.Model(model.input, layer.output)(features)
        except (ValueError, TypeError, AttributeError):
            continue
        if any(_infinite("", value) for value in keras.tree.flatten(output)):
            return f" (the first layer that gives no numbers is {layer.name})"
    return ""


def _after_inputs(model: keras.Model) -> Iterator[keras.layers.Layer]:
    return (layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer))
