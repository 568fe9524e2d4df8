"""Intervals of metrics that are 1 or 0, against SciPy's exact ones and repeated test splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

from headrace.components.evaluation.intervals import folds_of
from headrace.components.evaluation.limits import Proportion, at_limits, f1_of
from headrace.components.evaluation.measured import measure
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import ExampleGroups
from headrace.components.evaluation.tfma import eval_config, measured_names
from headrace.components.evaluation.verdict import Requirements, conclude
from headrace.configs.schema.evaluate import EvaluateConfig, Threshold
from headrace.configs.schema.label import LabelConfig

BINARY = LabelConfig(key="y", kind="binary")
ALL = Requirements(better_than_constant=False)


def exact(successes: int, trials: int) -> tuple[float, float]:
    found = scipy.stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    return found.low, found.high


def judged(label: LabelConfig, evaluate: EvaluateConfig, labels: Any, p: Any, weights: Any = None) -> Any:
    """The evaluation of a split whose examples are these."""
    config = eval_config(label, evaluate)
    config.model_specs[0].name = "candidate"
    metrics = metrics_of(label.kind, evaluate.decision_threshold, measured_names(config))
    number = len(labels)
    weights = np.ones(number) if weights is None else weights
    found = metrics.accumulate(ExampleGroups(labels, p, np.zeros(number, np.int64), 1, weights, folds_of(0, number, 1)))
    accumulators: Any = [(("candidate", ()), found[0])]
    confident = tuple(name for name, threshold in evaluate.thresholds.items() if threshold.confident)
    return conclude(accumulators, measure(accumulators, config), config, "test", ALL._replace(confident=confident))


def separated(positives: int, negatives: int) -> tuple[Any, Any]:
    """Labels, and predictions that are right in every respect."""
    labels = np.array([1.0, 0.0]).repeat([positives, negatives])
    return labels, (0.1 + 0.8 * labels + np.linspace(0, 0.05, len(labels)))[:, None]


def perfect_interval(name: str, labels: Any, p: Any) -> tuple[float, float]:
    """The interval of a metric of 1, also over fewer examples than have one."""
    metrics, number = metrics_of("binary", 0.5), len(labels)
    (found,) = metrics.accumulate(ExampleGroups(labels, p, np.zeros(number, np.int64), 1, np.ones(number)))
    return at_limits({name: 1.0}, metrics.proportions(found.total()))[name]


def test_a_perfect_binary_model_has_the_exact_intervals_of_its_trials() -> None:
    names = ("auc", "binary_accuracy", "precision", "recall", "specificity", "f1", "false_positive_rate",
             "false_negative_rate", "negative_predictive_value", "balanced_accuracy", "precision@0.3")  # fmt: skip
    found = judged(BINARY, EvaluateConfig(metrics=names), *separated(60, 140))
    share = exact(60, 60)[0]
    expected = {
        "auc": exact(60, 60),  # as many disjoint pairs
        "binary_accuracy": exact(200, 200),
        "precision": exact(60, 60),
        "precision@0.3": exact(60, 60),
        "recall": exact(60, 60),
        "specificity": exact(140, 140),
        "negative_predictive_value": exact(140, 140),
        "false_positive_rate": exact(0, 140),
        "false_negative_rate": exact(0, 60),
        "f1": (2 * share / (1 + share), 1.0),
    }
    low, high = found.intervals.pop("balanced_accuracy")
    assert (low, high) == (pytest.approx((0.0125 ** (1 / 60) + 0.0125 ** (1 / 140)) / 2), 1.0)
    assert found.intervals.keys() == expected.keys()
    for name, interval in expected.items():
        assert found.intervals[name] == pytest.approx(interval), name


@pytest.mark.parametrize(("positives", "blessed"), [(100, True), (30, False)])
def test_a_perfect_model_meets_a_confident_bound_with_enough_examples_of_both_classes(
    positives: int, blessed: bool
) -> None:
    thresholds = {name: Threshold(min=0.95, confident=True) for name in ("auc", "recall")}
    found = judged(BINARY, EvaluateConfig(thresholds=thresholds), *separated(positives, 300))
    assert found.blessed is blessed
    assert {check.passed for check in found.checks} == {blessed}
    assert found.checks[0].interval == pytest.approx(exact(positives, positives))
    if not blessed:
        assert "confidence interval from 0.8843 to 1" in found.reasons[0]  # 0.025^(1/30)


def test_weights_count_as_so_many_equal_examples() -> None:
    labels, p = separated(100, 100)
    weights = np.tile([0.5, 1.5], 100)
    found = judged(BINARY, EvaluateConfig(metrics=("binary_accuracy", "recall")), labels, p, weights)
    effective = weights.sum() ** 2 / np.sum(weights**2)
    assert effective == 160
    assert found.intervals["binary_accuracy"] == pytest.approx(exact(160, 160))
    assert found.intervals["recall"] == pytest.approx(exact(80, 80))


def test_a_perfect_model_of_several_classes_has_intervals_of_each_class() -> None:
    labels = np.array([0.0, 1, 2]).repeat([20, 80, 100])
    names = ("accuracy", "micro_f1", "macro_recall", "macro_precision", "macro_f1", "weighted_f1", "top_2_accuracy")
    label = LabelConfig(key="y", kind="multiclass", classes=3)
    found = judged(
        label,
        EvaluateConfig(metrics=(*names, "macro_auc", "weighted_auc")),
        labels,
        np.eye(3)[labels.astype(int)] * 0.9 + 0.03,
    )
    each = [(0.025 / 3) ** (1 / number) for number in (20, 80, 100)]
    f1 = [2 * share / (1 + share) for share in each]
    assert {name: low for name, (low, _) in found.intervals.items()} == pytest.approx(
        {
            **dict.fromkeys(("accuracy", "micro_f1", "top_2_accuracy"), exact(200, 200)[0]),
            **dict.fromkeys(("macro_recall", "macro_precision"), np.mean(each)),
            "macro_f1": np.mean(f1),
            "weighted_f1": np.average(f1, weights=(20, 80, 100)),
            "macro_auc": np.mean(each),  # none of the classes has more than half of the examples
            "weighted_auc": np.average(each, weights=(20, 80, 100)),
        }
    )
    assert {high for _, high in found.intervals.values()} == {1.0}


def test_a_perfect_model_of_several_classes_at_once_has_intervals_too() -> None:
    random = np.random.default_rng(3)
    labels = (random.random((300, 3)) < [0.1, 0.5, 0.7]).astype(float)
    label = LabelConfig(key="y", kind="multilabel", classes=3)
    found = judged(label, EvaluateConfig(), labels, 0.1 + 0.8 * labels)
    positives = labels.sum(axis=0)
    each = (0.025 / 3) ** (1 / positives)
    pairs = (0.025 / 3) ** (1 / np.minimum(positives, 300 - positives))
    assert found.intervals["subset_accuracy"] == pytest.approx(exact(300, 300))
    assert found.intervals["hamming_loss"] == pytest.approx(exact(0, 300))
    assert found.intervals["macro_auc"] == pytest.approx((pairs.mean(), 1))
    assert found.intervals["macro_f1"] == pytest.approx(((2 * each / (1 + each)).mean(), 1))
    assert found.intervals["micro_f1"] == pytest.approx((np.average(2 * each / (1 + each), weights=positives), 1))
    assert "micro_auc" not in found.intervals


def test_metrics_that_are_not_at_a_limit_and_few_examples_have_no_such_interval() -> None:
    assert at_limits({"auc": 0.5, "other": 1.0}, {"auc": (Proportion(100),)}) == {}
    assert at_limits({"recall": 1.0}, {"recall": (Proportion(0), Proportion(10, transform=f1_of))})["recall"][0] < 0.5
    few = judged(BINARY, EvaluateConfig(metrics=("auc",)), *separated(20, 19))
    assert few.intervals == {}
    labels = np.eye(3)[np.arange(60) % 3]
    asked = EvaluateConfig(metrics=("subset_accuracy", "macro_recall"))
    several = judged(LabelConfig(key="y", kind="multilabel", classes=3), asked, labels, labels * 0.1)
    assert several.metrics["subset_accuracy"] == several.metrics["macro_recall"] == 0
    assert several.intervals["subset_accuracy"] == pytest.approx(exact(0, 60))
    assert several.intervals["macro_recall"] == pytest.approx((0, 1 - (0.025 / 3) ** (1 / 20)))
    asked = EvaluateConfig(metrics=("micro_precision", "micro_recall"))
    nothing = judged(LabelConfig(key="y", kind="multilabel", classes=3), asked, labels, labels * 0.1)
    assert nothing.metrics["micro_precision"] == 0
    assert nothing.intervals.keys() == {"micro_recall"}
    constant = judged(BINARY, EvaluateConfig(metrics=("auc",)), separated(60, 60)[0], np.full((120, 1), 0.3))
    assert constant.metrics["auc"] == 0.5
    assert constant.intervals == {}


@pytest.mark.parametrize(("positives", "negatives"), [(15, 15), (15, 60), (60, 15)])
def test_a_model_below_the_interval_looks_perfect_at_most_once_in_forty_splits(positives: int, negatives: int) -> None:
    """Of models with the lowest area that the interval holds, whose scores are distributed in two ways."""
    random, number = np.random.default_rng(9), 20_000
    least = perfect_interval("auc", *separated(positives, negatives))[0]
    shift = np.sqrt(2) * scipy.stats.norm.ppf(least)  # of two normal distributions, which gives this area
    low = random.normal(size=(number, negatives))
    normal = random.normal(shift, size=(number, positives))
    below_all = np.where(random.random((number, positives)) < least, 100, -100)  # a share of them
    for high in (normal, below_all):
        perfect = np.mean(high.min(axis=1) > low.max(axis=1))
        assert perfect <= 0.025 + 4 * np.sqrt(0.025 / number)


def test_a_perfect_area_of_precision_and_recall_has_no_interval() -> None:
    names = ("auc", "auc_precision_recall")
    found = judged(BINARY, EvaluateConfig(metrics=names), *separated(60, 140))
    assert found.metrics["auc_precision_recall"] == 1
    assert found.intervals.keys() == {"auc"}
    bound = Threshold(min=0.5, confident=True)
    judged_by_it = judged(BINARY, EvaluateConfig(thresholds={"auc_precision_recall": bound}), *separated(60, 140))
    assert not judged_by_it.blessed
