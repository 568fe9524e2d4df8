"""Metrics of yes-or-no decisions at a decision threshold, and at the best one for a target of another metric."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.components.evaluation.limits import Proportion, f1_of
from headrace.components.evaluation.metrics.accumulator import Array, Totals
from headrace.configs.schema.metrics import AT_TARGET, split_level


def decision_metrics(
    true_positives: float, false_positives: float, positives: float, negatives: float
) -> dict[str, float]:
    """The metrics of yes-or-no decisions, by their names in the config."""
    examples = positives + negatives
    true_negatives, missed = negatives - false_positives, positives - true_positives
    precision = ratio(true_positives, true_positives + false_positives)
    recall, specificity = ratio(true_positives, positives), ratio(true_negatives, negatives)
    # Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme", 1975
    product = (true_positives + false_positives) * positives * negatives * (true_negatives + missed)
    agreement = true_positives * true_negatives - false_positives * missed
    return {
        "binary_accuracy": ratio(true_positives + true_negatives, examples),
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": precision,
        "recall": recall,
        "specificity": specificity,
        "f1": ratio(2 * true_positives, 2 * true_positives + false_positives + missed),
        "matthews_correlation": ratio(agreement, float(np.sqrt(product))),
        "false_positive_rate": ratio(false_positives, negatives),
        "false_negative_rate": ratio(missed, positives),
        "negative_predictive_value": ratio(true_negatives, true_negatives + missed),
        "predicted_positive_rate": ratio(true_positives + false_positives, examples),
    }


def decision_proportions(totals: Totals, above: float, either: float) -> dict[str, tuple[Proportion, ...]]:
    """The shares that metrics of decisions are made of.

    above: the weight of the examples that are predicted to be positive; either: of those that are, or are predicted to.
    """
    examples, positives = totals.sums[:2]
    trials = [*map(totals.trials, (examples, positives, examples - positives, above, examples - above, either))]
    every, positive, negative, predicted, rest, either_way = map(Proportion, trials)
    return {
        "binary_accuracy": (every,),
        "predicted_positive_rate": (every,),
        "balanced_accuracy": (positive, negative),
        "precision": (predicted,),
        "negative_predictive_value": (rest,),
        "recall": (positive,),
        "false_negative_rate": (positive,),
        "specificity": (negative,),
        "false_positive_rate": (negative,),
        "f1": (either_way._replace(transform=f1_of),),
    }


def at_level(name: str, totals: Totals, decisions: Mapping[float, Mapping[str, float]]) -> float:
    """A metric with a level. decisions: the metrics of decisions by decision threshold."""
    base, level = split_level(name)
    assert level is not None  # noqa: S101 - of the caller
    return _at_target(base, level, totals.counts) if base in AT_TARGET else decisions[level][base]


def _at_target(base: str, target: float, counts: Array) -> float:
    """The metric at the best decision threshold at which the other one in AT_TARGET is at least `target`, or for the
    false positive rate at most. 0 if there is none, as in Keras and TFMA.
    """
    negatives, positives = counts[::-1].T  # from the highest predictions down
    if not (negatives.sum() and positives.sum()):
        return float("nan")
    true = np.concatenate([[0], np.cumsum(positives)])  # also for a threshold that no prediction reaches
    false = np.concatenate([[0], np.cumsum(negatives)])
    recall, false_positive_rate = true / true[-1], false / false[-1]
    precision = np.divide(true, true + false, out=np.zeros_like(recall), where=true + false > 0)
    rates = {
        "recall": recall,
        "precision": precision,
        "sensitivity": recall,
        "specificity": 1 - false_positive_rate,
        "false_positive_rate": false_positive_rate,
    }
    bounded, wanted = rates[AT_TARGET[base]], rates[base.partition("_at_")[0]]
    rounding = 1e-12  # so that 9 of 10 are at least 0.9
    at_most = AT_TARGET[base] == "false_positive_rate"
    met = bounded <= target + rounding if at_most else bounded >= target - rounding
    return float(wanted[met].max(initial=0.0))


def ratio(numerator: float, denominator: float) -> float:
    """NaN without a denominator."""
    return float(numerator / denominator) if denominator else float("nan")
