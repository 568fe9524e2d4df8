"""Metrics for labels of any number of classes at once, from the probability of each class.

macro: the mean over the classes; micro: over all pairs of an example and a class; subset: an example counts as correct
if all of its classes are. They are those of scikit-learn, in which a ratio without a denominator is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.limits import Proportion, Proportions, as_it_is, f1_of
from headrace.components.evaluation.metrics.accumulator import Array, LabelMetrics, Margin, Totals
from headrace.components.evaluation.metrics.areas import CLASS_SPAN, FOLD_WIDTH, areas, areas_of_classes, class_buckets
from headrace.components.evaluation.metrics.classification import EPSILON, TOO_WIDE, entropy, wilson_width
from headrace.components.evaluation.result import ClassMetrics
from headrace.configs.schema.metrics import METRICS, split_level, with_level


class Decisions(NamedTuple):
    """Sums over the decisions by one threshold: the weight of examples whose classes are all right, and of wrong
    decisions; for each class, [classes], of the examples for which it is predicted, and for which that is right.
    """

    subsets: float
    wrong: float
    chosen: Array
    true: Array


class ClassSums(NamedTuple):
    """What `MultilabelMetrics.sums` adds up: weight, loss, the weight of the examples in each class, [classes], and the
    decisions by each threshold, the first of which is `decision_threshold`.
    """

    weight: float
    loss: float
    positives: Array
    decisions: tuple[Decisions, ...]


@dataclass(frozen=True)
class MultilabelMetrics(LabelMetrics):
    """Labels and predictions are [n, classes]. A class counts as predicted if its probability is above `threshold`.

    levels: the names of further metrics that have a level, such as `macro_f1@0.3`.
    """

    threshold: float = 0.5
    levels: tuple[str, ...] = ()
    label_rank = 2
    fold_width = FOLD_WIDTH

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return np.all((labels == 0) | (labels == 1), axis=1)

    def losses(self, labels: Array, predictions: Array) -> Array:
        """The mean of the cross-entropies of the classes."""
        clipped = np.clip(predictions, EPSILON, 1 - EPSILON)
        each: Array = -np.where(labels == 1, np.log(clipped), np.log1p(-clipped))
        return each.mean(axis=1)

    @property
    def _thresholds(self) -> list[float]:
        """Those of the metrics in `levels`."""
        return sorted({level for _, level in map(split_level, self.levels) if level is not None})

    def predicted(self, predictions: Array) -> Array:
        return (predictions > self.threshold).astype(np.float64)

    def sums(self, labels: Array, predictions: Array) -> Array:
        """As `ClassSums` has them."""
        columns: list[NDArray[Any]] = [np.ones((len(labels), 1)), self.losses(labels, predictions)[:, None], labels]
        for threshold in (self.threshold, *self._thresholds):
            chosen = predictions > threshold
            wrong = np.sum(chosen != labels, axis=1, keepdims=True)
            columns += [wrong == 0, wrong, chosen, labels * chosen]
        return np.concatenate(columns, axis=1)

    def _class_sums(self, totals: Totals) -> ClassSums:
        thresholds = 1 + len(self._thresholds)
        classes = (len(totals.sums) - 2 - 2 * thresholds) // (1 + 2 * thresholds)
        weight, loss, rest = *totals.sums[:2], totals.sums[2 + classes :].reshape(thresholds, -1)
        each = tuple(Decisions(one[0], one[1], *one[2:].reshape(2, classes)) for one in rest)
        return ClassSums(weight, loss, totals.sums[2 : 2 + classes], each)

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:
        return class_buckets(predictions)

    def metrics(self, totals: Totals) -> dict[str, float]:
        sums = self._class_sums(totals)
        if not np.isfinite(sums.loss):
            return dict.fromkeys((*METRICS["multilabel"], *self.levels), np.nan)
        class_areas = areas_of_classes(totals.buckets, totals.counts, len(sums.positives))
        defined = class_areas[np.isfinite(class_areas)]
        own, *others = (_of_decisions(one, sums) for one in sums.decisions)
        at_thresholds = dict(zip(self._thresholds, others, strict=True))
        return {
            "macro_auc": float(defined.mean()) if len(defined) else np.nan,
            "micro_auc": _micro_auc(totals.buckets % CLASS_SPAN, totals.counts),
            "binary_crossentropy": float(sums.loss / sums.weight),
            **own,
            **{
                name: at_thresholds[level][base] for name in self.levels for base, level in [split_level(name)] if level
            },
        }

    def constant(self, totals: Totals) -> dict[str, float]:
        """Of predicting the share of each class; for F1 and the Hamming loss, of the best fixed set of classes.

        The F1 of a class is highest if it is always predicted, the micro F1 with the most frequent classes.
        """
        sums = self._class_sums(totals)
        weight, positives = float(sums.weight), sums.positives
        entropies = [entropy(np.array([count, weight - count])) for count in positives]
        frequent = np.sort(positives)[::-1]
        always = weight * np.arange(1, len(frequent) + 1)
        pairs = np.stack([weight - positives, positives], axis=1)
        return {
            "macro_auc": 0.5,
            "micro_auc": _micro_auc(np.unique(positives, return_inverse=True)[1], pairs),
            "macro_f1": float(_ratio(2 * positives, positives + weight).mean()),
            "micro_f1": float(_ratio(2 * np.cumsum(frequent), positives.sum() + always).max()),
            "hamming_loss": float(np.minimum(positives, weight - positives).mean() / weight),
            "binary_crossentropy": float(np.mean(entropies)),
        }

    def margin(self, totals: Totals) -> Margin | None:
        """Of the subset accuracy."""
        sums = self._class_sums(totals)
        if not np.isfinite(sums.loss):
            return None
        share = float(sums.decisions[0].subsets / sums.weight)
        return Margin("subset_accuracy", share, wilson_width(share, totals.effective_examples), TOO_WIDE)

    def proportions(self, totals: Totals) -> Proportions:
        """All but the micro AUC's: the pairs of an example are not independent of each other."""
        sums, whole = self._class_sums(totals), (Proportion(totals.effective_examples),)
        positives = sums.positives
        within = np.minimum(positives, sums.weight - positives)
        found: dict[str, Sequence[Proportion]] = {
            "macro_auc": [Proportion(totals.trials(weight)) for weight in within if weight > 0]
        }
        for level, (_, _, chosen, true) in zip([None, *self._thresholds], sums.decisions, strict=True):
            each = {
                "subset_accuracy": whole,
                "hamming_loss": whole,
                **_class_proportions("recall", totals, positives, positives),
                **_class_proportions("precision", totals, chosen, chosen),
                **_class_proportions("f1", totals, positives + chosen - true, positives + chosen, f1_of),
            }
            found |= {name if level is None else with_level(name, level): shares for name, shares in each.items()}
        return found

    def classes(self, totals: Totals) -> tuple[ClassMetrics, ...]:
        if not np.isfinite(totals.sums).all():
            return ()
        sums = self._class_sums(totals)
        positives, (_, _, chosen, true) = sums.positives, sums.decisions[0]
        each = zip(
            positives / sums.weight,
            areas_of_classes(totals.buckets, totals.counts, len(positives)),
            _ratio(true, chosen),
            _ratio(true, positives),
            _ratio(2 * true, positives + chosen),
            strict=True,
        )
        return tuple(
            ClassMetrics(number, float(share), float(area) if np.isfinite(area) else None, *map(float, ratios))
            for number, (share, area, *ratios) in enumerate(each)
        )


def _of_decisions(decisions: Decisions, sums: ClassSums) -> dict[str, float]:
    """The metrics that depend on a threshold, by their names in the config."""
    positives, (subsets, wrong, chosen, true) = sums.positives, decisions
    return {
        "macro_f1": float(_ratio(2 * true, positives + chosen).mean()),
        "micro_f1": float(_ratio(2 * true.sum(), positives.sum() + chosen.sum())),
        "subset_accuracy": float(subsets / sums.weight),
        "hamming_loss": float(wrong / sums.weight / len(positives)),
        "macro_precision": float(_ratio(true, chosen).mean()),
        "macro_recall": float(_ratio(true, positives).mean()),
        "micro_precision": float(_ratio(true.sum(), chosen.sum())),
        "micro_recall": float(_ratio(true.sum(), positives.sum())),
    }


def _class_proportions(
    name: str, totals: Totals, trials: Array, weights: Array, transform: Callable[[float], float] = as_it_is
) -> dict[str, Sequence[Proportion]]:
    """Of the macro and the micro average. trials: the weight of the examples that the share of each class is of."""
    number = [totals.trials(weight) for weight in trials]
    return {
        f"macro_{name}": [Proportion(each, transform=transform) for each in number],
        f"micro_{name}": [Proportion(*each, transform) for each in zip(number, map(float, weights), strict=True)],
    }


def _micro_auc(buckets: NDArray[np.int64], counts: Array) -> float:
    """The area under the ROC curve of all pairs. counts: of the pairs in each of these buckets, as in `Totals`."""
    index = np.unique(buckets, return_inverse=True)[1]
    return areas(np.stack([np.bincount(index, column) for column in counts.T], axis=1).astype(np.float64))[0]


def _ratio(numerator: Array, denominator: Array) -> Array:
    """The ratio of each pair; 0 without a denominator."""
    return np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=np.asarray(denominator) > 0)
