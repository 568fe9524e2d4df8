"""Intervals and margins of metrics, and the folds that they are computed of."""

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from evaluation_totals import totals_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_model_analysis.evaluators import jackknife
from tensorflow_model_analysis.evaluators.confidence_intervals_util import SampleMetrics
from tensorflow_model_analysis.metrics.metric_types import MetricKey
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.writers import metrics_plots_and_validations_writer as writer

from headrace.components.evaluation.intervals import change_intervals, difference, folds_of, intervals, metrics_without
from headrace.components.evaluation.limits import at_limits
from headrace.components.evaluation.measured import Measured
from headrace.components.evaluation.metrics import LABEL_METRICS, metrics_of
from headrace.components.evaluation.metrics.accumulator import FOLDS, ExampleGroups
from headrace.components.evaluation.tfma_files import confidence_intervals
from headrace.configs.schema.metrics import LOWER_IS_BETTER


def _split(kind: str, random: np.random.Generator, number: int) -> tuple[Any, Any]:
    """Labels and predictions of a test split."""
    if kind == "binary":
        labels = (random.random(number) < 0.4).astype(float)
        return labels, 1 / (1 + np.exp(-random.normal(labels, 1)))[:, None]
    if kind == "multiclass":
        labels = random.integers(0, 3, number).astype(float)
        return labels, scipy.special.softmax(
            2 * np.eye(3)[labels.astype(int)] + random.normal(size=(number, 3)), axis=1
        )
    labels = random.normal(size=number)
    return labels, (labels + random.normal(size=number))[:, None]


@pytest.mark.parametrize(("kind", "metrics", "size", "least"), [
    ("binary", ("auc", "binary_crossentropy", "precision", "f1"), 400, 0.9),
    ("binary", ("recall_at_precision@0.6",), 400, 0.83),  # the best of many thresholds; what docs/evaluation.md says
    ("binary", ("recall_at_precision@0.6",), 4000, 0.83),
    ("multiclass", ("accuracy", "crossentropy", "macro_f1"), 400, 0.9),
    ("multiclass", ("macro_auc", "weighted_auc"), 400, 0.9),
    ("regression", ("root_mean_squared_error", "r_squared", "squared_correlation"), 400, 0.9),
    ("regression", ("median_absolute_error",), 400, 0.88),
    ("regression", ("median_absolute_error",), 4000, 0.84),
])  # fmt: skip
def test_intervals_hold_the_metric_of_all_data_nineteen_times_in_twenty(
    kind: str, metrics: tuple[str, ...], size: int, least: float
) -> None:
    random, found, splits = np.random.default_rng(8), metrics_of(kind, 0.5, metrics), 200 if size == 400 else 100
    labels, p = _split(kind, random, 200_000)
    (whole,) = found.accumulate(ExampleGroups(labels, p, np.zeros(200_000, np.int64), 1, np.ones(200_000)))
    truth = found.metrics(whole.total())
    inside = dict.fromkeys(metrics, 0)
    for split in range(splits):
        labels, p = _split(kind, random, size)
        folds = folds_of(0, size, split)
        (accumulator,) = found.accumulate(ExampleGroups(labels, p, np.zeros(size, np.int64), 1, np.ones(size), folds))
        values = found.metrics(accumulator.total())
        each = intervals(values, metrics_without(found, accumulator))
        for name in metrics:
            low, high = each[name]
            assert low < values[name] < high
            inside[name] += low <= truth[name] <= high
    assert all(least <= number / splits <= 0.995 for number in inside.values()), inside


def _good(kind: str, random: np.random.Generator, number: int) -> tuple[Any, Any, Any]:
    """Labels, calibrated predictions of a model that is right 98 times in 100, and weights."""
    if kind == "multiclass":
        labels = random.choice(3, number, p=(0.6, 0.3, 0.1))
        scores = random.normal(size=(number, 3)) + 3.4 * np.eye(3)[labels]
        given: tuple[Any, Any] = labels.astype(float), scipy.special.softmax(3.4 * scores, axis=1)
    else:
        labels = (random.random(number) < 0.5).astype(float)
        given = labels, scipy.special.expit(4 * random.normal(4 * labels, 1) - 8)[:, None]
    return *given, random.choice([0.5, 1.0, 2.0], number)


@pytest.mark.parametrize(("kind", "size"), [("binary", 150), ("binary", 1500), ("multiclass", 150)])
def test_a_good_model_is_below_its_interval_hardly_more_often_than_in_one_split_of_forty(kind: str, size: int) -> None:
    """Below the lower end of a share, or above the upper one of a loss: what a bound with `confident: true` is about.

    An interval of as much to either side was missed by up to 20 in 100.
    """
    random, found = np.random.default_rng(8), metrics_of(kind, 0.5)
    labels, p, _ = _good(kind, random, 300_000)
    (whole,) = found.accumulate(ExampleGroups(labels, p, np.zeros(300_000, np.int64), 1, np.ones(300_000)))
    truth, splits = found.metrics(whole.total()), 200
    worse = dict.fromkeys(truth, 0)
    for split in range(splits):
        labels, p, weights = _good(kind, random, size)
        folds = folds_of(0, size, split)
        (accumulator,) = found.accumulate(ExampleGroups(labels, p, np.zeros(size, np.int64), 1, weights, folds))
        values = found.metrics(accumulator.total())
        for name, (low, high) in intervals(values, metrics_without(found, accumulator)).items():
            assert low < values[name] < high
            worse[name] += truth[name] > high if name in LOWER_IS_BETTER else truth[name] < low
    losses = {"binary_crossentropy", "crossentropy", "brier_score"}  # a few examples decide them
    most = {name: 0.13 if name in losses else 0.085 for name in worse}
    assert {name: number for name, number in worse.items() if number / splits > most[name]} == {}


def test_a_model_with_one_mistake_is_not_surer_than_one_without() -> None:
    """Nor than by the exact interval for a share."""
    metrics, ends = LABEL_METRICS["binary"], []
    for mistakes in range(4):
        labels = (np.arange(80) % 2).astype(np.float64)
        p = np.where(np.arange(80) < mistakes, 1 - labels, labels)[:, None] * 0.8 + 0.1
        (found,) = metrics.accumulate(
            ExampleGroups(labels, p, np.zeros(80, np.int64), 1, np.ones(80), np.arange(80) % FOLDS)
        )
        values, without = metrics.metrics(found.total()), metrics_without(metrics, found)
        each = {**at_limits(values, metrics.proportions(found.total())), **intervals(values, without)}
        exact = scipy.stats.binomtest(80 - mistakes, 80).proportion_ci(0.95, method="exact")
        assert each["binary_accuracy"][0] <= exact.low + 1e-9
        ends.append(each["binary_accuracy"][0])
    assert ends == sorted(ends, reverse=True)


_SCALES: dict[str, tuple[Any, Any, float]] = {
    "auc": (scipy.special.logit, scipy.special.expit, 0.98),
    "brier_score": (scipy.special.logit, scipy.special.expit, 0.02),
    "binary_crossentropy": (np.log, np.exp, 0.05),
    "matthews_correlation": (np.arctanh, np.tanh, -0.9),
    "r_squared": (lambda x: -np.log1p(-x), lambda x: -np.expm1(-x), 0.97),
    "calibration": (np.log, np.exp, 1.2),
}


@pytest.mark.parametrize("name", _SCALES)
def test_intervals_are_as_far_on_both_sides_on_the_scale_of_the_metric(name: str) -> None:
    scale, back, value = _SCALES[name]
    random = np.random.default_rng(9)
    without = value + random.normal(scale=0.003, size=FOLDS)
    width = scipy.stats.t.ppf(0.975, FOLDS - 1) * np.sqrt((FOLDS - 1) * np.var(without))
    slope = (scale(value + 1e-6) - scale(value - 1e-6)) / 2e-6
    expected = back(scale(value) - width * slope), back(scale(value) + width * slope)
    assert intervals({name: value}, [{name: each} for each in without])[name] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("name", "value", "within"), [
    *(("auc", value, (0, 1)) for value in (1.0, 1 - 1e-12, 1e-6)),
    ("brier_score", 0.0, (0, 1)),
    *(("matthews_correlation", value, (-1, 1)) for value in (1.0, -1.0)),
    ("r_squared", 1.0, (-np.inf, 1)),
    *(("mean_squared_error", value, (0, np.inf)) for value in (0.0, 1e-300)),
    ("calibration", 0.0, (0, np.inf)),
])  # fmt: skip
def test_intervals_end_where_the_values_of_the_metric_end(name: str, value: float, within: tuple[float, float]) -> None:
    without = [{name: value + 0.01 * each} for each in np.linspace(-1, 1, FOLDS)]
    low, high = intervals({name: value}, without)[name]
    assert within[0] <= low <= value <= high <= within[1]
    assert -np.inf < low < high < np.inf


def test_standard_errors_are_those_of_tfma() -> None:
    random = np.random.default_rng(9)
    values = {"auc": 0.8, "binary_crossentropy": 0.4}
    without = [{name: value + random.normal(scale=0.003) for name, value in values.items()} for _ in range(FOLDS)]
    found = intervals(values, without)
    for name, value in values.items():
        key, slope = MetricKey(name), {"auc": value * (1 - value)}.get(name, value)
        samples = jackknife._JackknifeSampleCombineFn(FOLDS)
        samples.setup()
        state = samples.create_accumulator()
        for sample, metrics in ((-1, values), *enumerate(without)):
            state = samples.add_input(state, SampleMetrics({key: metrics[name]}, sample))
        stock = samples.extract_output(state)[key]
        width = scipy.stats.t.ppf(0.975, stock.sample_degrees_of_freedom) * stock.sample_standard_deviation
        scale, back, _ = _SCALES[name]
        expected = back(scale(value) - width / slope), back(scale(value) + width / slope)
        assert found[name] == pytest.approx(expected, abs=1e-4)


def test_intervals_are_written_as_those_of_tfma() -> None:
    """TFMA's writer, given TFMA's jackknife over the same values without each fold."""
    random, value, key = np.random.default_rng(9), 0.8, MetricKey("auc", "candidate")
    spread = random.normal(scale=0.003, size=FOLDS)
    without = [{"auc": value + own} for own in spread - spread.mean()]  # TFMA's interval is around their mean
    samples = jackknife._JackknifeSampleCombineFn(FOLDS)
    samples.setup()
    state = samples.add_input(samples.create_accumulator(), SampleMetrics({key: value}, -1))
    for sample, metrics in enumerate(without):
        state = samples.add_input(state, SampleMetrics({key: metrics["auc"]}, sample))
    stock = writer.convert_slice_metrics_to_proto(((), samples.extract_output(state)), None)
    config = config_pb2.EvalConfig(model_specs=[config_pb2.ModelSpec(name="candidate")])
    measured = Measured({("candidate", ()): {"auc": value}}, {("candidate", ()): without})
    (theirs,), ((name, ours),) = stock.metric_keys_and_values, confidence_intervals(measured, config, ())
    assert name == key
    assert [field.name for field, _ in ours.ListFields()] == [
        field.name for field, _ in theirs.confidence_interval.ListFields()
    ]
    for bound, rounding in (("lower_bound", 0.01), ("upper_bound", 0.01), ("standard_error", 1e-5)):
        expected = getattr(theirs.confidence_interval, bound).double_value.value  # as far on both sides of the value
        assert getattr(ours, bound).double_value.value == pytest.approx(expected, rel=rounding)
    assert ours.degrees_of_freedom.value == theirs.confidence_interval.degrees_of_freedom.value == FOLDS - 1


def test_metrics_over_few_examples_or_without_any_spread_have_no_interval() -> None:
    found = LABEL_METRICS["binary"]
    for number, spread in ((39, True), (400, False)):
        labels: Any = np.arange(number) % 2.0
        p: Any = np.where(np.arange(number) % 3 == 0, 0.5, labels) if spread else labels
        folds, zeros = folds_of(0, number, 1), np.zeros(number, np.int64)
        (accumulator,) = found.accumulate(ExampleGroups(labels, p[:, None], zeros, 1, np.ones(number), folds))
        each = intervals(found.metrics(accumulator.total()), metrics_without(found, accumulator))
        assert "binary_accuracy" not in each


def test_the_difference_of_two_models_is_known_better_than_either() -> None:
    random, found = np.random.default_rng(10), LABEL_METRICS["binary"]
    labels, p = _split("binary", random, 2000)
    other: Any = np.clip(p + random.normal(scale=0.01, size=p.shape), 0.001, 0.999)
    folds, zeros = folds_of(0, 2000, 3), np.zeros(2000, np.int64)
    given = ((labels, each, zeros, 1, np.ones(2000), folds) for each in (p, other))
    ours, theirs = (found.accumulate(ExampleGroups(*each))[0] for each in given)
    values, baseline = found.metrics(ours.total()), found.metrics(theirs.total())
    without = metrics_without(found, ours)
    (low, high) = change_intervals(values, baseline, without, metrics_without(found, theirs))["auc"]
    alone = intervals(values, without)["auc"]
    assert low < values["auc"] - baseline["auc"] < high
    assert high - low < (alone[1] - alone[0]) / 5
    assert change_intervals(values, values, without, without, identical=True)["auc"] == (0.0, 0.0)
    assert change_intervals(values, values, without, without) == {}


def test_the_interval_of_a_difference_of_two_slices_holds_it_nineteen_times_in_twenty() -> None:
    """Accuracies of 0.9 and 0.8 over other examples, some slices being much smaller than others."""
    random, metrics = np.random.default_rng(11), LABEL_METRICS["binary"]
    inside = 0
    for split in range(300):
        each: list[Any] = []
        for number, accuracy in ((150, 0.9), (600, 0.8)):
            labels = (random.random(number) < 0.5).astype(float)
            p: Any = np.where(random.random(number) < accuracy, labels, 1 - labels)[:, None] * 0.8 + 0.1
            folds = folds_of(0, number, 1000 * split + number)
            (accumulator,) = metrics.accumulate(
                ExampleGroups(labels, p, np.zeros(number, np.int64), 1, np.ones(number), folds)
            )
            value = metrics.metrics(accumulator.total())
            found = intervals(value, metrics_without(metrics, accumulator))["binary_accuracy"]
            each += [value["binary_accuracy"], found]
        low, high = difference(*each)
        assert low < each[0] - each[2] < high
        inside += low <= 0.1 <= high
    assert 0.9 <= inside / 300 <= 0.99


@given(st.integers(0, 1000), st.integers(1, 400), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_the_folds_of_examples_do_not_depend_on_batches(start: int, number: int, key: int) -> None:
    whole = folds_of(0, start + number, key)
    np.testing.assert_array_equal(folds_of(start, number, key), whole[start:])
    assert whole.min() >= 0
    assert whole.max() < FOLDS


def test_folds_are_of_equal_size_and_differ_from_file_to_file() -> None:
    counts = np.bincount(folds_of(0, 200_000, 5), minlength=FOLDS)
    assert scipy.stats.chisquare(counts).pvalue > 0.001
    assert np.mean(folds_of(0, 10_000, 5) == folds_of(0, 10_000, 6)) == pytest.approx(1 / FOLDS, abs=0.01)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_the_margin_is_that_of_repeated_test_splits(kind: str) -> None:
    random = np.random.default_rng(7)
    metric = {"binary": "auc", "multiclass": "accuracy", "regression": "mean_squared_error"}[kind]
    values, widths = [], []
    for _ in range(300):
        if kind == "binary":
            labels = (random.random(150) < 0.4).astype(float)
            p = 1 / (1 + np.exp(-random.normal(labels, 1)))[:, None]
        elif kind == "multiclass":
            labels = random.integers(0, 3, 150).astype(float)
            p = np.eye(3)[labels.astype(int)] + random.normal(scale=0.7, size=(150, 3))
        else:
            labels = random.normal(size=150)
            p = (labels + random.normal(size=150))[:, None]
        margin = LABEL_METRICS[kind].margin(totals_of(kind, labels, p))
        assert margin is not None
        assert margin.metric == metric
        values.append(margin.value)
        widths.append(margin.width)
    inside = np.mean(np.abs(np.array(values) - np.mean(values)) <= np.array(widths))
    assert 0.9 < inside < 0.99


def test_two_models_that_are_both_perfect_differ_within_their_intervals_unless_they_are_identical() -> None:
    values, without = {"accuracy": 1.0}, [{"accuracy": 1.0}] * FOLDS
    limits = {"accuracy": (0.97, 1.0)}
    keys = ("candidate", ()), ("baseline", ())
    measured = Measured(dict.fromkeys(keys, values), dict.fromkeys(keys, without), dict.fromkeys(keys, limits))
    assert measured.change_intervals("candidate", "baseline", ())["accuracy"] == pytest.approx((-0.03, 0.03))
    identical = measured._replace(identical=frozenset([()]))
    assert identical.change_intervals("candidate", "baseline", ()) == {"accuracy": (0.0, 0.0)}
