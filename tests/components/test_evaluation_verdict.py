"""Values exactly at their bounds, and values that are missing: what is blessed there, and what is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from tensorflow_model_analysis.evaluators.metrics_validator import validate_metrics
from tensorflow_model_analysis.metrics.metric_types import MetricKey
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util

from headrace.components.evaluation.measured import Measured
from headrace.components.evaluation.metrics import LABEL_METRICS
from headrace.components.evaluation.metrics.accumulator import ExampleGroups, Margin
from headrace.components.evaluation.result import ThresholdCheck
from headrace.components.evaluation.slice_checks import check_slices
from headrace.components.evaluation.slices import MetricValues
from headrace.components.evaluation.tfma import compares_with_baseline, eval_config, thresholds_of
from headrace.components.evaluation.verdict import (
    Confidence,
    Requirements,
    check_thresholds,
    compare_with_constant,
    conclude,
    few_examples,
    rejection_reasons,
    size_remarks,
)
from headrace.components.statistics.distances import DriftDistance
from headrace.configs.schema.evaluate import EvaluateConfig, SliceThreshold, Threshold
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.metrics import LOSSES

NEXT = {"up": math.inf, "down": -math.inf}


def bounded(bound: str, value: float) -> config_pb2.MetricThreshold:
    threshold = config_pb2.MetricThreshold()
    getattr(threshold.value_threshold, {"min": "lower_bound", "max": "upper_bound"}[bound]).value = value
    return threshold


def compared(by: float, direction: str) -> config_pb2.MetricThreshold:
    threshold = config_pb2.MetricThreshold()
    threshold.change_threshold.absolute.value = by
    threshold.change_threshold.direction = config_pb2.MetricDirection.Value(direction)
    return threshold


@pytest.mark.parametrize("limit", [0.0, 0.5, 0.6, 0.1 + 0.2, 1.0])
@pytest.mark.parametrize(("bound", "beyond"), [("min", "down"), ("max", "up")])
def test_a_metric_exactly_at_its_bound_is_within_and_the_next_number_is_not(
    bound: str, beyond: str, limit: float
) -> None:
    thresholds = {"auc": bounded(bound, limit)}
    for value, passes in ((limit, True), (float(np.nextafter(limit, NEXT[beyond])), False)):
        (check,) = check_thresholds(thresholds, {"auc": value}, None)
        assert (check.bound, check.limit, check.value, check.passed) == (bound, limit, value, passes)
        assert bool(rejection_reasons([check], {"auc": value})) != passes


@pytest.mark.parametrize(
    ("direction", "by", "exactly", "beyond"),
    [("HIGHER_IS_BETTER", -0.25, 0.5, "down"), ("LOWER_IS_BETTER", 0.25, 1.0, "up")],
)
def test_a_metric_as_much_worse_than_the_baseline_as_it_may_be_passes_and_the_next_number_does_not(
    direction: str, by: float, exactly: float, beyond: str
) -> None:
    thresholds, baseline = {"m": compared(by, direction)}, {"m": 0.75}
    assert [check.passed for check in check_thresholds(thresholds, {"m": exactly}, baseline)] == [True]
    worse = float(np.nextafter(exactly, NEXT[beyond]))
    assert [check.passed for check in check_thresholds(thresholds, {"m": worse}, baseline)] == [False]


@pytest.mark.parametrize("against", [0.75, math.nan])
def test_a_metric_without_a_value_is_worse_than_any_baseline(against: float) -> None:
    thresholds = {"m": compared(-0.25, "HIGHER_IS_BETTER")}
    assert [check.passed for check in check_thresholds(thresholds, {"m": math.nan}, {"m": against})] == [False]
    assert [check.passed for check in check_thresholds(thresholds, {}, {"m": against})] == [False]


CHANGES = st.floats(-0.5, 0.5).map(lambda number: round(number, 3))


@given(
    st.floats(0.001, 4),
    st.floats(0.001, 4),
    CHANGES | st.none(),
    CHANGES,
    st.sampled_from([None, "higher_is_better", "lower_is_better"]),
    st.sampled_from(["auc", "root_mean_squared_error"]),
)
def test_absolute_and_relative_changes_pass_where_tfma_lets_them_pass(
    value: float, baseline: float, absolute: float | None, relative: float, direction: str | None, name: str
) -> None:
    change = {"absolute": absolute, "relative": relative, "direction": direction}
    label = LabelConfig(key="y", kind="binary" if name == "auc" else "regression")
    evaluate = EvaluateConfig(metrics=(name,), thresholds={name: Threshold.model_validate({"change": change})})
    config = eval_config(label, evaluate)
    assert compares_with_baseline(config)
    config = config_util.update_eval_config_with_defaults(config, has_baseline=True, rubber_stamp=True)
    metrics = {
        MetricKey(name, "candidate"): value,
        MetricKey(name, "baseline"): baseline,
        MetricKey(name, "candidate", is_diff=True): value - baseline,
    }
    tfmas = validate_metrics(((), metrics), config).validation_ok
    checks = check_thresholds(thresholds_of(config), {name: value}, {name: baseline})
    assert all(check.passed for check in checks) is tfmas
    lower = direction == "lower_is_better" or (direction is None and name != "auc")
    assert {check.is_upper for check in checks} == {lower}
    relation = ("below" if not lower else "above") if not tfmas else "within"
    assert any(relation in str(check) for check in checks)


def test_a_relative_change_is_one_of_the_baselines_size_and_impossible_from_zero() -> None:
    threshold = config_pb2.MetricThreshold()
    threshold.change_threshold.relative.value = -0.5
    threshold.change_threshold.direction = config_pb2.HIGHER_IS_BETTER
    (below,) = check_thresholds({"r_squared": threshold}, {"r_squared": -0.29}, {"r_squared": -0.2})
    assert below.passed
    assert below.limit == pytest.approx(-0.3)
    (zero,) = check_thresholds({"r_squared": threshold}, {"r_squared": 0.1}, {"r_squared": 0.0})
    assert not zero.passed
    assert "no relative change" in str(zero)
    (unknown,) = check_thresholds({"r_squared": threshold}, {"r_squared": 0.1}, {"r_squared": math.nan})
    assert unknown.passed
    confident = Confidence(("r_squared",), {}, {"r_squared": (-0.02, 0.03)})
    (sure,) = check_thresholds({"r_squared": threshold}, {"r_squared": 0.2}, {"r_squared": 0.2}, confident)
    assert sure.passed
    assert sure.interval == pytest.approx((0.18, 0.23))


def test_a_metric_whose_baseline_has_no_value_passes() -> None:
    (check,) = check_thresholds({"m": compared(-0.25, "HIGHER_IS_BETTER")}, {"m": 0.1}, {"m": math.nan})
    assert check.passed
    assert check.limit is None


@pytest.mark.parametrize(
    ("bound", "limit", "interval", "passes"),
    [
        ("min", 0.8, (0.81, 0.89), True),
        ("min", 0.8, (0.79, 0.91), False),
        ("min", 0.8, None, False),
        ("max", 0.9, (0.81, 0.89), True),
        ("max", 0.9, (0.79, 0.91), False),
    ],
)
def test_a_confident_bound_holds_for_the_whole_interval(
    bound: str, limit: float, interval: tuple[float, float] | None, passes: bool
) -> None:
    confidence = Confidence(("auc",), {"auc": interval} if interval else {})
    thresholds = {"auc": bounded(bound, limit), "recall": bounded("min", 0.5)}
    check, other = check_thresholds(thresholds, {"auc": 0.85, "recall": 0.5}, None, confidence)
    assert (check.passed, check.interval, check.confident) == (passes, interval, True)
    assert (other.passed, other.confident) == (True, False)
    (plain, _) = check_thresholds(thresholds, {"auc": 0.85, "recall": 0.5}, None)
    assert plain.passed
    assert str(limit) in str(check)
    assert all(f"{end:.4g}" in str(check) for end in interval or ())


@pytest.mark.parametrize(
    ("direction", "name", "change", "passes"),
    [
        ("HIGHER_IS_BETTER", "auc", (-0.009, 0.02), True),
        ("HIGHER_IS_BETTER", "auc", (-0.011, 0.04), False),
        ("LOWER_IS_BETTER", "binary_crossentropy", (-0.02, 0.009), True),
        ("LOWER_IS_BETTER", "binary_crossentropy", (-0.04, 0.011), False),
    ],
)
def test_a_confident_comparison_uses_the_interval_of_the_difference(
    direction: str, name: str, change: tuple[float, float], passes: bool
) -> None:
    by = 0.01 if direction == "LOWER_IS_BETTER" else -0.01
    confidence = Confidence((name,), {name: (0.0, 1.0)}, {name: change})
    (check,) = check_thresholds({name: compared(by, direction)}, {name: 0.751}, {name: 0.75}, confidence)
    assert check.passed is passes
    assert check.interval == pytest.approx((0.75 + change[0], 0.75 + change[1]))


def _slices(values: dict[str, float], threshold: SliceThreshold, examples: int = 200) -> list[ThresholdCheck]:
    """The checks of a threshold on the slices of `town` with these values."""
    found: MetricValues = {
        ("m", (("town", town),)): {"example_count": examples, "auc": value} for town, value in values.items()
    }
    return check_slices(Measured(found, {}), "m", [("auc", ("town",), threshold)])


def test_a_slice_without_a_value_meets_no_bound_and_is_named() -> None:
    for bound in ({"min": 0.5}, {"max": 0.9}, {"max_gap": 0.5}):
        (check,) = _slices({"a": 0.8, "b": math.nan, "c": 0.7}, SliceThreshold.model_validate(bound))
        assert (check.passed, check.slice) == (False, "town = b")
        assert "town = b" in str(check)


def test_a_gap_needs_two_slices() -> None:
    (check,) = _slices({"a": 0.8}, SliceThreshold(max_gap=0.5))
    assert not check.passed
    assert "at most one slice by town" in str(check)
    assert all(check.passed for check in _slices({"a": 0.8}, SliceThreshold(min=0.5)))
    assert not _slices({"a": 0.8, "b": 0.7}, SliceThreshold(min=0.5), examples=99)[0].passed


SPREADS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0.3, 0.7), st.floats(0.001, 0.02)), min_size=2)


@given(SPREADS)
def test_a_confident_bound_holds_for_the_interval_of_each_slice_and_of_any_two(
    slices: dict[str, tuple[float, float]],
) -> None:
    measured = Measured({}, {})
    for town, (value, spread) in slices.items():
        key = ("m", (("town", town),))
        measured.values[key] = {"example_count": 200, "auc": value}
        measured.without[key] = [{"auc": value + spread * (1 if fold % 2 else -1)} for fold in range(20)]
    ends = {
        town: expit(logit(value) + np.array([-1, 1]) * 2.093 * math.sqrt(19) * spread / (value * (1 - value)))
        for town, (value, spread) in slices.items()
    }
    low, low_town = min((ends[town][0], town) for town in slices)
    high, high_town = max((ends[town][1], town) for town in slices)
    gap = max(
        slices[one][0] - slices[other][0] + math.hypot(ends[one][1] - slices[one][0], slices[other][0] - ends[other][0])
        for one in slices
        for other in slices
        if one != other
    )
    for given_, limit, by in (("min", low, 1e-9), ("max", high, -1e-9), ("max_gap", gap, -1e-9)):
        for sign, passes in ((-1, True), (1, False)):
            threshold = SliceThreshold.model_validate({given_: limit + sign * by})
            (check,) = check_slices(measured, "m", [("auc", ("town",), threshold)], ["auc"])
            assert (check.passed, check.confident) == (passes, True)
            assert check.interval is not None
            end = check.interval[0] if given_ == "min" else check.interval[1]
            assert end == pytest.approx(limit)
            worst = {"min": low_town, "max": high_town}.get(given_)
            assert worst is None or slices[check.slice[-1]] == slices[worst] or check.slice == f"town = {worst}"
            assert ("not all within" in str(check)) is not passes


def test_a_slice_without_an_interval_does_not_meet_a_confident_bound_and_is_named() -> None:
    found: MetricValues = {("m", (("town", town),)): {"example_count": 200, "auc": 1.0} for town in "ab"}
    without = {key: [{"auc": 1.0 - 0.01 * (key[1][0][1] == "a") * (fold % 2)} for fold in range(20)] for key in found}
    for bound in ({"min": 0.5}, {"max": 1.0}, {"max_gap": 0.5}):
        thresholds = [("auc", ("town",), SliceThreshold.model_validate(bound))]
        (check,) = check_slices(Measured(found, without), "m", thresholds, ["auc"])
        assert (check.passed, check.slice, check.interval) == (False, "town = b", None)
        assert "without a confidence interval" in str(check)


def test_a_threshold_on_slices_does_not_excuse_a_metric_without_a_value() -> None:
    checks = _slices({"a": 0.8, "b": 0.7}, SliceThreshold(min=0.5))
    assert [check.passed for check in checks] == [True]
    assert "auc has no value" in rejection_reasons(checks, {"auc": None})[0]


def test_an_evaluation_without_examples_is_not_blessed() -> None:
    config = config_pb2.EvalConfig(model_specs=[config_pb2.ModelSpec(name="candidate")])
    metric = config_pb2.MetricConfig(class_name="AUC", config='{"name": "auc"}')
    config.metrics_specs.append(config_pb2.MetricsSpec(metrics=[metric]))
    found = conclude([], Measured({}, {}), config, "eval", Requirements(better_than_constant=True))
    assert not found.blessed
    assert found.example_count == 0
    assert "nothing could be measured" in found.reasons[0]


@pytest.mark.parametrize(("kind", "outputs"), [("binary", 1), ("multiclass", 3), ("regression", 1), ("next_word", 3)])
@pytest.mark.parametrize("weight", [-0.05, 0.05])
def test_a_prediction_passes_on_the_side_of_the_constant_where_the_labels_are(
    kind: str, outputs: int, weight: float
) -> None:
    """Constant predictions, moved a little towards the labels or away from them."""
    labels = np.random.default_rng(5).integers(0, max(outputs, 2), 400).astype(float)
    if outputs > 1:
        shares = np.bincount(labels.astype(int)) / 400
        predictions = (1 - weight) * shares + weight * np.eye(outputs)[labels.astype(int)]
    else:
        predictions = ((1 - weight) * labels.mean() + weight * labels)[:, None]
    (accumulator,) = LABEL_METRICS[kind].accumulate(
        ExampleGroups(labels, predictions, np.zeros(400, np.int64), 1, np.ones(400))
    )
    check = compare_with_constant(LABEL_METRICS[kind], accumulator.total(), LOSSES[kind])
    assert (check.bound, check.passed) == ("better_than_constant", weight > 0)
    assert check.value is not None
    assert check.limit is not None
    assert (check.value < check.limit) is (weight > 0)


@pytest.mark.parametrize(("kind", "value"), [("regression", 0.1), ("regression", 7.0), ("binary", 1.0)])
def test_a_label_that_never_changes_is_told_instead_of_a_margin(kind: str, value: float) -> None:
    labels, predictions = np.full(400, value), np.full((400, 1), 0.9)
    groups = ExampleGroups(labels, predictions, np.zeros(400, np.int64), 1, np.ones(400))
    (accumulator,) = LABEL_METRICS[kind].accumulate(groups)
    (remark,) = size_remarks(LABEL_METRICS[kind], accumulator.total(), LOSSES[kind], "test")
    assert remark.startswith("the label has the same value in all 400 examples")


def test_a_margin_that_is_too_wide_is_told_with_the_interval() -> None:
    assert few_examples(Margin("auc", 0.81, 0.049, 0.05), "test", 900) == ()
    assert few_examples(None, "test", 3) == ()
    (remark,) = few_examples(Margin("auc", 0.8123, 0.0912, 0.05), "test", 57)
    assert "test split has only 57 examples" in remark
    assert "auc is 0.81 ± 0.09" in remark
    (remark,) = few_examples(Margin("auc", 0.998, 0.003, 0.05, rarer=2), "test", 600)
    assert "only 2 of 600 examples in the rarer class" in remark
    assert "`data.stratify`" in remark


def test_a_distance_exactly_at_its_limit_is_not_too_far() -> None:
    assert not DriftDistance("fare", "L-infinity", 0.3, 0.3).too_far
    assert DriftDistance("fare", "L-infinity", float(np.nextafter(0.3, 1)), 0.3).too_far


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (
            ThresholdCheck("mean_squared_error", "max", 12_000.0, 123_456.7, None, False),
            "mean_squared_error is 123,457, above max 12,000",
        ),
        (
            ThresholdCheck("mse", "better_than_constant", 45_678.9, 0.00001234, None, True),
            "mse is 0.00001234, below the best constant prediction's 45,679",
        ),
        (
            ThresholdCheck("mse", "relative_change", 30_000.0, 31_234.6, 29_000.0, False, True, (30_500.25, 32_000.0)),
            "mse is 31,235, with a 95% confidence interval from 30,500 to 32,000, not all within the limit 30,000,"
            " given the baseline's 29,000",
        ),
        (
            ThresholdCheck("mse", "max_gap", 1e5, 250_000.0, None, False, slicing="hour", slice="hour 1 and hour 2"),
            "mse differs by 250,000 between hour 1 and hour 2, above max_gap 100,000",
        ),
    ],
)
def test_a_check_writes_numbers_out(check: ThresholdCheck, expected: str) -> None:
    assert str(check) == expected
