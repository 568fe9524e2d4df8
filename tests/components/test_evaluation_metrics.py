"""Metrics against independent NumPy computations."""

import tracemalloc

import keras
import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from evaluation_totals import Array, totals_of
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.components.evaluation.metrics import LABEL_METRICS, probabilities
from headrace.components.evaluation.metrics.accumulator import ExampleGroups, RunningTotal


@given(st.lists(st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 1), st.integers(0, 3))), min_size=1))
@settings(deadline=None, max_examples=30)
def test_histograms_and_sums_of_groups_are_those_of_all_batches(batches: list[list[tuple[int, int, int]]]) -> None:
    """Also those that are merged while more are added."""
    totals, expected = [RunningTotal() for _ in range(4)], np.zeros((4, 2, 81))
    losses: list[list[float]] = [[] for _ in range(4)]
    for batch in batches * 40:
        odds, labels, groups = np.array(batch, np.int64).reshape(-1, 3).T
        p = 1 / (1 + np.exp(-(odds + 0.5) / probabilities.RESOLUTION))
        found = LABEL_METRICS["binary"].accumulate(
            ExampleGroups(labels.astype(float), p[:, None], groups, 4, np.ones(len(groups)))
        )
        np.add.at(expected, (groups, labels, odds + 40), 1)
        for own, accumulator, total in zip(losses, found, totals, strict=True):
            total.add(accumulator)
            own.append(accumulator.total().sums[3])
    for histogram, own, total in zip(expected, losses, totals, strict=True):
        merged = total.merged().total()
        assert (np.diff(merged.buckets) > 0).all()
        middle = probabilities.middle_of(merged.buckets)
        steps = np.floor(probabilities.RESOLUTION * np.log(middle / (1 - middle))).astype(int)
        np.testing.assert_array_equal(merged.counts, histogram[:, steps + 40].T)
        assert merged.counts.sum() == histogram.sum() == merged.sums[0]
        assert merged.sums[3] == sum(own)  # to the last bit: added in order


def test_a_running_total_holds_little_more_than_the_sum() -> None:
    random, total, metrics = np.random.default_rng(0), RunningTotal(), LABEL_METRICS["binary"]
    tracemalloc.start()
    try:
        for _ in range(240):
            p = 1 / (1 + np.exp(-random.normal(size=60)))
            folds = random.integers(0, 20, 60)
            groups = ExampleGroups(np.round(p), p[:, None], np.zeros(60, np.int64), 1, np.ones(60), folds)
            (one,) = metrics.accumulate(groups)
            total.add(one)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    merged = total.merged()
    assert merged.examples.sum() == 14_400
    whole = sum(own.nbytes for one in (merged.histogram, merged.by_fold) for own in one)
    assert whole == 12 * merged.size  # 24 bytes of a bucket if the weights are not whole numbers
    assert whole < held < 1.8 * whole  # 2.3 if they wait until they are as large as the sum


@pytest.mark.parametrize(("weight", "of_a_bucket"), [(1.0, 12), (0.3, 24), (2.0**31, 24)])
def test_a_histogram_is_packed_only_if_that_loses_nothing(weight: float, of_a_bucket: int) -> None:
    p, labels = np.array([0.2, 0.7, 0.2, 0.2]), np.array([0.0, 1.0, 1.0, 0.0])
    groups = ExampleGroups(labels, p[:, None], np.zeros(4, np.int64), 1, np.full(4, weight))
    parts = [one for _ in range(3) for one in LABEL_METRICS["binary"].accumulate(groups)]
    merged = parts[0].merge(parts[1:])
    assert sum(own.nbytes for own in merged.histogram) == 2 * of_a_bucket
    total = merged.total()
    assert total.buckets.dtype == np.int64
    np.testing.assert_array_equal(total.counts, [[6 * weight, 3 * weight], [0, 3 * weight]])


def _exact_auc(labels: Array, scores: Array) -> float:
    """The share of (positive, negative) pairs in the right order, ties as half."""
    positive, negative = scores[labels == 1][:, None], scores[labels == 0][None, :]
    return float(np.mean((positive > negative) + 0.5 * (positive == negative)))


@pytest.mark.parametrize("rate", [0.5, 0.05])
def test_binary_metrics_equal_an_independent_computation(rate: float) -> None:
    random = np.random.default_rng(3)
    labels = (random.random(5000) < rate).astype(float)
    p = 1 / (1 + np.exp(-(random.normal(size=5000) + labels + np.log(rate / (1 - rate)))))
    found = LABEL_METRICS["binary"].metrics(totals_of("binary", labels, p[:, None], parts=7))
    above = p > 0.5
    assert found["auc"] == pytest.approx(_exact_auc(labels, p), abs=2e-5)
    assert found["binary_accuracy"] == pytest.approx(np.mean(above == labels))
    assert found["binary_crossentropy"] == pytest.approx(-np.mean(np.log(np.where(labels == 1, p, 1 - p))))
    assert found["calibration"] == pytest.approx(p.sum() / labels.sum())
    assert found["precision"] == pytest.approx(labels[above].mean())
    assert found["recall"] == pytest.approx(above[labels == 1].mean())
    assert found["auc_precision_recall"] == pytest.approx(_area_precision_recall(labels, p), abs=1e-4)


def _area_precision_recall(labels: Array, scores: Array) -> float:
    """The mean precision while the recall grows, one positive after the other, each in 100 small steps."""
    ranked = labels[np.argsort(-scores)]
    before = (np.cumsum(ranked) - ranked)[ranked == 1][:, None]
    false = np.cumsum(1 - ranked)[ranked == 1][:, None]
    true = before + (np.arange(100) + 0.5) / 100
    return float(np.mean(true / (true + false)))


def test_rare_classes_with_tiny_probabilities_are_ranked_as_finely_as_others() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(20000) < 0.3).astype(float)
    p = 1e-6 * np.exp(random.normal(size=20000) + labels)
    found = LABEL_METRICS["binary"].metrics(totals_of("binary", labels, p[:, None]))
    assert found["auc"] == pytest.approx(_exact_auc(labels, p), abs=2e-5)


def test_the_roc_curve_encloses_the_area_and_the_calibration_covers_every_example() -> None:
    random = np.random.default_rng(5)
    labels = (random.random(4000) < 0.4).astype(float)
    p = np.clip(0.4 * random.random(4000) + 0.5 * labels, 0, 1)
    accumulator = totals_of("binary", labels, p[:, None])
    curves = LABEL_METRICS["binary"].curves(accumulator)
    assert curves is not None
    x, y = np.array(curves.roc).T
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(x) >= 0)
    assert np.all(np.diff(y) >= 0)
    assert len(x) <= 201
    assert np.trapezoid(y, x) == pytest.approx(_exact_auc(labels, p), abs=1e-3)
    assert sum(count for _, _, count in curves.calibration) == 4000
    for mean, share, count in curves.calibration:
        inside = (p >= np.floor(mean * 10) / 10) & (p < np.floor(mean * 10) / 10 + 0.1)
        assert count == pytest.approx(inside.sum(), abs=5)
        assert mean == pytest.approx(p[inside].mean(), abs=1e-4)
        assert share == pytest.approx(labels[inside].mean(), abs=2e-2)


def test_multiclass_metrics_equal_an_independent_computation() -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 4, 1000).astype(float)
    scores = np.exp(random.normal(size=(1000, 4)))
    p = scores / scores.sum(axis=1, keepdims=True)
    found = LABEL_METRICS["multiclass"].metrics(totals_of("multiclass", labels, p, parts=3))
    one_hot = np.eye(4)[labels.astype(int)]
    assert found["accuracy"] == pytest.approx(np.mean(p.argmax(axis=1) == labels))
    assert found["crossentropy"] == pytest.approx(-np.mean(np.sum(one_hot * np.log(p), axis=1)))


def test_regression_metrics_equal_an_independent_computation() -> None:
    random = np.random.default_rng(2)
    labels = 100 + random.normal(size=1000)
    p = labels + 0.5 * random.normal(size=1000)
    found = LABEL_METRICS["regression"].metrics(totals_of("regression", labels, p[:, None], parts=4))
    assert found["mean_squared_error"] == pytest.approx(np.mean((labels - p) ** 2))
    assert found["mean_absolute_error"] == pytest.approx(np.mean(np.abs(labels - p)))
    assert found["squared_correlation"] == pytest.approx(np.corrcoef(labels, p)[0, 1] ** 2)
    assert found["root_mean_squared_error"] == pytest.approx(sklearn.metrics.root_mean_squared_error(labels, p))
    assert found["r_squared"] == pytest.approx(sklearn.metrics.r2_score(labels, p))


def test_relative_logarithmic_and_median_errors_equal_scikit_learn_with_weights() -> None:
    random = np.random.default_rng(22)
    labels, weights = random.gamma(2.0, 3.0, 2001), random.choice([0.5, 1, 2], 2001)
    p = labels * random.lognormal(sigma=0.3, size=2001)
    metrics = LABEL_METRICS["regression"]
    (accumulator,) = metrics.accumulate(ExampleGroups(labels, p[:, None], np.zeros(2001, np.int64), 1, weights))
    found, given = metrics.metrics(accumulator.total()), {"sample_weight": weights}
    relative = 100 * sklearn.metrics.mean_absolute_percentage_error(labels, p, **given)
    assert found["mean_absolute_percentage_error"] == pytest.approx(relative)
    logarithmic = sklearn.metrics.mean_squared_log_error(labels, p, **given)
    assert found["mean_squared_logarithmic_error"] == pytest.approx(logarithmic)
    assert found["median_absolute_error"] == pytest.approx(
        sklearn.metrics.median_absolute_error(labels, p, **given), rel=0.01
    )
    exact = metrics.metrics(totals_of("regression", labels, labels[:, None]))
    assert exact["median_absolute_error"] == exact["mean_absolute_percentage_error"] == 0


def test_errors_of_labels_at_zero_and_below_are_those_of_keras() -> None:
    labels, p = np.array([0.0, -2, 3, 5]), np.array([1e-6, -3, 3.5, -4])
    found = LABEL_METRICS["regression"].metrics(totals_of("regression", labels, p[:, None]))
    for name, stock in (
        ("mean_absolute_percentage_error", keras.metrics.MeanAbsolutePercentageError(dtype="float64")),
        ("mean_squared_logarithmic_error", keras.metrics.MeanSquaredLogarithmicError(dtype="float64")),
    ):
        stock.update_state(labels, p)
        assert found[name] == pytest.approx(float(stock.result()), rel=1e-6)


def test_quantiles_of_errors_are_those_of_numpy_to_a_hundredth() -> None:
    random = np.random.default_rng(13)
    labels = 50 + random.normal(size=4000)
    p = labels + random.lognormal(size=4000) * random.choice([-1, 2], 4000)
    curves = LABEL_METRICS["regression"].curves(totals_of("regression", labels, p[:, None], parts=3))
    assert curves is not None
    shares, errors = np.array(curves.errors).T
    expected = np.quantile(p - labels, shares, method="inverted_cdf")
    np.testing.assert_allclose(errors, expected, rtol=0.02)
    exact = LABEL_METRICS["regression"].curves(totals_of("regression", labels, labels[:, None]))
    assert exact is not None
    assert {error for _, error in exact.errors} == {0.0}


def _log_loss_of_shares(labels: Array) -> float:
    shares = pd.Series(labels).value_counts(normalize=True)
    return float(-np.mean(np.log(shares[labels].to_numpy())))


def test_a_constant_prediction_is_measured_as_a_model_that_makes_it() -> None:
    random = np.random.default_rng(6)
    labels = (random.random(700) < 0.3).astype(float)
    p = random.random((700, 1))
    found = LABEL_METRICS["binary"].constant(totals_of("binary", labels, p, parts=3))
    model = LABEL_METRICS["binary"].metrics(totals_of("binary", labels, np.full((700, 1), labels.mean())))
    assert {"auc", "auc_precision_recall", "binary_accuracy", "binary_crossentropy", "brier_score"} == found.keys()
    assert found == pytest.approx({name: model[name] for name in found}, abs=1e-4)

    classes = random.choice(4, 900, p=[0.1, 0.2, 0.65, 0.05]).astype(float)
    found = LABEL_METRICS["multiclass"].constant(totals_of("multiclass", classes, random.random((900, 4)), parts=5))
    assert found == pytest.approx({"accuracy": np.mean(classes == 2), "crossentropy": _log_loss_of_shares(classes)})

    numbers = random.gamma(2.0, 3.0, 500)
    found = LABEL_METRICS["regression"].constant(totals_of("regression", numbers, random.random((500, 1)), parts=4))
    variance = np.mean((numbers - numbers.mean()) ** 2)
    expected = {"mean_squared_error": variance, "root_mean_squared_error": np.sqrt(variance), "r_squared": 0}
    assert found == pytest.approx(expected)


def test_the_cross_entropy_of_a_label_that_never_changes_is_written_without_a_sign() -> None:
    for kind, loss in (("binary", "binary_crossentropy"), ("multiclass", "crossentropy")):
        constant = LABEL_METRICS[kind].constant(totals_of(kind, np.ones(30), np.full((30, 1 + (loss[0] == "c")), 0.5)))
        assert f"{constant[loss]:.4f}" == "0.0000"


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_the_correlation_keeps_a_spread_that_is_small_beside_the_mean(parts: int) -> None:
    random = np.random.default_rng(4)
    near = random.normal(size=1000).round(3)
    labels, p = 1e9 + near, 1e9 + (near + random.normal(size=1000)).round(3)
    found = LABEL_METRICS["regression"].metrics(totals_of("regression", labels, p[:, None], parts))
    assert found["squared_correlation"] == pytest.approx(np.corrcoef(labels - 1e9, p - 1e9)[0, 1] ** 2, rel=1e-5)


def test_constant_labels_far_from_zero_have_no_correlation() -> None:
    found = LABEL_METRICS["regression"].metrics(
        totals_of("regression", np.full(8, 1e9), np.arange(8.0)[:, None], parts=3)
    )
    assert np.isnan(found["squared_correlation"])


def test_a_certain_and_wrong_probability_has_the_greatest_loss_and_not_none() -> None:
    labels, p = np.array([0.0, 1.0]), np.array([[1.0], [0.0]])
    loss = LABEL_METRICS["binary"].metrics(totals_of("binary", labels, p))["binary_crossentropy"]
    assert loss == pytest.approx(-np.log(1e-7), rel=1e-6)
    both = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert LABEL_METRICS["multiclass"].metrics(totals_of("multiclass", 1 - np.arange(2.0), both))["crossentropy"] == (
        pytest.approx(-np.log(1e-7), rel=1e-6)
    )


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_predictions_that_are_not_numbers_give_no_metric_a_value(kind: str) -> None:
    labels = np.array([0.0, 1.0, 1.0])
    predictions = np.array([[0.2, 0.8], [np.nan, np.nan], [0.6, 0.4]])
    found = LABEL_METRICS[kind].metrics(totals_of(kind, labels, predictions))
    assert all(np.isnan(value) for value in found.values())


def test_metrics_that_divide_by_nothing_have_no_value() -> None:
    found = LABEL_METRICS["binary"].metrics(totals_of("binary", np.zeros(3), np.full((3, 1), 0.1)))
    assert {name for name, value in found.items() if np.isnan(value)} == {
        "auc",
        "auc_precision_recall",
        "calibration",
        "precision",
        "recall",
        "balanced_accuracy",
        "f1",
        "matthews_correlation",
        "false_negative_rate",
    }
    constant = LABEL_METRICS["regression"].metrics(totals_of("regression", np.arange(3.0), np.full((3, 1), 2.0)))
    assert np.isnan(constant["squared_correlation"])


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=50), st.integers(1, 5))
@settings(deadline=None)
def test_how_the_examples_are_batched_makes_no_difference(examples: list[tuple[bool, float]], parts: int) -> None:
    labels, p = np.array(examples, dtype=float).T
    whole = LABEL_METRICS["binary"].metrics(totals_of("binary", labels, p[:, None]))
    split = LABEL_METRICS["binary"].metrics(totals_of("binary", labels, p[:, None], min(parts, len(labels))))
    assert split == pytest.approx(whole, nan_ok=True)
