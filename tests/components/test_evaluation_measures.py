"""Metrics against independent NumPy computations, and the slices of a batch."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.components.evaluation.metrics import LABEL_METRICS
from headrace.components.evaluation.metrics.accumulator import MetricAccumulator, RunningTotal
from headrace.components.evaluation.slices import SliceKey, assign_slices, name_missing

Array = NDArray[np.float64]


def _whole(kind: str, labels: Array, predictions: Array, parts: int = 1) -> MetricAccumulator:
    groups = [np.zeros(len(part), np.int64) for part in np.array_split(labels, parts)]
    pieces = zip(np.array_split(labels, parts), np.array_split(predictions, parts), groups, strict=True)
    first, *others = (LABEL_METRICS[kind].accumulate(y, p, g, 1, np.ones(len(y)))[0] for y, p, g in pieces)
    return first.merge(others)


@given(st.lists(st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 1), st.integers(0, 3))), min_size=1))
@settings(deadline=None)
def test_histograms_and_sums_of_groups_are_those_of_all_batches(batches: list[list[tuple[int, int, int]]]) -> None:
    """Also those that are merged while more are added."""
    totals, expected = [RunningTotal() for _ in range(4)], np.zeros((4, 2, 81))
    losses: list[list[float]] = [[] for _ in range(4)]
    for batch in batches * 40:
        odds, labels, groups = np.array(batch, np.int64).reshape(-1, 3).T
        p = 1 / (1 + np.exp(-(odds + 0.5) / 16384))
        found = LABEL_METRICS["binary"].accumulate(labels.astype(float), p[:, None], groups, 4, np.ones(len(groups)))
        np.add.at(expected, (groups, labels, odds + 40), 1)
        for own, accumulator, total in zip(losses, found, totals, strict=True):
            total.add(accumulator)
            own.append(accumulator.sums[3])
    for histogram, own, total in zip(expected, losses, totals, strict=True):
        merged = total.merged()
        assert (np.diff(merged.buckets) > 0).all()
        np.testing.assert_array_equal(merged.counts, histogram[:, merged.buckets + 40].T)
        assert merged.counts.sum() == histogram.sum() == merged.sums[0]
        assert merged.sums[3] == sum(own)  # to the last bit: added in order


def _exact_auc(labels: Array, scores: Array) -> float:
    """The share of (positive, negative) pairs in the right order, ties as half."""
    positive, negative = scores[labels == 1][:, None], scores[labels == 0][None, :]
    return float(np.mean((positive > negative) + 0.5 * (positive == negative)))


@pytest.mark.parametrize("rate", [0.5, 0.05])
def test_binary_metrics_equal_an_independent_computation(rate: float) -> None:
    random = np.random.default_rng(3)
    labels = (random.random(5000) < rate).astype(float)
    p = 1 / (1 + np.exp(-(random.normal(size=5000) + labels + np.log(rate / (1 - rate)))))
    found = LABEL_METRICS["binary"].metrics(_whole("binary", labels, p[:, None], parts=7))
    above = p > 0.5
    assert found["auc"] == pytest.approx(_exact_auc(labels, p), abs=5e-6)
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
    found = LABEL_METRICS["binary"].metrics(_whole("binary", labels, p[:, None]))
    assert found["auc"] == pytest.approx(_exact_auc(labels, p), abs=5e-6)


def test_the_roc_curve_encloses_the_area_and_the_calibration_covers_every_example() -> None:
    random = np.random.default_rng(5)
    labels = (random.random(4000) < 0.4).astype(float)
    p = np.clip(0.4 * random.random(4000) + 0.5 * labels, 0, 1)
    accumulator = _whole("binary", labels, p[:, None])
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
    found = LABEL_METRICS["multiclass"].metrics(_whole("multiclass", labels, p, parts=3))
    one_hot = np.eye(4)[labels.astype(int)]
    assert found["accuracy"] == pytest.approx(np.mean(p.argmax(axis=1) == labels))
    assert found["crossentropy"] == pytest.approx(-np.mean(np.sum(one_hot * np.log(p), axis=1)))


def test_regression_metrics_equal_an_independent_computation() -> None:
    random = np.random.default_rng(2)
    labels = 100 + random.normal(size=1000)
    p = labels + 0.5 * random.normal(size=1000)
    found = LABEL_METRICS["regression"].metrics(_whole("regression", labels, p[:, None], parts=4))
    assert found["mean_squared_error"] == pytest.approx(np.mean((labels - p) ** 2))
    assert found["mean_absolute_error"] == pytest.approx(np.mean(np.abs(labels - p)))
    assert found["squared_correlation"] == pytest.approx(np.corrcoef(labels, p)[0, 1] ** 2)


def _log_loss_of_shares(labels: Array) -> float:
    shares = pd.Series(labels).value_counts(normalize=True)
    return float(-np.mean(np.log(shares[labels].to_numpy())))


def test_a_constant_prediction_is_measured_as_a_model_that_makes_it() -> None:
    random = np.random.default_rng(6)
    labels = (random.random(700) < 0.3).astype(float)
    p = random.random((700, 1))
    found = LABEL_METRICS["binary"].constant(_whole("binary", labels, p, parts=3))
    model = LABEL_METRICS["binary"].metrics(_whole("binary", labels, np.full((700, 1), labels.mean())))
    assert {"auc", "auc_precision_recall", "binary_accuracy", "binary_crossentropy"} == found.keys()
    assert found == pytest.approx({name: model[name] for name in found}, abs=1e-4)

    classes = random.choice(4, 900, p=[0.1, 0.2, 0.65, 0.05]).astype(float)
    found = LABEL_METRICS["multiclass"].constant(_whole("multiclass", classes, random.random((900, 4)), parts=5))
    assert found == pytest.approx({"accuracy": np.mean(classes == 2), "crossentropy": _log_loss_of_shares(classes)})

    numbers = random.gamma(2.0, 3.0, 500)
    found = LABEL_METRICS["regression"].constant(_whole("regression", numbers, random.random((500, 1)), parts=4))
    assert found == pytest.approx({"mean_squared_error": np.mean((numbers - numbers.mean()) ** 2)})


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
        margin = LABEL_METRICS[kind].margin(_whole(kind, labels, p))
        assert margin is not None
        assert margin.metric == metric
        values.append(margin.value)
        widths.append(margin.width)
    inside = np.mean(np.abs(np.array(values) - np.mean(values)) <= np.array(widths))
    assert 0.9 < inside < 0.99


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_the_correlation_keeps_a_spread_that_is_small_beside_the_mean(parts: int) -> None:
    random = np.random.default_rng(4)
    near = random.normal(size=1000).round(3)
    labels, p = 1e9 + near, 1e9 + (near + random.normal(size=1000)).round(3)
    found = LABEL_METRICS["regression"].metrics(_whole("regression", labels, p[:, None], parts))
    assert found["squared_correlation"] == pytest.approx(np.corrcoef(labels - 1e9, p - 1e9)[0, 1] ** 2, rel=1e-5)


def test_constant_labels_far_from_zero_have_no_correlation() -> None:
    found = LABEL_METRICS["regression"].metrics(_whole("regression", np.full(8, 1e9), np.arange(8.0)[:, None], parts=3))
    assert np.isnan(found["squared_correlation"])


def test_a_probability_of_exactly_one_half_counts_as_negative_as_in_keras() -> None:
    labels, p = np.array([0.0, 1.0, 1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.75, 0.25, np.nextafter(0.5, 1)])
    found = LABEL_METRICS["binary"].metrics(_whole("binary", labels, p[:, None]))
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
        alone = LABEL_METRICS["binary"].metrics(_whole("binary", labels[:4], p[:4, None]))
        assert alone[name] == pytest.approx(float(metric.result())), name


def test_a_certain_and_wrong_probability_has_the_greatest_loss_and_not_none() -> None:
    labels, p = np.array([0.0, 1.0]), np.array([[1.0], [0.0]])
    loss = LABEL_METRICS["binary"].metrics(_whole("binary", labels, p))["binary_crossentropy"]
    assert loss == pytest.approx(-np.log(1e-7), rel=1e-6)
    both = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert LABEL_METRICS["multiclass"].metrics(_whole("multiclass", 1 - np.arange(2.0), both))["crossentropy"] == (
        pytest.approx(-np.log(1e-7), rel=1e-6)
    )


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_predictions_that_are_not_numbers_give_no_metric_a_value(kind: str) -> None:
    labels = np.array([0.0, 1.0, 1.0])
    predictions = np.array([[0.2, 0.8], [np.nan, np.nan], [0.6, 0.4]])
    found = LABEL_METRICS[kind].metrics(_whole(kind, labels, predictions))
    assert all(np.isnan(value) for value in found.values())


def test_metrics_that_divide_by_nothing_have_no_value() -> None:
    found = LABEL_METRICS["binary"].metrics(_whole("binary", np.zeros(3), np.full((3, 1), 0.1)))
    assert [name for name, value in found.items() if np.isnan(value)] == [
        "auc",
        "auc_precision_recall",
        "calibration",
        "precision",
        "recall",
    ]
    constant = LABEL_METRICS["regression"].metrics(_whole("regression", np.arange(3.0), np.full((3, 1), 2.0)))
    assert np.isnan(constant["squared_correlation"])


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=50), st.integers(1, 5))
@settings(deadline=None)
def test_how_the_examples_are_batched_makes_no_difference(examples: list[tuple[bool, float]], parts: int) -> None:
    labels, p = np.array(examples, dtype=float).T
    whole = LABEL_METRICS["binary"].metrics(_whole("binary", labels, p[:, None]))
    split = LABEL_METRICS["binary"].metrics(_whole("binary", labels, p[:, None], min(parts, len(labels))))
    assert split == pytest.approx(whole, nan_ok=True)


Row = tuple[int | None, str | None, float | None]


def _batch(rows: Iterable[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    types = (pa.list_(pa.int64()), pa.list_(pa.binary()), pa.list_(pa.float32()))
    arrays = [
        pa.array(
            [[] if value is None else [value.encode() if isinstance(value, str) else value] for value in column], kind
        )
        for column, kind in zip(columns, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["hour", "company", "fare"])


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-2, 2),
        st.none() | st.sampled_from(["a", "é", ""]),
        st.none() | st.sampled_from([0.5, 2.0]),
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(
    ROWS, st.sampled_from([(), ("hour",), ("company",), ("fare",), ("hour", "company"), ("fare", "company", "hour")])
)
def test_each_row_is_in_the_slice_of_its_values(rows: list[Row], columns: tuple[str, ...]) -> None:
    found = assign_slices(_batch(rows), columns)
    for row, group in zip(rows, found.groups, strict=True):
        values = dict(zip(("hour", "company", "fare"), row, strict=True))
        expected = tuple((column, None if values[column] == "" else values[column]) for column in sorted(columns))
        assert found.keys[group] == expected
    assert len(set(found.keys)) == len(found.keys)


@settings(deadline=None)
@given(ROWS, st.sampled_from([("hour",), ("company",), ("fare",), ("hour", "company"), ("fare", "company", "hour")]))
def test_the_rows_of_the_slices_are_those_of_pandas_groupby_with_missing_values(
    rows: list[Row], columns: tuple[str, ...]
) -> None:
    found = assign_slices(_batch(rows), columns)
    frame = pd.DataFrame(rows, columns=["hour", "company", "fare"], dtype=object)
    expected = frame.replace("", None).fillna("missing").groupby(sorted(columns), dropna=False).size().to_dict()
    counts = np.bincount(found.groups, minlength=len(found.keys)).tolist()
    assert sum(counts) == len(rows)
    assert {
        tuple("missing" if value is None else value for _, value in key): count
        for key, count in zip(found.keys, counts, strict=True)
    } == {key if isinstance(key, tuple) else (key,): count for key, count in expected.items()}


def test_the_rows_of_a_column_that_is_absent_or_without_values_are_one_slice() -> None:
    batch = pa.RecordBatch.from_pydict({"x": pa.nulls(3), "y": pa.array([[1.0], None, [float("nan")]])})
    for name in ("x", "z"):
        assert assign_slices(batch, [name]).groups.tolist() == [0, 0, 0]
        assert assign_slices(batch, [name]).keys == [((name, None),)]
    found = assign_slices(batch, ["y"])
    assert [found.keys[group] for group in found.groups] == [(("y", 1.0),), (("y", None),), (("y", None),)]


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ([[b""], [], [b"a"], None, [b"", b"a"]], pa.binary(), [None, None, "a", None, None]),
        ([[-(2**63)], [0], []], pa.int64(), [None, 0, None]),
        ([[0.0], [-0.0], [float("nan")], [1.5]], pa.float32(), [0.0, 0.0, None, 1.5]),
        ([[b"\xff"], [b"\xfe"], [b"\\xff"], [b"\xff"]], pa.binary(), ["\\xff", "\\xfe", "\\xff", "\\xff"]),
    ],
)
def test_slices_have_the_features_meaning_of_missing_and_each_key_once(
    column: list[list[Any] | None], kind: pa.DataType, expected: list[Any]
) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(column, pa.list_(kind))], names=["x"])
    found = assign_slices(batch, ["x"])
    assert [found.keys[group] for group in found.groups] == [(("x", value),) for value in expected]
    assert len(set(found.keys)) == len(found.keys)


def test_a_missing_value_differs_from_a_text_that_says_so() -> None:
    keys: list[SliceKey] = [(), (("a", "(missing)"),), (("a", None),), (("b", None),)]
    assert list(name_missing(keys).values()) == [
        (),
        (("a", "(missing)"),),
        (("a", "((missing))"),),
        (("b", "(missing)"),),
    ]
