"""Metrics for texts that are written word by word: over all words of the labels, each after the right words before it.

Labels are [n, words]: classes, padded with -1. Predictions are [n, words * 3]: what the signature `score` returns for
each word (see headrace.trainer.writing). The end of a text is a word as well. An example is a text, so intervals and
slices are of texts, while accuracy, cross-entropy and perplexity weigh all words the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.limits import Proportion, Proportions
from headrace.components.evaluation.metrics.accumulator import Array, LabelMetrics, Margin, Totals
from headrace.components.evaluation.metrics.classification import EPSILON, TOO_WIDE, wilson_width
from headrace.components.evaluation.metrics.multiclass import TOP, UNKNOWN_WORD, by_shares

PADDING = -2
"""The bucket of what follows the end of a text."""
OUTPUTS = 3
"""For each word: its probability, how many classes are more probable (-1: it is unknown), and the class of the most
probable word that can be written, which the unknown word is not."""


class TextMetrics(LabelMetrics):
    """accuracy, top_5_accuracy, crossentropy and perplexity are those of a next-word label.

    exact_match is the share of the texts of which every word and the end is the most probable one that can be written,
    so that the model writes exactly them, even where the unknown word is more probable, which it never writes. A text
    with a word outside the vocabulary is never one. Of a longer text than the labels have words, only these count.
    """

    label_rank = 2

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        """Those with a first word: a missing label has none."""
        return labels[:, 0] >= 0

    def losses(self, labels: Array, predictions: Array) -> Array:
        """The mean of the cross-entropies of the words."""
        known = labels >= 0
        each: Array = np.where(known, _losses(predictions), 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        return each

    def predicted(self, predictions: Array) -> Array:
        """The most probable word at each place, in the shape of the labels."""
        return _outputs(predictions)[:, :, 2]

    def sums(self, labels: Array, predictions: Array) -> Array:
        """Texts, words, correct words, words among the five most probable, loss, and exact texts."""
        known, (p, ahead, best) = labels >= 0, np.moveaxis(_outputs(predictions), 2, 0)
        words = known.sum(axis=1)
        finite = np.where(known, np.where(np.isfinite(p), 0, np.nan), 0).sum(axis=1)  # 0, or NaN for a bad text
        correct, in_top = [(known & (ahead >= 0) & (ahead < k)).sum(axis=1) for k in (1, TOP)]
        written = (~known | (best == labels)).all(axis=1)
        loss = np.where(known, _losses(predictions), 0).sum(axis=1)
        return np.stack(
            [np.ones(len(labels)), words, correct + finite, in_top + finite, loss, written + finite], axis=1
        )

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:
        """The words, UNKNOWN_WORD for all others, and PADDING."""
        ids = np.where(_outputs(predictions)[:, :, 1] < 0, UNKNOWN_WORD, labels).astype(np.int64)
        return np.where(labels >= 0, ids, PADDING)

    def metrics(self, totals: Totals) -> dict[str, float]:
        texts, words, correct, in_top, loss, exact = totals.sums
        return {
            "accuracy": float(correct / words),
            "top_5_accuracy": float(in_top / words),
            "crossentropy": float(loss / words),
            "perplexity": float(np.exp(loss / words)),
            "exact_match": float(exact / texts),
        }

    def constant(self, totals: Totals) -> dict[str, float]:
        """Of predicting the shares of the words, whatever the source and the words before."""
        is_word = totals.buckets != PADDING
        counts, buckets = totals.counts.sum(axis=1)[is_word], totals.buckets[is_word]
        return by_shares(counts, buckets)

    def proportions(self, totals: Totals) -> Proportions:
        """Of the exact matches, for the same reason as `margin`."""
        return {"exact_match": (Proportion(totals.effective_examples),)}

    def margin(self, totals: Totals) -> Margin | None:
        """Of the exact matches: words of a text are not independent of each other."""
        texts, exact = totals.sums[0], totals.sums[-1]
        if not np.isfinite(exact):
            return None
        share = float(exact / texts)
        return Margin("exact_match", share, wilson_width(share, totals.effective_examples), TOO_WIDE)


def _outputs(predictions: Array) -> Array:
    """[n, words, OUTPUTS]."""
    return predictions.reshape(len(predictions), -1, OUTPUTS)


def _losses(predictions: Array) -> Array:
    """The cross-entropy of each word, [n, words]."""
    return -np.log(np.clip(_outputs(predictions)[:, :, 0], EPSILON, 1 - EPSILON))
