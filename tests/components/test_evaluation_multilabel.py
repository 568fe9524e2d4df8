"""Metrics of labels with several classes, against scikit-learn on whole arrays."""

import itertools
import warnings

import numpy as np
import pytest
import sklearn.metrics
from evaluation_totals import Array, totals_of

from headrace.components.evaluation.metrics import LABEL_METRICS, metrics_of
from headrace.components.evaluation.metrics.accumulator import FOLDS, ExampleGroups
from headrace.components.evaluation.metrics.areas import BUDGET
from headrace.components.evaluation.metrics.multilabel import MultilabelMetrics
from headrace.configs.schema.metrics import DECISION_METRICS, METRICS

CLASSES = 5


def made(rows: int = 3000) -> tuple[Array, Array]:
    """Labels of rare and of frequent classes, and probabilities that follow them more or less."""
    random = np.random.default_rng(4)
    shares = np.array([0.02, 0.2, 0.5, 0.9, 0.3])
    labels = (random.random((rows, CLASSES)) < shares).astype(float)
    odds = np.log(shares / (1 - shares)) + 2 * (labels - shares) + random.normal(size=labels.shape)
    return labels, 1 / (1 + np.exp(-odds))


def by_scikit_learn(labels: Array, p: Array, threshold: float, weights: Array) -> dict[str, float]:
    chosen, given = p > threshold, {"sample_weight": weights}
    averages = {
        f"{average}_{name}": function(labels, chosen, average=average, zero_division=0, **given)
        for average in ("macro", "micro")
        for name, function in (
            ("f1", sklearn.metrics.f1_score),
            ("precision", sklearn.metrics.precision_score),
            ("recall", sklearn.metrics.recall_score),
        )
    }
    return averages | {
        "subset_accuracy": sklearn.metrics.accuracy_score(labels, chosen, **given),
        "hamming_loss": sklearn.metrics.hamming_loss(labels, chosen, **given),
        "binary_crossentropy": sklearn.metrics.log_loss(
            labels.ravel(), p.ravel(), sample_weight=np.repeat(weights, labels.shape[1])
        ),
    }


def areas_by_scikit_learn(labels: Array, p: Array, weights: Array) -> dict[str, float]:
    return {
        f"{average}_auc": sklearn.metrics.roc_auc_score(labels, p, average=average, sample_weight=weights)
        for average in ("macro", "micro")
    }


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.95])
def test_all_metrics_equal_scikit_learn_with_weights_in_all_folds_but_one(threshold: float) -> None:
    labels, p = made()
    random = np.random.default_rng(5)
    weights, folds = random.choice([0.5, 1, 2], len(labels)), random.integers(0, FOLDS, len(labels))
    metrics = MultilabelMetrics(threshold)
    groups = random.integers(0, 2, len(labels))
    accumulators = metrics.accumulate(ExampleGroups(labels, p, groups, 2, weights, folds))
    for group, fold in itertools.product((0, 1), (None, 7)):
        rows = (groups == group) & (folds != fold)
        found = metrics.metrics(accumulators[group].total(without=fold))
        chosen = labels[rows], p[rows]
        assert found.keys() == METRICS["multilabel"].keys()
        exact = by_scikit_learn(*chosen, threshold, weights[rows])
        assert {name: found[name] for name in exact} == pytest.approx(exact)
        areas = areas_by_scikit_learn(*chosen, weights[rows])
        assert {name: found[name] for name in areas} == pytest.approx(areas, abs=2e-5)


@pytest.mark.parametrize(("classes", "near"), [(40, 2e-5), (1000, 2e-4)])
def test_many_classes_share_their_buckets(classes: int, near: float) -> None:
    """Whatever the number of classes, their histograms take no more memory than those of 32."""
    random = np.random.default_rng(8)
    odds = random.normal(size=(1500, classes))
    p = 1 / (1 + np.exp(-odds))
    labels = (random.random(p.shape) < p).astype(float)
    metrics = MultilabelMetrics()
    (accumulator,) = metrics.accumulate(ExampleGroups(labels, p, np.zeros(1500, np.int64), 1, np.ones(1500)))
    found = metrics.metrics(accumulator.total())
    areas = areas_by_scikit_learn(labels, p, np.ones(1500))
    assert {name: found[name] for name in areas} == pytest.approx(areas, abs=near)
    assert len(accumulator.histogram.buckets) < BUDGET * np.ptp(odds)


def test_metrics_at_thresholds_of_their_own_are_those_of_that_threshold() -> None:
    labels, p = made(900)
    random, zeros = np.random.default_rng(6), np.zeros(900, np.int64)
    weights, folds = random.choice([0.5, 1, 2], 900), random.integers(0, FOLDS, 900)
    names = [f"{name}@{threshold}" for name in sorted(DECISION_METRICS["multilabel"]) for threshold in (0.1, 0.8)]
    metrics = metrics_of("multilabel", 0.5, names)
    (accumulator,) = metrics.accumulate(ExampleGroups(labels, p, zeros, 1, weights, folds))
    for fold in (None, 7):
        rows = folds != fold
        found = metrics.metrics(accumulator.total(without=fold))
        assert found.keys() == {*METRICS["multilabel"], *names}
        for threshold, end in ((0.1, "@0.1"), (0.5, ""), (0.8, "@0.8")):
            expected = by_scikit_learn(labels[rows], p[rows], threshold, weights[rows])
            of_decisions = {name: value for name, value in expected.items() if name in DECISION_METRICS["multilabel"]}
            assert {name: found[f"{name}{end}"] for name in of_decisions} == pytest.approx(of_decisions)
    assert len(metrics.classes(accumulator.total())) == CLASSES


def test_parts_of_the_data_add_up_to_the_same() -> None:
    labels, p = made(800)
    whole, parts = (totals_of("multilabel", labels, p, number) for number in (1, 5))
    found = LABEL_METRICS["multilabel"]
    assert found.metrics(parts) == pytest.approx(found.metrics(whole))
    assert found.classes(parts) == found.classes(whole)


def test_each_class_has_metrics_of_its_own() -> None:
    labels, p = made()
    labels[:, 2] = 1  # as all examples belong to it, there is no AUC
    classes = LABEL_METRICS["multilabel"].classes(totals_of("multilabel", labels, p, 3))
    assert [one.number for one in classes] == [*range(CLASSES)]
    assert [one.share for one in classes] == pytest.approx(labels.mean(axis=0))
    each = sklearn.metrics.precision_recall_fscore_support(labels, p > 0.5, zero_division=0)
    found = [[one.precision for one in classes], [one.recall for one in classes], [one.f1 for one in classes]]
    np.testing.assert_allclose(found, each[:3])
    areas = [None if k == 2 else sklearn.metrics.roc_auc_score(labels[:, k], p[:, k]) for k in range(CLASSES)]
    assert classes[2].auc is None
    assert [one.auc for one in classes] == [area if area is None else pytest.approx(area, abs=2e-5) for area in areas]
    macro = LABEL_METRICS["multilabel"].metrics(totals_of("multilabel", labels, p))["macro_auc"]
    assert macro == pytest.approx(np.mean([area for area in areas if area is not None]), abs=2e-5)


def test_the_best_constant_prediction_is_that_of_scikit_learn_for_the_shares_and_the_best_set() -> None:
    labels, _ = made(700)
    found = LABEL_METRICS["multilabel"].constant(totals_of("multilabel", labels, np.full(labels.shape, 0.3)))
    shares = np.tile(labels.mean(axis=0), (len(labels), 1))
    ones = np.ones(len(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, on ratios without a denominator
        sets = [
            by_scikit_learn(labels, np.tile(np.array(chosen, float), (len(labels), 1)), 0.5, ones)
            for chosen in itertools.product((0, 1), repeat=CLASSES)
        ]
    assert found == pytest.approx(
        {
            **areas_by_scikit_learn(labels, shares, ones),
            "binary_crossentropy": sklearn.metrics.log_loss(labels.ravel(), shares.ravel()),
            "macro_f1": max(one["macro_f1"] for one in sets),
            "micro_f1": max(one["micro_f1"] for one in sets),
            "hamming_loss": min(one["hamming_loss"] for one in sets),
        }
    )


def test_rows_that_are_not_known_in_all_classes_are_not_evaluated() -> None:
    labels = np.array([[0, 1], [-1, -1], [0, np.nan], [1, 1]])
    assert LABEL_METRICS["multilabel"].usable(labels).tolist() == [True, False, False, True]


def test_predictions_that_are_no_numbers_give_no_value() -> None:
    labels, p = made(50)
    p[3, 1] = np.nan
    totals = totals_of("multilabel", labels, p)
    assert np.isnan([*LABEL_METRICS["multilabel"].metrics(totals).values()]).all()
    assert LABEL_METRICS["multilabel"].margin(totals) is None
    assert LABEL_METRICS["multilabel"].classes(totals) == ()
