"""The metrics of the Evaluator, against NumPy, scikit-learn and stock TFX."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import tensorflow_model_analysis as tfma
from evaluator_runs import ROWS, InProcess, Stock, evaluate, predictions, run
from plain_shards import unpacked
from scipy.special import expit, logit
from tensorflow_model_analysis.proto import config_pb2
from tfx.components.evaluator.executor import Executor as StockExecutor

from headrace.common.errors import RunError
from headrace.configs.schema.evaluate import Threshold


def test_binary_metrics_equal_numpy_over_the_whole_and_every_slice(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    evaluation, blessing = evaluate(tmp_path, "binary", examples, models["binary"])
    p, y = 1 / (1 + np.exp(-data["a"].astype(float))), data["binary"]
    present = np.arange(ROWS) % 10 != 0
    assert (evaluation.split, evaluation.example_count, evaluation.unlabelled) == ("test", ROWS, 0)
    assert [each.name for each in evaluation.slices] == [*(f"hour = {hour}" for hour in range(4)), "hour = (missing)"]
    assert sum(each.example_count for each in evaluation.slices) == ROWS
    chosen = [np.ones(ROWS, bool), *(present & (data["hour"] == hour) for hour in range(4)), ~present]
    judged: list[Any] = [evaluation, *evaluation.slices]
    for rows, each in zip(chosen, judged, strict=True):
        assert each.example_count == rows.sum()
        logloss = -np.mean(np.log(np.where(y == 1, p, 1 - p)[rows]))
        positive, negative = p[rows & (y == 1)][:, None], p[rows & (y == 0)][None, :]
        assert each.metrics["binary_crossentropy"] == pytest.approx(logloss, rel=1e-5)
        assert each.metrics["binary_accuracy"] == pytest.approx(np.mean((p > 0.5)[rows] == y[rows]))
        one_tie = 0.5 / (positive.size * negative.size)  # two predictions in one bucket, which rounding may decide
        assert each.metrics["auc"] == pytest.approx(np.mean(positive > negative), abs=3.01 * one_tie)
    assert evaluation.blessed
    assert evaluation.curves is not None
    assert blessing.get_string_custom_property("current_model") == models["binary"].uri


@pytest.mark.parametrize(("required", "blessed"), [(0.6, True), (0.99, False)])
def test_accuracy_among_the_two_most_probable_classes_decides_on_the_blessing(
    data: Any, examples: Any, models: Any, tmp_path: Path, required: float, blessed: bool
) -> None:
    thresholds = {"top_2_accuracy": Threshold(min=required)}
    evaluation, _ = evaluate(tmp_path, "multiclass", examples, models["multiclass"], thresholds=thresholds)
    p, y = predictions(models["multiclass"], data), data["multiclass"].astype(int)
    among = [label in np.argsort(-row)[:2] for row, label in zip(p, y, strict=True)]
    assert evaluation.metrics["top_2_accuracy"] == pytest.approx(np.mean(among))
    assert 0.6 < np.mean(among) < 0.99
    assert evaluation.blessed is blessed
    low, high = evaluation.intervals["top_2_accuracy"]
    assert 0.6 < low < np.mean(among) < high < 1
    stored = tfma.load_eval_result(str(tmp_path / "evaluation")).get_metrics_for_slice()
    assert stored["top_2_accuracy"]["boundedValue"]["value"] == pytest.approx(np.mean(among))


def test_multiclass_metrics_equal_numpy(data: Any, examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = evaluate(tmp_path, "multiclass", examples, models["multiclass"])
    scores = np.exp(data["a"].astype(float)[:, None] * 1.5 * np.array([-1, 0, 1]))
    p, y = scores / scores.sum(axis=1, keepdims=True), data["multiclass"].astype(int)
    assert evaluation.metrics == {
        "accuracy": pytest.approx(np.mean(p.argmax(axis=1) == y)),
        "crossentropy": pytest.approx(-np.mean(np.log(p[np.arange(ROWS), y])), rel=1e-5),
        **_by_class(y, p.argmax(axis=1)),
    }
    assert evaluation.confusion is not None
    np.testing.assert_array_equal(
        evaluation.confusion.counts, sklearn.metrics.confusion_matrix(y, p.argmax(axis=1), labels=range(3))
    )


@pytest.mark.parametrize("weight", [None, "w"])
def test_areas_of_classes_equal_scikit_learn_in_every_slice_and_may_decide(
    data: Any, examples: Any, models: Any, tmp_path: Path, weight: str | None
) -> None:
    thresholds = {"macro_auc": Threshold(min=0.99), "weighted_auc": Threshold(min=0.6, confident=True)}
    evaluation, blessing = evaluate(
        tmp_path, "multiclass", examples, models["multiclass"], weight=weight, thresholds=thresholds
    )
    scores = np.exp(data["a"].astype(float)[:, None] * 1.5 * np.array([-1, 0, 1]))
    p, y = scores / scores.sum(axis=1, keepdims=True), data["multiclass"].astype(int)
    present = np.arange(ROWS) % 10 != 0
    chosen = [np.ones(ROWS, bool), *(present & (data["hour"] == hour) for hour in range(4)), ~present]
    judged: list[Any] = [evaluation, *evaluation.slices]
    for rows, each in zip(chosen, judged, strict=True):
        w = None if weight is None else data[weight][rows]
        counts = np.bincount(y[rows])
        one_tie = 0.5 / np.min(
            counts * (rows.sum() - counts)
        )  # two predictions in one bucket, as in that of two classes
        for average in ("macro", "weighted"):
            expected = sklearn.metrics.roc_auc_score(
                y[rows], p[rows], multi_class="ovr", average=average, sample_weight=w
            )
            assert each.metrics[f"{average}_auc"] == pytest.approx(expected, abs=6 * one_tie)
            low, high = each.intervals[f"{average}_auc"]
            assert low < expected < high
    (reason,) = evaluation.reasons
    assert reason.startswith("macro_auc is 0.")
    assert reason.endswith("below min 0.99")
    assert not blessing.get_int_custom_property("blessed")
    assert len(evaluation.classes) == 3
    assert evaluation.constant["macro_auc"] == 0.5


def _by_class(y: np.ndarray, predicted: np.ndarray, weights: np.ndarray | None = None) -> dict[str, Any]:
    """The macro averages, by scikit-learn."""
    scores = sklearn.metrics.precision_recall_fscore_support(
        y, predicted, sample_weight=weights, average="macro", zero_division=0
    )
    return {
        f"macro_{name}": pytest.approx(value)
        for name, value in zip(("precision", "recall", "f1"), scores[:3], strict=True)
    }


@pytest.mark.parametrize("weight", ["w", "some"])
def test_weighted_metrics_and_constants_equal_scikit_learn_over_the_whole_and_every_slice(
    data: Any, examples: Any, models: Any, tmp_path: Path, weight: str
) -> None:
    p, y = 1 / (1 + np.exp(-data["a"].astype(float))), data["binary"].astype(int)
    w = data[weight].astype(float)
    evaluation, _ = evaluate(tmp_path, "binary", examples, models["binary"], weight=weight)
    chosen = [np.ones(ROWS, bool), *((np.arange(ROWS) % 10 != 0) & (data["hour"] == hour) for hour in range(4))]
    judged: list[Any] = [evaluation, *evaluation.slices]
    for rows, each in zip(chosen, judged, strict=False):
        assert each.example_count == np.sum(rows & (w > 0))
        of_rows = {"y_true": y[rows], "sample_weight": w[rows]}
        above = {**of_rows, "y_pred": p[rows] > 0.5}
        one_tie = 0.5 * w.max() ** 2 / np.prod([np.sum(w[rows & (y == label)]) for label in (0, 1)])
        assert each.metrics == {
            "auc": pytest.approx(sklearn.metrics.roc_auc_score(y_score=p[rows], **of_rows), abs=3.01 * one_tie),
            "auc_precision_recall": pytest.approx(
                sklearn.metrics.average_precision_score(y_score=p[rows], **of_rows), abs=2e-2
            ),
            "binary_accuracy": pytest.approx(sklearn.metrics.accuracy_score(**above)),
            "binary_crossentropy": pytest.approx(sklearn.metrics.log_loss(y_pred=p[rows], **of_rows), rel=1e-5),
            "calibration": pytest.approx(np.sum((w * p)[rows]) / np.sum((w * y)[rows])),
            "precision": pytest.approx(sklearn.metrics.precision_score(**above)),
            "recall": pytest.approx(sklearn.metrics.recall_score(**above)),
            "f1": pytest.approx(sklearn.metrics.f1_score(**above)),
        }
        assert set(each.intervals) <= set(each.metrics)
        for name, (low, high) in each.intervals.items():
            assert low <= each.metrics[name] <= high
    share = np.full(ROWS, np.average(y, weights=w))
    constant = sklearn.metrics.log_loss(y, share, sample_weight=w)
    assert evaluation.constant["binary_crossentropy"] == pytest.approx(constant)
    (check,) = evaluation.checks
    assert [check.bound, check.limit] == ["better_than_constant", pytest.approx(constant)]
    assert check.value == evaluation.metrics["binary_crossentropy"]


def test_weighted_metrics_of_other_labels_equal_scikit_learn(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    w = data["some"].astype(float)
    evaluation, _ = evaluate(tmp_path / "m", "multiclass", examples, models["multiclass"], weight="some")
    scores = np.exp(data["a"].astype(float)[:, None] * 1.5 * np.array([-1, 0, 1]))
    p, y = scores / scores.sum(axis=1, keepdims=True), data["multiclass"].astype(int)
    assert evaluation.metrics == {
        "accuracy": pytest.approx(sklearn.metrics.accuracy_score(y, p.argmax(axis=1), sample_weight=w)),
        "crossentropy": pytest.approx(sklearn.metrics.log_loss(y, p, sample_weight=w), rel=1e-5),
        **_by_class(y, p.argmax(axis=1), w),
    }
    assert evaluation.constant["accuracy"] == pytest.approx(np.bincount(y, w).max() / w.sum())
    evaluation, _ = evaluate(tmp_path / "r", "regression", examples, models["regression"], weight="some")
    predicted, y = 0.9 * data["a"].astype(float), data["regression"].astype(float)
    covariance = np.cov(predicted, y, aweights=w)
    assert evaluation.metrics == {
        "mean_squared_error": pytest.approx(sklearn.metrics.mean_squared_error(y, predicted, sample_weight=w)),
        "root_mean_squared_error": pytest.approx(
            sklearn.metrics.root_mean_squared_error(y, predicted, sample_weight=w)
        ),
        "mean_absolute_error": pytest.approx(sklearn.metrics.mean_absolute_error(y, predicted, sample_weight=w)),
        "r_squared": pytest.approx(sklearn.metrics.r2_score(y, predicted, sample_weight=w)),
        "squared_correlation": pytest.approx(covariance[0, 1] ** 2 / covariance[0, 0] / covariance[1, 1]),
    }
    variance = np.average((y - np.average(y, weights=w)) ** 2, weights=w)
    assert evaluation.constant["mean_squared_error"] == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize(("weight", "found"), [("a", "the first is -"), ("absent", "600 of 600|300 of 300")])
def test_an_invalid_weight_is_refused_with_its_column(
    examples: Any, models: Any, tmp_path: Path, weight: str, found: str
) -> None:
    with pytest.raises(RunError, match=rf"label.weight: column '{weight}', split test: .*({found})"):
        evaluate(tmp_path, "binary", examples, models["binary"], weight=weight)


def test_regression_metrics_equal_numpy(data: Any, examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = evaluate(tmp_path, "regression", examples, models["regression"])
    p, y = 0.9 * data["a"].astype(float), data["regression"].astype(float)
    assert evaluation.metrics == {
        "mean_squared_error": pytest.approx(np.mean((p - y) ** 2), rel=1e-5),
        "root_mean_squared_error": pytest.approx(np.sqrt(np.mean((p - y) ** 2)), rel=1e-5),
        "mean_absolute_error": pytest.approx(np.mean(np.abs(p - y)), rel=1e-5),
        "r_squared": pytest.approx(1 - np.mean((p - y) ** 2) / np.var(y), rel=1e-5),
        "squared_correlation": pytest.approx(np.corrcoef(p, y)[0, 1] ** 2, rel=1e-5),
    }


@pytest.mark.parametrize("executor", [InProcess, pytest.param(Stock, marks=pytest.mark.slow)])
def test_examples_without_compression_give_the_same(
    examples: Any, models: Any, tmp_path: Path, executor: type[StockExecutor]
) -> None:
    plain = {"binary": unpacked(examples["binary"], tmp_path / "examples")}
    metrics = []
    for name, given in (("plain", plain), ("packed", examples)):
        run(executor, tmp_path / name, "binary", given, models["binary"])
        result = tfma.load_eval_result(str(tmp_path / name / "evaluation"))
        values = {(slice_, name): value for slice_, by in result.slicing_metrics for name, value in by[""][""].items()}
        metrics.append({key: _value(value) for key, value in values.items()})
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-4)
    missing = {(("hour", "(missing)"),)} if executor is InProcess else set()
    assert {slice_ for slice_, _ in metrics[0]} == {(), *((("hour", hour),) for hour in range(4))} | missing


def _value(loaded: Any) -> float:
    """A metric as TFMA's loader has it, with an interval or without."""
    return float(loaded["boundedValue"]["value"] if "boundedValue" in loaded else loaded["doubleValue"])


def test_tfma_loads_the_intervals_of_both_models_and_of_their_differences(
    examples: Any, models: Any, tmp_path: Path
) -> None:
    evaluation, _ = evaluate(tmp_path, "binary", examples, models["binary"], models["worse"])
    result = tfma.load_eval_result(str(tmp_path / "evaluation"), model_name="candidate")
    loaded = {
        ", ".join(f"{name} = {value}" for name, value in key): each[""][""] for key, each in result.slicing_metrics
    }
    judged: dict[str, Any] = {"": evaluation} | {each.name: each for each in evaluation.slices}
    assert {*loaded} == {*judged}
    for name, of_slice in loaded.items():
        bounded = {metric: each["boundedValue"] for metric, each in of_slice.items() if "boundedValue" in each}
        found = {metric: (each.get("lowerBound", 0), each.get("upperBound", 0)) for metric, each in bounded.items()}
        changes = {f"{metric}_diff": each for metric, each in judged[name].change.items()}
        assert found == {**judged[name].intervals, **changes}
        assert {"auc", "auc_diff", "binary_accuracy"} <= found.keys()
        assert bounded["auc"]["value"] == judged[name].metrics["auc"]
        assert "doubleValue" in of_slice["example_count"]
    (whole, *_) = tfma.load_metrics(str(tmp_path / "evaluation"))
    of_both = {
        (each.key.model_name, each.key.is_diff): each for each in whole.metric_keys_and_values if each.key.name == "auc"
    }
    assert {*of_both} == {("candidate", False), ("baseline", False), ("candidate", True)}
    for each in of_both.values():
        interval = each.confidence_interval
        width = scipy.stats.t.ppf(0.975, interval.degrees_of_freedom.value) * interval.standard_error.double_value.value
        value = each.value.double_value.value
        ends = np.array([-width, width])
        ends = value + ends if each.key.is_diff else expit(logit(value) + ends / (value * (1 - value)))
        assert interval.lower_bound.double_value.value == pytest.approx(ends[0], rel=1e-3)
        assert interval.upper_bound.double_value.value == pytest.approx(ends[1], rel=1e-3)
    options = result.config.options
    assert options.compute_confidence_intervals.value
    assert options.confidence_intervals.method == config_pb2.ConfidenceIntervalOptions.JACKKNIFE


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, "w"])
def test_metrics_slices_and_verdict_equal_stock_tfx_with_a_baseline(
    examples: Any, models: Any, tmp_path: Path, weight: str | None
) -> None:
    change = Threshold(min=0.1, not_worse_than_baseline_by=0.05)
    arguments: Any = ("binary", examples, models["worse"], models["binary"])
    ours, blessing = evaluate(tmp_path / "ours", *arguments, thresholds={"auc": change}, weight=weight)
    stock = run(Stock, tmp_path / "stock", *arguments, thresholds={"auc": change}, weight=weight)
    for name in ("blessed", "current_model", "baseline_model"):
        assert blessing.mlmd_artifact.custom_properties[name] == stock.mlmd_artifact.custom_properties[name]
    assert not ours.blessed
    for model in ("candidate", "baseline"):
        results = [
            {
                slice_: metrics[""][""]
                for slice_, metrics in tfma.load_eval_result(str(path), model_name=model).slicing_metrics
            }
            for path in (tmp_path / "ours" / "evaluation", tmp_path / "stock" / "evaluation")
        ]
        assert set(results[1]) == {(), *((("hour", hour),) for hour in range(4))}
        assert set(results[0]) == set(results[1]) | {(("hour", "(missing)"),)}
        for slice_, expected in results[1].items():
            if weight:  # ours stays the number of examples, TFMA's is the sum of their weights
                counts = [name for name in expected if name.startswith("example_count")]
                expected |= {f"weighted_{name}": expected[name] for name in counts}
                expected["example_count"] = results[0][slice_]["example_count"]
            found = {name: _value(value) for name, value in results[0][slice_].items()}
            close = {
                name: pytest.approx(_value(value), abs=2e-3 if name.startswith("auc") else 1e-6)
                for name, value in expected.items()
            }
            assert found == close


def test_confusion_matrix_is_at_the_threshold_of_the_config_without_a_metric_at_it(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    metrics = ("auc", "precision@0.7")
    evaluation, _ = evaluate(tmp_path, "binary", examples, models["binary"], metrics=metrics, decision_threshold=0.3)
    y, p = data["binary"], 1 / (1 + np.exp(-data["a"].astype(float)))
    assert evaluation.metrics.keys() == {*metrics}
    assert evaluation.metrics["precision@0.7"] == pytest.approx(sklearn.metrics.precision_score(y, p > 0.7))
    assert evaluation.decision_threshold == 0.3
    assert evaluation.confusion is not None
    np.testing.assert_array_equal(evaluation.confusion.counts, sklearn.metrics.confusion_matrix(y, p > 0.3))


def test_decisions_are_made_at_the_threshold_of_the_config(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    metrics = ("precision", "recall", "f1", "specificity", "balanced_accuracy", "matthews_correlation")
    evaluation, _ = evaluate(tmp_path, "binary", examples, models["binary"], metrics=metrics, decision_threshold=0.7)
    y, above = data["binary"], 1 / (1 + np.exp(-data["a"].astype(float))) > 0.7
    assert evaluation.metrics == {
        "precision": pytest.approx(sklearn.metrics.precision_score(y, above)),
        "recall": pytest.approx(sklearn.metrics.recall_score(y, above)),
        "f1": pytest.approx(sklearn.metrics.f1_score(y, above)),
        "specificity": pytest.approx(sklearn.metrics.recall_score(y, above, pos_label=0)),
        "balanced_accuracy": pytest.approx(sklearn.metrics.balanced_accuracy_score(y, above)),
        "matthews_correlation": pytest.approx(sklearn.metrics.matthews_corrcoef(y, above)),
    }
    assert evaluation.decision_threshold == 0.7
    assert evaluation.confusion is not None
    np.testing.assert_array_equal(evaluation.confusion.counts, sklearn.metrics.confusion_matrix(y, above))
