"""Areas under the ROC curves of several classes, each against all others, by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import sklearn.metrics
from evaluation_totals import Array, totals_of

from headrace.components.evaluation.metrics import LABEL_METRICS, metrics_of
from headrace.components.evaluation.metrics.accumulator import FOLDS, ExampleGroups, Totals

ASKED = ("macro_auc", "weighted_auc")
METRICS = metrics_of("multiclass", 0.5, ASKED)


def made(rows: int, classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Labels, the lower classes more often, and probabilities as a model has them."""
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), (classes * random.random(rows - classes) ** 2).astype(np.int64)])
    scores = random.normal(size=(rows, classes), scale=1.5)
    scores[np.arange(rows), labels] += 2
    return labels.astype(float), scipy.special.softmax(scores, axis=1)


def whole(labels: Array, p: Array) -> Totals:
    (found,) = METRICS.accumulate(ExampleGroups(labels, p, np.zeros(len(labels), np.int64), 1, np.ones(len(labels))))
    return found.total()


def by_scikit_learn(labels: Array, p: Array, weights: Array | None = None) -> dict[str, float]:
    each = sklearn.metrics.roc_auc_score(labels, p, average=None, multi_class="ovr", sample_weight=weights)
    shares = np.bincount(labels.astype(int), weights)
    return {"macro_auc": float(np.mean(each)), "weighted_auc": float(np.average(each, weights=shares))}


def test_means_equal_scikit_learn_with_weights_in_slices_and_without_a_fold() -> None:
    labels, p = made(3000, 5)
    random = np.random.default_rng(1)
    weights, groups = random.choice([0.25, 1.0, 4.0], 3000), random.integers(0, 3, 3000)
    folds = random.integers(0, FOLDS, 3000)
    found = METRICS.accumulate(ExampleGroups(labels, p, groups, 3, weights, folds))
    for group, fold in ((0, None), (1, 3), (2, 19), (2, None)):
        rows = (groups == group) & (folds != fold)
        metrics = METRICS.metrics(found[group].total(without=fold))
        expected = by_scikit_learn(labels[rows], p[rows], weights[rows])
        assert {name: metrics[name] for name in ASKED} == pytest.approx(expected, abs=2e-5)
    total = found[0].merge(found[1:]).total()
    expected = by_scikit_learn(labels, p, weights)
    assert {name: METRICS.metrics(total)[name] for name in ASKED} == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize(("classes", "rows", "near"), [(3, 2000, 2e-5), (33, 4000, 2e-5), (1000, 6000, 1e-4)])
def test_coarser_buckets_of_many_classes_change_little(classes: int, rows: int, near: float) -> None:
    labels, p = made(rows, classes)
    totals = whole(labels, p)
    metrics = METRICS.metrics(totals)
    assert {name: metrics[name] for name in ASKED} == pytest.approx(by_scikit_learn(labels, p), abs=near)


def test_other_metrics_are_the_same_whether_areas_are_measured_or_not() -> None:
    labels, p = made(2000, 7)
    without, totals = totals_of("multiclass", labels, p), whole(labels, p)
    alone = LABEL_METRICS["multiclass"]
    found = METRICS.metrics(totals)
    assert {name: value for name, value in found.items() if name not in ASKED} == alone.metrics(without)
    assert METRICS.confusion(totals) == alone.confusion(without) is not None
    assert METRICS.constant(totals) == {**alone.constant(without), **dict.fromkeys(ASKED, 0.5)}
    assert METRICS.margin(totals) == alone.margin(without)
    assert alone.classes(without) == ()


def test_a_class_without_examples_is_in_no_mean() -> None:
    labels, p = made(900, 4)
    rows = labels != 2
    found, (_, _, third, _) = (
        METRICS.metrics(whole(labels[rows], p[rows])),
        METRICS.classes(whole(labels[rows], p[rows])),
    )
    each = [sklearn.metrics.roc_auc_score(labels[rows] == one, p[rows, one]) for one in (0, 1, 3)]
    present = [np.sum(labels == one) for one in (0, 1, 3)]
    assert (third.share, third.auc) == (0, None)
    assert found["macro_auc"] == pytest.approx(np.mean(each), abs=2e-5)
    assert found["weighted_auc"] == pytest.approx(np.average(each, weights=present), abs=2e-5)
    one_class = METRICS.metrics(whole(np.zeros(50), p[:50]))
    assert np.isnan([one_class[name] for name in ASKED]).all()
    assert np.isfinite(one_class["accuracy"])


def test_each_class_has_its_area_and_scores() -> None:
    labels, p = made(1500, 5)
    p[:, 4] = 0.0  # never predicted
    classes = METRICS.classes(whole(labels, p))
    each = sklearn.metrics.precision_recall_fscore_support(labels, p.argmax(axis=1), zero_division=0)
    np.testing.assert_allclose([[one.precision, one.recall, one.f1] for one in classes], np.transpose(each[:3]))
    areas = [sklearn.metrics.roc_auc_score(labels == one, p[:, one]) for one in range(5)]
    assert [one.auc for one in classes] == pytest.approx(areas, abs=2e-5)
    assert classes[4].auc == 0.5
    assert [one.share for one in classes] == pytest.approx(np.bincount(labels.astype(int)) / 1500)


def test_a_prediction_that_is_no_number_leaves_no_value() -> None:
    labels, p = made(60, 3)
    p[7] = np.nan
    totals = whole(labels, p)
    assert np.isnan([METRICS.metrics(totals)[name] for name in ASKED]).all()
    assert METRICS.classes(totals) == ()


def test_classes_of_the_largest_label_are_told_apart() -> None:
    """Their numbers share one integer with those that are predicted."""
    labels, predicted = np.array([0.0, 1, 299_999, 299_999]), [0, 299_999, 299_999, 1]
    one_hot = np.zeros((4, 300_000))
    one_hot[np.arange(4), predicted] = 1
    totals = totals_of("multiclass", labels, one_hot)
    expected = sklearn.metrics.f1_score(labels, predicted, average="macro")
    assert LABEL_METRICS["multiclass"].metrics(totals)["macro_f1"] == pytest.approx(expected)


def test_histogram_of_words_is_not_taken_for_a_table_of_classes() -> None:
    labels = np.array([0.0, 1, 2, 3])
    assert LABEL_METRICS["next_word"].confusion(totals_of("next_word", labels, np.eye(4))) is None
