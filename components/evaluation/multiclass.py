"""Metrics for several classes, from a probability for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.binary import EPSILON
from headrace.components.evaluation.tally import Array, Measure, Tally


class Multiclass(Measure):
    """A prediction is right if its most probable class is the label."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return labels >= 0

    def sums(self, labels: Array, predictions: Array) -> Array:
        ids = labels.astype(np.int64)
        probability = predictions[np.arange(len(ids)), ids]
        loss = -np.log(np.clip(probability, EPSILON, 1 - EPSILON))
        right = np.where(np.isfinite(probability), predictions.argmax(axis=1) == ids, np.nan)
        return np.stack([np.ones(len(ids)), right, loss], axis=1)

    def metrics(self, tally: Tally) -> dict[str, float]:
        examples, right, loss = tally.sums
        return {"accuracy": float(right / examples), "crossentropy": float(loss / examples)}
