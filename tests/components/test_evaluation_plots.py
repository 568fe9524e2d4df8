"""The plots of an evaluation against those of TFMA itself on the same predictions: weighted, overall and in slices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow_model_analysis as tfma
from evaluator_runs import analyzed, evaluate, predictions
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation import plots
from headrace.components.evaluation.metrics import probabilities
from headrace.components.evaluation.metrics.areas import LEAST
from headrace.components.evaluation.metrics.steps import MOST_STEPS, PredictedSteps
from headrace.components.evaluation.slices import SliceKey

BUCKETS, MATRICES, CLASSES = (
    "calibrationHistogramBuckets",
    "confusionMatrixAtThresholds",
    "multiClassConfusionMatrixAtThresholds",
)
OF_TFMA = {
    "binary": """
      metrics {{class_name: "CalibrationPlot" config: '"num_buckets": {steps}'}}
      metrics {{class_name: "ConfusionMatrixPlot" config: '"num_thresholds": {steps}'}}
    """,
    "multiclass": 'metrics {{class_name: "MultiClassConfusionMatrixPlot"}}',
    "regression": "metrics {{class_name: 'CalibrationPlot' config: '{steps}'}}",
}


def by_slice(found: Any) -> dict[str, Any]:
    """The plots of each slice by its value, "" being the whole split."""
    return {" ".join(str(value) for _, value in key): outputs[""][""] for key, outputs in found.plots}


def of_tfma(kind: str, data: Any, predicted: Any, steps: int | str) -> dict[str, Any]:
    """What TFMA counts, with as many steps as the plots of a slice have, or of the whole split; or with settings."""
    config = f"""
      model_specs {{label_key: "label" prediction_key: "prediction" example_weight_key: "weight"}}
      slicing_specs {{}} slicing_specs {{feature_keys: "hour"}}
      metrics_specs {{{OF_TFMA[kind].format(steps=steps)}}}
    """
    values = [*predicted] if predicted.shape[1] > 1 else predicted[:, 0]
    hours = [np.nan if row % 10 == 0 else hour for row, hour in enumerate(data["hour"])]
    frame = pd.DataFrame({"label": data[kind], "prediction": values, "hour": hours, "weight": data["w"]})
    return by_slice(analyzed(frame, text_format.Parse(config, config_pb2.EvalConfig())))


def rows(plot: Any, what: str, list_name: str) -> list[dict[str, float]]:
    """Buckets or matrices with 0 where protobuf leaves it out, and the values as numbers."""
    found = pd.json_normalize(plot[what][list_name]).fillna(0)
    return found.astype(float).rename(columns=lambda name: name.removesuffix(".value")).to_dict("records")


def same(ours: list[dict[str, float]], theirs: list[dict[str, float]], **close: float) -> None:
    """close: how far values of a name may be apart, as a fraction; 1e-9 for others."""
    assert len(ours) == len(theirs)
    for mine, its in zip(ours, theirs, strict=True):
        for name in mine.keys() | its.keys():
            expected = pytest.approx(its.get(name, 0.0), rel=close.get(name, 1e-9), abs=1e-12, nan_ok=True)
            assert mine.get(name, 0.0) == expected, (name, its)


@pytest.fixture(scope="module")
def written(examples: Any, models: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The evaluations of a weighted binary and multiclass label and of a number, by kind."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in OF_TFMA}
    for kind, folder in folders.items():
        evaluate(folder, kind, examples, models[kind], models[kind], weight="w")
    return {kind: folder / "evaluation" for kind, folder in folders.items()}


def test_calibration_and_matrices_equal_those_of_tfma_in_every_slice(written: Any, data: Any, models: Any) -> None:
    ours = by_slice(tfma.load_eval_result(str(written["binary"])))
    predicted = predictions(models["binary"], data)
    for steps, names in ((plots.WHOLE, {""}), (plots.OF_SLICE, {"0", "1", "2", "3"})):
        theirs = of_tfma("binary", data, predicted, steps)
        for name in names:
            its = theirs[name] if name in theirs else theirs[f"{name}.0"]
            buckets = [rows(each[name], BUCKETS, "buckets") for each in (ours, {name: its})]
            same(*buckets, totalWeightedRefinedPrediction=2.5e-4)
            assert len(buckets[0]) == steps + 2
            same(*(rows(each[name], MATRICES, "matrices") for each in (ours, {name: its})))


def test_matrices_of_classes_equal_those_of_tfma_in_every_slice(written: Any, data: Any, models: Any) -> None:
    ours = by_slice(tfma.load_eval_result(str(written["multiclass"])))
    theirs = of_tfma("multiclass", data, predictions(models["multiclass"], data), 1)
    for name in ("", "0", "1", "2", "3"):
        its = theirs[name] if name in theirs else theirs[f"{name}.0"]
        (mine,), (matrix,) = (each[CLASSES]["matrices"] for each in (ours[name], its))
        assert mine.get("threshold", 0) == matrix.get("threshold", 0) == 0
        same(*(pd.DataFrame(one["entries"]).fillna(0).to_dict("records") for one in (mine, matrix)))


def test_calibration_of_numbers_equals_that_of_tfma_in_every_slice(written: Any, data: Any, models: Any) -> None:
    ours = by_slice(tfma.load_eval_result(str(written["regression"])))
    predicted = predictions(models["regression"], data)
    assert ours.keys() == {"", "0", "1", "2", "3", "(missing)"}
    for name, most in (("", plots.WHOLE), ("2", plots.OF_SLICE)):
        mine = rows(ours[name], BUCKETS, "buckets")
        left, right = mine[0]["upperThresholdExclusive"], mine[-1]["lowerThresholdInclusive"]
        width = (right - left) / (len(mine) - 2)
        # as many buckets as TFMA can count exactly, which has 10,000 finer ones: the last are empty
        settings = {"num_buckets": most, "left": left, "right": left + most * width}
        theirs = of_tfma("regression", data, predicted, json.dumps(settings)[1:-1])
        its = rows(theirs[name] if name in theirs else theirs[f"{name}.0"], BUCKETS, "buckets")
        same(mine[:-1], its[: len(mine) - 1])
        assert not any(bucket["numWeightedExamples"] for bucket in [mine[-1], *its[len(mine) - 1 :]])
        assert most // 2 <= len(mine) - 2 <= most
        chosen = predicted if not name else predicted[(data["hour"] == 2) & (np.arange(len(predicted)) % 10 != 0)]
        assert left <= chosen.min() < left + width
        assert right - width <= chosen.max() < right


def test_predictions_that_are_no_numbers_have_no_plots(examples: Any, models: Any, tmp_path: Path) -> None:
    evaluate(tmp_path, "binary", examples, models["broken"])
    assert not (tmp_path / "evaluation" / "plots.tfrecord").exists()
    assert tfma.load_eval_result(str(tmp_path / "evaluation")).plots == []


NUMBERS = st.lists(st.floats(-1e30, 1e30) | st.floats(-9, 9, width=32) | st.integers(-5, 5).map(float), min_size=1)


@given(NUMBERS, st.integers(1, 5), st.randoms())
def test_steps_of_numbers_do_not_depend_on_the_parts(found: list[float], parts: int, random: Any) -> None:
    numbers, labels = np.array(found, np.float64), np.array([number % 3 - 1.0 for number in range(len(found))])
    weights = np.where(np.arange(len(found)) % 2, 1.5, 1.0)
    groups = np.array([random.randrange(parts) for _ in found])
    (whole,) = PredictedSteps.of_groups(labels, numbers, weights, np.zeros_like(groups), 1)
    each = PredictedSteps.of_groups(labels, numbers, weights, groups, parts)
    random.shuffle(each)
    merged = PredictedSteps.sum_of([PredictedSteps.sum_of(each[:2]), *each[2:]])
    assert (merged.exponent, merged.steps.tolist()) == (whole.exponent, whole.steps.tolist())
    np.testing.assert_allclose(merged.sums, whole.sums, rtol=1e-12, atol=1e-9 * np.abs(numbers).max())
    of_each = np.floor(numbers / 2.0**whole.exponent).astype(np.int64)
    assert whole.steps.tolist() == sorted(set(of_each.tolist()))
    assert whole.steps[-1] - whole.steps[0] < MOST_STEPS
    for step, (label, prediction, weight) in zip(whole.steps, whole.sums, strict=True):
        here = of_each == step
        assert weight == weights[here].sum()
        assert label == pytest.approx((labels * weights)[here].sum())
        assert prediction == pytest.approx((numbers * weights)[here].sum(), abs=1e-9 * np.abs(numbers).max())


def test_steps_leave_out_what_is_no_finite_number() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 2.5])
    ones, groups = np.ones(4), np.array([0, 0, 0, 1])
    none, one, empty = PredictedSteps.of_groups(ones, odd, ones, groups, 3)
    assert (len(none.steps), len(empty.steps)) == (0, 0)
    assert PredictedSteps.sum_of([none, empty, one]).sums.tolist() == [[1.0, 2.5, 1.0]]


def test_the_file_of_many_slices_is_bounded(written: Any) -> None:
    size = (written["binary"] / "plots.tfrecord").stat().st_size
    assert size < 150_000 + 5 * 16_000  # the whole split and five hours, one of which is missing
    many: dict[SliceKey, float] = {(("id", number),): float(number) for number in range(1000)}
    chosen = plots.plotted({(): 5000.0, **many})
    assert chosen == {(), *((("id", number),) for number in range(1000 - plots.MOST_PLOTTED, 1000))}
    assert plots.plotted({}) == set()


@given(st.lists(st.floats(0, 1, width=32) | st.floats(0, 1) | st.integers(0, 10_000).map(lambda step: step / 10_000)))
def test_buckets_rise_with_the_probability_and_end_at_every_step_of_the_grid(found: list[float]) -> None:
    ordered = np.sort(np.array(found, np.float64))
    buckets = probabilities.buckets_of(ordered)
    assert (np.diff(buckets) >= 0).all()
    steps = (10_000 * ordered).astype(int)  # as TFMA computes it
    counts = np.stack([np.ones(len(ordered)), np.zeros(len(ordered))], axis=1)
    grid = probabilities.linear(buckets, counts)
    assert grid.negatives.tolist() == np.bincount(steps, minlength=10_001).tolist()
    assert not grid.positives.any()
    least, middle = probabilities.least_of(buckets), probabilities.middle_of(buckets)
    assert (least <= ordered.clip(LEAST, 1 - LEAST) * (1 + 1e-9)).all()
    assert middle == pytest.approx(ordered, rel=2.5e-4, abs=1e-14)


def test_predictions_that_are_no_probabilities_are_in_the_first_and_the_last_bucket() -> None:
    odd = probabilities.buckets_of(np.array([np.nan, -0.5, 0.0, 1.0, 1.5]))
    assert odd[0] == odd[1] == odd[2] < odd[3] == odd[4]
