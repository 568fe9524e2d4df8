"""Metrics of decisions, at a threshold, at a level that one metric has to reach, and by class, against scikit-learn."""

import keras
import numpy as np
import pytest
import sklearn.metrics
from evaluation_totals import Array, totals_of

from headrace.components.evaluation.metrics import LABEL_METRICS, metrics_of
from headrace.components.evaluation.metrics.accumulator import FOLDS, ExampleGroups
from headrace.components.evaluation.metrics.binary import BinaryMetrics
from headrace.components.evaluation.metrics.multiclass import MOST_CLASSES


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9])
def test_metrics_of_decisions_equal_scikit_learn_at_any_threshold(threshold: float) -> None:
    random = np.random.default_rng(11)
    labels = (random.random(3000) < 0.3).astype(float)
    p, weights = np.clip(0.3 * labels + random.random(3000) * 0.7, 0, 1), random.choice([0.5, 1, 2], 3000)
    folds = random.integers(0, FOLDS, 3000)
    metrics = BinaryMetrics(threshold)
    (accumulator,) = metrics.accumulate(ExampleGroups(labels, p[:, None], np.zeros(3000, np.int64), 1, weights, folds))
    for fold in (None, 7):
        rows = folds != fold
        found = metrics.metrics(accumulator.total(without=fold))
        given = {"y_true": labels[rows], "y_pred": p[rows] > threshold, "sample_weight": weights[rows]}
        expected = {
            "binary_accuracy": sklearn.metrics.accuracy_score(**given),
            "balanced_accuracy": sklearn.metrics.balanced_accuracy_score(**given),
            "precision": sklearn.metrics.precision_score(**given),
            "recall": sklearn.metrics.recall_score(**given),
            "specificity": sklearn.metrics.recall_score(pos_label=0, **given),
            "f1": sklearn.metrics.f1_score(**given),
            "matthews_correlation": sklearn.metrics.matthews_corrcoef(**given),
            "false_positive_rate": 1 - sklearn.metrics.recall_score(pos_label=0, **given),
            "false_negative_rate": 1 - sklearn.metrics.recall_score(**given),
            "negative_predictive_value": sklearn.metrics.precision_score(pos_label=0, **given),
            "predicted_positive_rate": np.average(p[rows] > threshold, weights=weights[rows]),
            "brier_score": sklearn.metrics.brier_score_loss(labels[rows], p[rows], sample_weight=weights[rows]),
        }
        assert {name: found[name] for name in expected} == pytest.approx(expected)
        confusion = metrics.confusion(accumulator.total(without=fold))
        assert confusion is not None
        np.testing.assert_allclose(confusion.counts, sklearn.metrics.confusion_matrix(**given))
    curves = metrics.curves(accumulator.total())
    assert curves is not None
    for point in curves.decisions:
        given = {"y_true": labels, "y_pred": p > point.threshold, "sample_weight": weights}
        assert point.precision == pytest.approx(sklearn.metrics.precision_score(**given), abs=2e-3)
        assert point.recall == pytest.approx(sklearn.metrics.recall_score(**given), abs=2e-3)
        assert point.f1 == pytest.approx(sklearn.metrics.f1_score(**given), abs=2e-3)
        assert point.share == pytest.approx(np.average(p > point.threshold, weights=weights), abs=2e-3)
    assert len(curves.decisions) > 90


def test_a_threshold_that_the_report_shows_gives_the_metrics_beside_it_if_the_config_sets_it() -> None:
    """Also where many probabilities are equal, and round: 0.5 is not above 0.5."""
    random = np.random.default_rng(12)
    p = random.choice([0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 1.0], 500).astype(np.float32).astype(np.float64)
    labels, weights, zeros = (random.random(500) < p).astype(float), random.choice([0.5, 1, 2], 500), np.zeros(500, int)
    examples = ExampleGroups(labels, p[:, None], zeros, 1, weights)
    curves = BinaryMetrics().curves(BinaryMetrics().accumulate(examples)[0].total())
    assert curves is not None
    assert len(curves.decisions) == 7
    for point in curves.decisions:
        metrics = BinaryMetrics(point.threshold)
        found = metrics.metrics(metrics.accumulate(examples)[0].total())
        assert (point.precision, point.recall, point.f1, point.share) == pytest.approx(
            [found[name] for name in ("precision", "recall", "f1", "predicted_positive_rate")]
        )


THRESHOLDS = (0.05, 0.3, 0.75, 0.999)
DECISION_METRICS = ("precision", "recall", "f1", "specificity", "binary_accuracy", "predicted_positive_rate")
TARGETS = ("precision_at_recall", "recall_at_precision", "recall_at_false_positive_rate", "sensitivity_at_specificity",
           "specificity_at_sensitivity")  # fmt: skip


def test_metrics_at_levels_equal_a_search_over_all_thresholds_without_a_fold_too() -> None:
    random = np.random.default_rng(21)
    labels = (random.random(900) < 0.3).astype(float)
    p, weights = np.clip(0.3 * labels + random.random(900) * 0.7, 0, 1), random.choice([0.5, 1, 2], 900)
    folds = random.integers(0, FOLDS, 900)
    names = [f"{name}@{threshold}" for name in DECISION_METRICS for threshold in THRESHOLDS]
    metrics = metrics_of(
        "binary", 0.5, (*names, *(f"{name}@{level}" for name in TARGETS for level in (0.05, 0.4, 0.9)))
    )
    (accumulator,) = metrics.accumulate(ExampleGroups(labels, p[:, None], np.zeros(900, np.int64), 1, weights, folds))
    for fold in (None, 3):
        rows = folds != fold
        found = metrics.metrics(accumulator.total(without=fold))
        for threshold in THRESHOLDS:
            own = BinaryMetrics(threshold).accumulate(
                ExampleGroups(labels[rows], p[rows, None], np.zeros(rows.sum(), np.int64), 1, weights[rows])
            )
            expected = BinaryMetrics(threshold).metrics(own[0].total())
            at = {name: found[f"{name}@{threshold}"] for name in DECISION_METRICS}
            assert at == pytest.approx({name: expected[name] for name in DECISION_METRICS}, nan_ok=True)
        for level in (0.05, 0.4, 0.9):
            best = _best(labels[rows], p[rows], weights[rows], level)
            assert {name: found[f"{name}@{level}"] for name in TARGETS} == pytest.approx(best, abs=4e-3)


def _best(labels: Array, p: Array, weights: Array, level: float) -> dict[str, float]:
    """What is reached by the best of all thresholds, tried one after the other."""
    tried = []
    for threshold in [*np.unique(p), 2.0]:
        true, false = ((p >= threshold) * (labels == label) @ weights for label in (1, 0))
        recall, false_rate = true / (weights @ labels), false / (weights @ (1 - labels))
        tried.append((recall, true / (true + false) if true + false else 0.0, false_rate))
    return {
        "precision_at_recall": max(precision for recall, precision, _ in tried if recall >= level),
        "recall_at_precision": max((recall for recall, precision, _ in tried if precision >= level), default=0),
        "recall_at_false_positive_rate": max(recall for recall, _, false in tried if false <= level),
        "sensitivity_at_specificity": max(recall for recall, _, false in tried if 1 - false >= level),
        "specificity_at_sensitivity": max(1 - false for recall, _, false in tried if recall >= level),
    }


def test_a_target_that_no_threshold_reaches_gives_nothing_and_one_that_is_met_exactly_counts() -> None:
    labels, p = np.array([0.0, 1, 1, 1, 0, 1, 1, 1, 1, 1]), np.arange(10, 0, -1) / 11
    names = ("recall_at_precision@0.9", "precision_at_recall@0.625", "specificity_at_sensitivity@0.375")
    metrics = metrics_of("binary", 0.5, names)
    (found,) = metrics.accumulate(ExampleGroups(labels, p[:, None], np.zeros(10, np.int64), 1, np.ones(10)))
    values = metrics.metrics(found.total())
    assert values["recall_at_precision@0.9"] == 0  # the best precision is 8 of 10
    assert values["precision_at_recall@0.625"] == 8 / 10  # of all ten, which reach more than is asked for
    assert values["specificity_at_sensitivity@0.375"] == 1 / 2  # the fourth prediction reaches exactly 3 of 8


def test_metrics_by_class_equal_scikit_learn_without_a_fold_too() -> None:
    random = np.random.default_rng(12)
    labels = random.choice(7, 2000, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05, 0]).astype(float)  # the last is only predicted
    scores = np.exp(random.normal(size=(2000, 7)) + 1.5 * np.eye(7)[labels.astype(int)])
    p, weights = scores / scores.sum(axis=1, keepdims=True), random.choice([0.25, 1.0, 4.0], 2000)
    folds, groups = random.integers(0, FOLDS, 2000), random.integers(0, 2, 2000)
    metrics = metrics_of("multiclass", 0.5, ("top_3_accuracy", "top_5_accuracy"))
    found = metrics.accumulate(ExampleGroups(labels, p, groups, 2, weights, folds))
    for group, fold in ((0, None), (1, 3), (1, None)):
        rows = (groups == group) & (folds != fold)
        totals = found[group].total(without=fold)
        given = {"y_true": labels[rows], "y_pred": p[rows].argmax(axis=1), "sample_weight": weights[rows]}
        ranked = {"y_true": labels[rows], "y_score": p[rows], "sample_weight": weights[rows], "labels": np.arange(7)}
        expected = {
            "accuracy": sklearn.metrics.accuracy_score(**given),
            "crossentropy": sklearn.metrics.log_loss(
                labels[rows], p[rows], sample_weight=weights[rows], labels=range(7)
            ),
            "macro_precision": sklearn.metrics.precision_score(average="macro", zero_division=0, **given),
            "macro_recall": sklearn.metrics.recall_score(average="macro", zero_division=0, **given),
            "macro_f1": sklearn.metrics.f1_score(average="macro", zero_division=0, **given),
            "weighted_f1": sklearn.metrics.f1_score(average="weighted", zero_division=0, **given),
            "weighted_precision": sklearn.metrics.precision_score(average="weighted", zero_division=0, **given),
            "weighted_recall": sklearn.metrics.recall_score(average="weighted", zero_division=0, **given),
            "micro_precision": sklearn.metrics.precision_score(average="micro", **given),
            "micro_recall": sklearn.metrics.recall_score(average="micro", **given),
            "micro_f1": sklearn.metrics.f1_score(average="micro", **given),
            "matthews_correlation": sklearn.metrics.matthews_corrcoef(**given),
            "top_3_accuracy": sklearn.metrics.top_k_accuracy_score(k=3, **ranked),
            "top_5_accuracy": sklearn.metrics.top_k_accuracy_score(k=5, **ranked),
        }
        assert metrics.metrics(totals) == pytest.approx(expected)
        confusion = metrics.confusion(totals)
        assert confusion is not None
        np.testing.assert_allclose(confusion.counts, sklearn.metrics.confusion_matrix(**given))
        assert confusion.classes == tuple(range(7))
        share = np.bincount(labels[rows].astype(int), weights[rows]) / weights[rows].sum()
        assert metrics.constant(totals)["accuracy"] == pytest.approx(share.max())


def test_accuracy_among_the_k_most_probable_classes_is_that_of_keras_ties_included() -> None:
    random = np.random.default_rng(13)
    labels, weights = random.integers(0, 8, 3000), random.choice([0.25, 1.0, 4.0], 3000)
    p = random.integers(0, 5, (3000, 8)) + 2 * np.eye(8)[labels] + 0.5
    p /= p.sum(axis=1, keepdims=True)
    own = p[np.arange(3000), labels]
    assert np.mean((p == own[:, None]).sum(axis=1) > 1) > 0.4  # ties
    metrics = metrics_of("multiclass", 0.5, [f"top_{k}_accuracy" for k in (7, 2, 3, 4)])
    folds, groups = random.integers(0, FOLDS, 3000), random.integers(0, 2, 3000)
    found = metrics.accumulate(ExampleGroups(labels.astype(float), p, groups, 2, weights, folds))
    for group, fold in ((0, None), (1, 3)):
        rows = (groups == group) & (folds != fold)
        values = metrics.metrics(found[group].total(without=fold))
        assert [name for name in values if name.startswith("top_")] == [f"top_{k}_accuracy" for k in (2, 3, 4, 7)]
        for k in (2, 3, 4, 7):
            theirs = keras.metrics.SparseTopKCategoricalAccuracy(k)
            theirs.update_state(labels[rows], p[rows].astype(np.float32), weights[rows])
            more = [sum(each > mine for each in row) for row, mine in zip(p, own, strict=True)]
            plain = np.average((np.array(more) < k)[rows], weights=weights[rows])
            assert values[f"top_{k}_accuracy"] == pytest.approx(plain)
            assert values[f"top_{k}_accuracy"] == pytest.approx(float(theirs.result()), abs=1e-6)
    p[5] = np.nan
    (broken,) = metrics.accumulate(ExampleGroups(labels.astype(float), p, np.zeros(3000, np.int64), 1, weights))
    assert np.isnan([metrics.metrics(broken.total())[f"top_{k}_accuracy"] for k in (2, 7)]).all()


def test_classes_are_too_many_for_a_table_only_above_a_limit() -> None:
    for number, shown in ((MOST_CLASSES, True), (MOST_CLASSES + 1, False)):
        totals = totals_of("multiclass", np.arange(float(number)), np.eye(number))
        assert (LABEL_METRICS["multiclass"].confusion(totals) is not None) is shown


def test_a_probability_of_exactly_one_half_counts_as_negative_as_in_keras() -> None:
    labels, p = np.array([0.0, 1.0, 1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.75, 0.25, np.nextafter(0.5, 1)])
    found = LABEL_METRICS["binary"].metrics(totals_of("binary", labels, p[:, None]))
    assert found["binary_accuracy"] == 3 / 5
    assert found["precision"] == 1 / 2
    assert found["recall"] == 1 / 2
    stock = {
        "binary_accuracy": keras.metrics.BinaryAccuracy(threshold=0.5, dtype="float64"),
        "precision": keras.metrics.Precision(thresholds=0.5, dtype="float64"),
        "recall": keras.metrics.Recall(thresholds=0.5, dtype="float64"),
    }
    for name, metric in stock.items():
        metric.update_state(labels[:4], p[:4])
        alone = LABEL_METRICS["binary"].metrics(totals_of("binary", labels[:4], p[:4, None]))
        assert alone[name] == pytest.approx(float(metric.result())), name
