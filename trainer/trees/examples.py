"""All examples of both splits as arrays, which the growing of trees needs.

examples = load(plan, order, label)      # order: the features as columns of the input
examples.train.inputs                             # float32 [examples, columns]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.inputs import InputPlan
from headrace.trainer.input.memory import CacheKind, estimate_examples, format_bytes, free_memory

READ = 1 << 16
"""Examples that are converted at a time."""
BYTES_PER_NUMBER = 10
"""Memory for a number of an example: twice as float32 while batches are joined, and in up to two bytes as its bin."""
BYTES_PER_CLASS = 32
"""Memory for a class of an example: its gradients, and scores as float64 with those to start from."""


@dataclass(frozen=True)
class Examples:
    """The examples of one split."""

    inputs: NDArray[np.float32]
    """[examples, columns]: numbers, then categories."""
    labels: NDArray[np.float64]
    """[examples]: 0 or 1, class ids, or numbers."""
    weights: NDArray[np.float64] | None
    """[examples], with a mean of 1 unless classes are weighted by numbers; None: all count the same."""

    @property
    def size(self) -> int:
        return len(self.labels)

    def share(self, chosen: NDArray[np.bool_]) -> float:
        """The part of the weight that some examples have."""
        return float(np.average(chosen, weights=self.weights))


@dataclass(frozen=True)
class Loaded:
    """Both splits."""

    train: Examples
    eval: Examples
    words: str
    """How they were read, for the log and the training record."""


def load(plan: InputPlan, order: Sequence[str], label: LabelConfig) -> Loaded:
    """Read both splits: from the cache if other trainings read them too, else once, whatever cache the plan chose.

    Raises ModelError if they do not fit in memory, TrainingError if a split is empty or a file is damaged.
    """
    width = sum(int(np.prod(plan.training.feature_spec[name].shape)) for name in order)
    count = estimate_examples(plan.examples.train + plan.examples.eval)
    needed = check_memory(count, width, label.num_classes, free_memory())
    cache: CacheKind = "none" if plan.training.read is None else plan.training.cache
    once = dataclasses.replace(
        plan.training, cache=cache, shuffle=0, batch_size=READ, steps_per_epoch=None, buckets=None
    )
    plan = dataclasses.replace(plan, training=once)
    train, evaluation = _arrays(plan.open_train(), order), _arrays(plan.open_eval(READ), order)
    words = [f"{train.size:,} examples to learn from and {evaluation.size:,} to evaluate, in memory as arrays"]
    words += [f"about {format_bytes(needed)} with what growing needs"]
    words += [plan.training.weights.words] if plan.training.weights else []
    return Loaded(train, evaluation, "; ".join(words))


def check_memory(examples: int, width: int, classes: int, free: int) -> int:
    """The bytes that growing needs, about. Raises ModelError if that is more than is free.

    width: numbers of an example.
    """
    needed = examples * (width * BYTES_PER_NUMBER + classes * BYTES_PER_CLASS)
    if needed > free:
        raise ModelError(
            f"model.kind: trees needs all examples in memory: about {format_bytes(needed)} for {examples:,} of them"
            f" with {width:,} numbers and categories each, and {format_bytes(free)} are free. Learn from fewer"
            " examples or features, or use a machine with more memory, or another kind of model, which reads in batches"
        )
    return needed


def _arrays(split: InputSplit, order: Sequence[str]) -> Examples:
    inputs, labels, weights = list[Any](), list[Any](), list[Any]()
    for features, label, *weight in split.peek:
        inputs.append(_side_by_side(features, order))
        labels.append(np.asarray(label, np.float64).reshape(-1))
        weights += [np.asarray(one, np.float64) for one in weight]
    joined = inputs[0] if len(inputs) == 1 else np.concatenate(inputs)
    return Examples(joined, np.concatenate(labels), np.concatenate(weights) if weights else None)


def _side_by_side(features: Mapping[str, tf.Tensor], order: Sequence[str]) -> NDArray[np.float32]:
    """As the model's layer `SideBySide`."""
    parts = [np.asarray(features[name], np.float32) for name in order]
    return np.concatenate([part if part.ndim == 2 else part[:, None] for part in parts], axis=1)
