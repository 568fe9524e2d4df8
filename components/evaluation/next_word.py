"""Metrics for the word after a text, from a probability for each word and a last one for all unknown words."""

from __future__ import annotations

import numpy as np
from tensorflow_model_analysis.metrics import metric_types

from headrace.components.evaluation.binary import EPSILON
from headrace.components.evaluation.multiclass import Multiclass
from headrace.components.evaluation.tally import Array, Tally
from headrace.configs.evaluate import METRICS

TOP = 5


def _known_to_tfma(name: str) -> None:
    """A class for the name in an EvalConfig, which TFMA's validation looks up there; the values are those below."""

    def initialize(self: metric_types.Metric, name: str) -> None:
        metric_types.Metric.__init__(self, lambda **_: [], name=name)

    metric_types.register_metric(type(name, (metric_types.Metric,), {"__init__": initialize}))


for _name in METRICS["next_word"].values():
    _known_to_tfma(_name)


class NextWord(Multiclass):
    """A prediction is right if its most probable class is the label's. A label outside the vocabulary counts as not
    told, whatever the model says; its cross-entropy is that of the unknown words together.
    """

    def sums(self, labels: Array, predictions: Array) -> Array:
        ids = labels.astype(np.int64)
        probability = predictions[np.arange(len(ids)), ids]
        loss = -np.log(np.clip(probability, EPSILON, 1 - EPSILON))
        before = np.arange(predictions.shape[1]) < ids[:, None]  # of equally probable words the first, as in argmax
        ahead = (predictions > probability[:, None]) | ((predictions == probability[:, None]) & before)
        place = np.sum(ahead, axis=1)
        known = ids < predictions.shape[1] - 1
        told = [np.where(np.isfinite(probability), known & (place < k), np.nan) for k in (1, TOP)]
        return np.stack([np.ones(len(ids)), *told, loss], axis=1)

    def metrics(self, tally: Tally) -> dict[str, float]:
        examples, right, among, loss = tally.sums
        entropy = loss / examples
        return {
            "accuracy": float(right / examples),
            "top_5_accuracy": float(among / examples),
            "crossentropy": float(entropy),
            "perplexity": float(np.exp(entropy)),
        }
