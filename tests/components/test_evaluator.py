"""The Evaluator, on exported Keras models and real examples, against NumPy and against stock TFX."""

import json
import math
import zlib
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import scipy.stats
import sklearn.base
import sklearn.metrics
import tensorflow as tf
import tensorflow_model_analysis as tfma
from plain_models import export
from plain_shards import unpacked
from sklearn.inspection import permutation_importance
from sklearn.inspection._partial_dependence import _partial_dependence_brute
from tfx.components.evaluator.executor import Executor as StockExecutor
from tfx.types import Channel, artifact_utils, standard_artifacts

from headrace.common.errors import RunError
from headrace.components.evaluation import component
from headrace.components.evaluation.importance import REPEATS, SEED
from headrace.components.evaluation.intervals import folds_of, mixed_positions
from headrace.components.evaluation.metrics.accumulator import FOLDS
from headrace.components.evaluation.result import BAND, Evaluation, read_evaluation
from headrace.configs.schema.evaluate import EvaluateConfig, SliceThreshold, Threshold
from headrace.configs.schema.label import LabelConfig

ROWS = 600
RAW = ("a", "hour", "w", "some")
LABELS = {
    "binary": LabelConfig(key="y", kind="binary"),
    "multiclass": LabelConfig(key="y", kind="multiclass", classes=3),
    "regression": LabelConfig(key="y", kind="regression"),
}


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    """A drives every label; hour is there to slice by, and missing in every tenth row; w and some are weights."""
    random = np.random.default_rng(0)
    a = random.normal(size=ROWS).astype(np.float32)
    noisy = a + random.normal(size=ROWS)
    classes: np.ndarray = np.digitize(noisy, [-0.5, 0.5])
    labels: dict[str, np.ndarray] = {"binary": noisy > 0, "multiclass": classes, "regression": noisy}
    hour: np.ndarray = random.integers(0, 4, ROWS)
    weights = {"w": random.choice([0.5, 1, 3], ROWS), "some": random.choice([0.0, 0.25, 2], ROWS)}
    return {"a": a, "hour": hour} | {k: v.astype(np.float32) for k, v in (labels | weights).items()}


@pytest.fixture(scope="module")
def examples(data: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An Examples artifact for each kind of label, in two shards; the split to evaluate is `test`."""
    made = {}
    for kind in LABELS:
        artifact = standard_artifacts.Examples()
        artifact.uri = str(tmp_path_factory.mktemp(f"examples-{kind}"))
        artifact.split_names = artifact_utils.encode_split_names(["train", "test"])
        for shard in (0, 1):
            path = Path(artifact.uri) / "Split-test" / f"data_tfrecord-{shard:05}-of-00002.gz"
            path.parent.mkdir(exist_ok=True)
            with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
                for row in range(shard, ROWS, 2):
                    writer.write(
                        _example({"y": data[kind][row], **{k: data[k][row] for k in RAW}}, missing=row % 10 == 0)
                    )
        made[kind] = artifact
    return made


def _example(values: dict[str, float], *, missing: bool) -> bytes:
    example = tf.train.Example()
    for name, value in values.items():
        if name != "hour":
            example.features.feature[name].float_list.value.append(value)
    example.features.feature["hour"].int64_list.value.extend([] if missing else [int(values["hour"])])
    return example.SerializeToString()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("models")
    return {
        "binary": export(root / "binary", "binary", 1.0),
        "worse": export(root / "worse", "binary", -1.0),
        "broken": export(root / "broken", "binary", math.nan),
        "multiclass": export(root / "multiclass", "multiclass", 1.5, outputs=3),
        "regression": export(root / "regression", "regression", 0.9),
    }


class _InProcess(component.Executor):
    def _make_beam_pipeline(self) -> beam.Pipeline:
        return beam.Pipeline(runner="FnApiRunner")


class _Stock(StockExecutor):
    def _make_beam_pipeline(self) -> beam.Pipeline:
        return beam.Pipeline(runner="FnApiRunner")


def _run(  # noqa: PLR0917
    executor: Any,
    directory: Path,
    kind: str,
    examples: Any,
    model: Any,
    baseline: Any = None,
    *,
    weight: str | None = None,
    rows: int = 0,
    **evaluate: Any,
) -> Any:
    """Execute the component as a runner would; the blessing."""
    node = component.evaluator(
        examples=Channel(standard_artifacts.Examples),
        model=Channel(standard_artifacts.Model),
        baseline=Channel(standard_artifacts.Model),
        label=LABELS[kind].model_copy(update={"weight": weight}),
        evaluate=EvaluateConfig(slices=("hour",), **evaluate),
        split="test",
        rows=rows,
    )
    evaluation, blessing = standard_artifacts.ModelEvaluation(), standard_artifacts.ModelBlessing()
    evaluation.uri, blessing.uri = str(directory / "evaluation"), str(directory / "blessing")
    inputs = {"examples": [examples[kind]], "model": [model]} | ({"baseline_model": [baseline]} if baseline else {})
    outputs = {"evaluation": [evaluation], "blessing": [blessing]}
    executor().Do(inputs, outputs, node.exec_properties)
    return blessing


def _evaluate(directory: Path, *args: Any, **kwargs: Any) -> tuple[Evaluation, Any]:
    blessing = _run(_InProcess, directory, *args, **kwargs)
    evaluation = read_evaluation(directory / "evaluation")
    assert blessing.get_int_custom_property("blessed") == int(evaluation.blessed)
    assert (directory / "blessing" / ("BLESSED" if evaluation.blessed else "NOT_BLESSED")).exists()
    assert tfma.load_validation_result(str(directory / "evaluation")).validation_ok == evaluation.blessed
    return evaluation, blessing


def test_binary_metrics_equal_numpy_over_the_whole_and_every_slice(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    evaluation, blessing = _evaluate(tmp_path, "binary", examples, models["binary"])
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


def test_multiclass_metrics_equal_numpy(data: Any, examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = _evaluate(tmp_path, "multiclass", examples, models["multiclass"])
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
    evaluation, _ = _evaluate(tmp_path, "binary", examples, models["binary"], weight=weight)
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
    evaluation, _ = _evaluate(tmp_path / "m", "multiclass", examples, models["multiclass"], weight="some")
    scores = np.exp(data["a"].astype(float)[:, None] * 1.5 * np.array([-1, 0, 1]))
    p, y = scores / scores.sum(axis=1, keepdims=True), data["multiclass"].astype(int)
    assert evaluation.metrics == {
        "accuracy": pytest.approx(sklearn.metrics.accuracy_score(y, p.argmax(axis=1), sample_weight=w)),
        "crossentropy": pytest.approx(sklearn.metrics.log_loss(y, p, sample_weight=w), rel=1e-5),
        **_by_class(y, p.argmax(axis=1), w),
    }
    assert evaluation.constant["accuracy"] == pytest.approx(np.bincount(y, w).max() / w.sum())
    evaluation, _ = _evaluate(tmp_path / "r", "regression", examples, models["regression"], weight="some")
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
        _evaluate(tmp_path, "binary", examples, models["binary"], weight=weight)


def test_regression_metrics_equal_numpy(data: Any, examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = _evaluate(tmp_path, "regression", examples, models["regression"])
    p, y = 0.9 * data["a"].astype(float), data["regression"].astype(float)
    assert evaluation.metrics == {
        "mean_squared_error": pytest.approx(np.mean((p - y) ** 2), rel=1e-5),
        "root_mean_squared_error": pytest.approx(np.sqrt(np.mean((p - y) ** 2)), rel=1e-5),
        "mean_absolute_error": pytest.approx(np.mean(np.abs(p - y)), rel=1e-5),
        "r_squared": pytest.approx(1 - np.mean((p - y) ** 2) / np.var(y), rel=1e-5),
        "squared_correlation": pytest.approx(np.corrcoef(p, y)[0, 1] ** 2, rel=1e-5),
    }


@pytest.mark.parametrize("executor", [_InProcess, pytest.param(_Stock, marks=pytest.mark.slow)])
def test_examples_without_compression_give_the_same(
    examples: Any, models: Any, tmp_path: Path, executor: type[StockExecutor]
) -> None:
    plain = {"binary": unpacked(examples["binary"], tmp_path / "examples")}
    metrics = []
    for name, given in (("plain", plain), ("packed", examples)):
        _run(executor, tmp_path / name, "binary", given, models["binary"])
        result = tfma.load_eval_result(str(tmp_path / name / "evaluation"))
        values = {(slice_, name): value for slice_, by in result.slicing_metrics for name, value in by[""][""].items()}
        metrics.append({key: value["doubleValue"] for key, value in values.items()})
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-4)
    missing = {(("hour", "(missing)"),)} if executor is _InProcess else set()
    assert {slice_ for slice_, _ in metrics[0]} == {(), *((("hour", hour),) for hour in range(4))} | missing


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, "w"])
def test_metrics_slices_and_verdict_equal_stock_tfx_with_a_baseline(
    examples: Any, models: Any, tmp_path: Path, weight: str | None
) -> None:
    change = Threshold(min=0.1, not_worse_than_baseline_by=0.05)
    arguments: Any = ("binary", examples, models["worse"], models["binary"])
    ours, blessing = _evaluate(tmp_path / "ours", *arguments, thresholds={"auc": change}, weight=weight)
    stock = _run(_Stock, tmp_path / "stock", *arguments, thresholds={"auc": change}, weight=weight)
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
                expected["example_count"] = results[0][slice_]["example_count"]
            found = {name: value["doubleValue"] for name, value in results[0][slice_].items()}
            close = {
                name: pytest.approx(value["doubleValue"], abs=2e-3 if name.startswith("auc") else 1e-6)
                for name, value in expected.items()
            }
            assert found == close


def test_a_model_worse_than_the_baseline_is_refused_with_the_reason(examples: Any, models: Any, tmp_path: Path) -> None:
    thresholds = {"auc": Threshold(not_worse_than_baseline_by=0.01), "binary_accuracy": Threshold(min=0.9, max=0.95)}
    arguments: Any = ("binary", examples, models["worse"], models["binary"])
    given: Any = {"metrics": ("auc",), "thresholds": thresholds, "better_than_constant": False}
    evaluation, blessing = _evaluate(tmp_path, *arguments, **given)
    assert list(evaluation.metrics) == ["auc", "binary_accuracy"]
    assert evaluation.baseline is not None
    auc, best = evaluation.metrics["auc"], evaluation.baseline["auc"]
    assert auc is not None
    assert best is not None
    assert best == pytest.approx(1 - auc, abs=3e-5)  # a few ties
    assert [(each.metric, each.bound, each.passed) for each in evaluation.checks] == [
        ("auc", "not_worse_than_baseline_by", False),
        ("binary_accuracy", "min", False),
        ("binary_accuracy", "max", True),
    ]
    assert evaluation.reasons[0].startswith(f"auc is {auc:.4g}, below {best - 0.01:.4g}")
    assert f"baseline's {best:.4g}" in evaluation.reasons[0]
    assert evaluation.reasons[1].endswith("below min 0.9")
    assert blessing.get_string_custom_property("baseline_model") == models["binary"].uri


def test_a_model_as_good_as_the_baseline_is_blessed_also_where_lower_is_better(
    examples: Any, models: Any, tmp_path: Path
) -> None:
    thresholds = {name: Threshold(not_worse_than_baseline_by=0) for name in ("auc", "binary_crossentropy")}
    arguments: Any = ("binary", examples, models["binary"])
    assert _evaluate(tmp_path / "same", *arguments, models["binary"], thresholds=thresholds)[0].blessed
    better, _ = _evaluate(tmp_path / "better", *arguments, models["worse"], thresholds=thresholds)
    assert better.blessed
    assert all(check.passed for check in better.checks)


def test_a_model_no_better_than_a_constant_prediction_is_blessed_only_if_the_config_says_so(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    evaluation, _ = _evaluate(tmp_path / "refused", "binary", examples, models["worse"], metrics=("auc",))
    p, share = 1 / (1 + np.exp(data["a"].astype(float))), data["binary"].mean()
    loss = -np.mean(np.log(np.where(data["binary"] == 1, p, 1 - p)))
    best = -share * np.log(share) - (1 - share) * np.log(1 - share)
    (check,) = evaluation.checks
    assert (check.metric, check.bound, check.passed) == ("binary_crossentropy", "better_than_constant", False)
    assert [check.value, check.limit] == pytest.approx([loss, best], rel=1e-5)
    assert evaluation.reasons == (
        f"binary_crossentropy is {loss:.4g}, not below the best constant prediction's {best:.4g}",
    )
    assert list(evaluation.metrics) == ["auc"]
    given: Any = {"metrics": ("auc",), "better_than_constant": False}
    evaluation, _ = _evaluate(tmp_path / "blessed", "binary", examples, models["worse"], **given)
    assert (evaluation.blessed, evaluation.checks) == (True, ())


def test_a_bound_that_must_hold_with_confidence_is_held_against_the_interval(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    """The interval of the AUC is that of an independent jackknife over the same folds."""
    given: Any = ("binary", examples, models["binary"])
    plain, _ = _evaluate(tmp_path / "plain", *given)
    low, high = plain.intervals["auc"]
    folds = np.empty(ROWS, int)
    for shard in (0, 1):
        name = f"data_tfrecord-{shard:05}-of-00002.gz"
        folds[shard::2] = folds_of(0, ROWS // 2, zlib.crc32(name.encode()))
    p, y = data["a"], data["binary"]
    without = [sklearn.metrics.roc_auc_score(y[folds != fold], p[folds != fold]) for fold in range(FOLDS)]
    width = scipy.stats.t.ppf(0.975, FOLDS - 1) * np.sqrt((FOLDS - 1) * np.var(without))
    assert (high - low) / 2 == pytest.approx(width, rel=0.01)
    for least, passes in ((low - 0.001, True), (low + 0.001, False)):
        thresholds = {"auc": Threshold(min=least, confident=True)}
        evaluation, _ = _evaluate(tmp_path / str(passes), *given, thresholds=thresholds)
        assert evaluation.blessed is passes
        assert evaluation.checks[0].interval == (low, high)
    same, _ = _evaluate(
        tmp_path / "same",
        *given,
        models["binary"],
        thresholds={"auc": Threshold(not_worse_than_baseline_by=0, confident=True)},
    )
    assert (same.blessed, same.change["auc"]) == (True, (0.0, 0.0))


def test_each_slice_must_reach_its_bounds_and_none_be_far_from_another(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    plain, _ = _evaluate(tmp_path / "plain", "binary", examples, models["binary"])
    values = {each.name: each.metrics["auc"] or 0.0 for each in plain.slices if each.example_count >= 100}
    assert 2 <= len(values) < len(plain.slices)  # those without an hour are too few to be judged
    lowest, highest = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    gap = values[highest] - values[lowest]
    for number, (given, passes, value, name) in enumerate((
        ({"min": values[lowest] - 1e-6}, True, values[lowest], lowest),
        ({"min": values[lowest] + 1e-6}, False, values[lowest], lowest),
        ({"max": values[highest] + 1e-6}, True, values[highest], highest),
        ({"max": values[highest] - 1e-6}, False, values[highest], highest),
        ({"max_gap": gap + 1e-6}, True, gap, f"{lowest} and {highest}"),
        ({"max_gap": gap - 1e-6}, False, gap, f"{lowest} and {highest}"),
    )):  # fmt: skip
        thresholds = {"auc": Threshold(slices={"hour": SliceThreshold.model_validate(given)})}
        evaluation, _ = _evaluate(tmp_path / str(number), "binary", examples, models["binary"], thresholds=thresholds)
        check = evaluation.checks[0]
        assert (check.bound, check.slicing, check.slice, check.passed) == (*given, "hour", name, passes)
        assert check.value == pytest.approx(value)
        assert evaluation.blessed is passes
    every = {"auc": Threshold(slices={"hour": SliceThreshold(min=0.1, min_examples=ROWS)})}
    evaluation, _ = _evaluate(tmp_path / "none", "binary", examples, models["binary"], thresholds=every)
    assert not evaluation.blessed
    assert "no slice by hour has enough examples" in evaluation.reasons[0]


def test_decisions_are_made_at_the_threshold_of_the_config(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    metrics = ("precision", "recall", "f1", "specificity", "balanced_accuracy", "matthews_correlation")
    evaluation, _ = _evaluate(tmp_path, "binary", examples, models["binary"], metrics=metrics, decision_threshold=0.7)
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


def test_a_baseline_that_learned_from_the_evaluated_span_is_told(examples: Any, models: Any, tmp_path: Path) -> None:
    held_out = {kind: _copy(examples[kind], standard_artifacts.Examples()) for kind in examples}
    roles = {"train": {"2026-11-28": 20785}, "test": {"2026-11-29": 20786, "2026-11-30": 20787}}
    held_out["binary"].set_string_custom_property("split_spans", json.dumps(roles))
    for learned, told in (([20784, 20785], ""), ([20785, 20786], "the baseline learned from 2026-11-29, ")):
        baseline = _copy(models["binary"], standard_artifacts.Model())
        baseline.set_string_custom_property("trained_on", json.dumps(learned))
        evaluation, _ = _evaluate(tmp_path / str(len(told)), "binary", held_out, models["binary"], baseline)
        found = [remark for remark in evaluation.remarks if "baseline" in remark]
        assert [remark.startswith(told) for remark in found] == [True] * bool(told)


def _copy(artifact: Any, new: Any) -> Any:
    new.copy_from(artifact)
    return new


def test_without_a_blessed_model_there_is_nothing_to_be_worse_than(examples: Any, models: Any, tmp_path: Path) -> None:
    absent = standard_artifacts.Model()
    absent.uri = str(tmp_path / "empty")
    absent.set_int_custom_property("exists", 0)
    thresholds = {"auc": Threshold(not_worse_than_baseline_by=0.0)}
    evaluation, blessing = _evaluate(tmp_path, "binary", examples, models["binary"], absent, thresholds=thresholds)
    assert (evaluation.blessed, evaluation.baseline) == (True, None)
    assert [check.bound for check in evaluation.checks] == ["better_than_constant"]
    assert not blessing.has_custom_property("baseline_model")


def test_predictions_that_are_not_numbers_are_refused_even_without_thresholds(
    examples: Any, models: Any, tmp_path: Path
) -> None:
    evaluation, _ = _evaluate(tmp_path, "binary", examples, models["broken"], metrics=("auc", "precision"))
    assert not evaluation.blessed
    assert evaluation.metrics == {"auc": None, "precision": None}
    assert [reason.split(":")[0] for reason in evaluation.reasons] == [
        "binary_crossentropy has no value to compare with better_than_constant",
        "auc has no value",
    ]


def test_a_threshold_on_a_metric_without_a_value_is_not_met(examples: Any, models: Any, tmp_path: Path) -> None:
    thresholds = {"precision": Threshold(max=1.0)}
    evaluation, _ = _evaluate(
        tmp_path, "binary", examples, models["broken"], metrics=("precision",), thresholds=thresholds
    )
    reason, _ = evaluation.reasons
    assert reason.startswith("precision has no value ")
    assert reason.endswith(" max")


def test_a_baseline_for_other_classes_is_named_with_the_way_out(examples: Any, models: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError) as error:
        _evaluate(tmp_path, "multiclass", examples, models["multiclass"], models["regression"])
    assert f"the model {models['regression'].uri}/Format-Serving was made for another label" in str(error.value)
    assert "Delete blessed.json in the pipeline" in str(error.value)


def test_a_split_without_examples_is_refused(models: Any, tmp_path: Path) -> None:
    artifact = standard_artifacts.Examples()
    artifact.uri, artifact.split_names = str(tmp_path), artifact_utils.encode_split_names(["test"])
    (tmp_path / "Split-test").mkdir()
    tf.io.TFRecordWriter(str(tmp_path / "Split-test" / "data_tfrecord-00000-of-00001.gz"), "GZIP").close()
    evaluation, _ = _evaluate(tmp_path, "binary", {"binary": artifact}, models["binary"])
    (reason,) = evaluation.reasons
    assert "no example with a label" in reason


def test_the_worst_examples_are_those_with_the_highest_losses_whatever_the_order_of_files(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    for kind in LABELS:
        evaluation, _ = _evaluate(tmp_path / kind, kind, examples, models[kind], rows=7)
        p, y = _predictions(models[kind], data), data[kind].astype(np.float32)
        losses = {
            "binary": lambda p, y: -np.log(np.where(y == 1, p[:, 0], 1 - p[:, 0])),
            "multiclass": lambda p, y: -np.log(p[np.arange(ROWS), y.astype(int)]),
            "regression": lambda p, y: (p[:, 0] - y) ** 2,
        }[kind](p, y)
        worst = np.argsort(-losses)[:7]
        assert evaluation.worst is not None
        assert evaluation.worst.columns[0] == "a"  # the only column that matters
        found = [row.values[evaluation.worst.columns.index("a")] for row in evaluation.worst.rows]
        assert found == [np.format_float_positional(data["a"][row], trim="-") for row in worst]
        assert [row.loss for row in evaluation.worst.rows] == pytest.approx(losses[worst].tolist(), rel=1e-5)
        hours = [row.values[evaluation.worst.columns.index("hour")] for row in evaluation.worst.rows]
        assert hours == [None if row % 10 == 0 else str(data["hour"][row]) for row in worst]
        if kind == "regression":
            assert [row.error for row in evaluation.worst.rows] == pytest.approx((p[:, 0] - y)[worst].tolist())
            assert [float(row.label) for row in evaluation.worst.rows] == pytest.approx(y[worst].tolist())
        else:
            predicted = p[worst, 0] > 0.5 if kind == "binary" else p[worst].argmax(axis=1)
            assert [row.prediction for row in evaluation.worst.rows] == [str(int(one)) for one in predicted]
            assert [row.label for row in evaluation.worst.rows] == [str(int(one)) for one in y[worst]]


def test_without_rows_the_evaluation_has_no_value_of_the_data(examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = _evaluate(tmp_path, "binary", examples, models["binary"])
    assert evaluation.worst is None
    assert evaluation.explanation.dependence == ()
    assert next(one.column for one in evaluation.explanation.importance) == "a"


def test_numbers_are_compared_as_numpy_does(data: Any, examples: Any, models: Any, tmp_path: Path) -> None:
    evaluation, _ = _evaluate(tmp_path, "regression", examples, models["regression"], importance="none", weight="w")
    found, w = evaluation.agreement, data["w"].astype(float)
    p, y = _predictions(models["regression"], data)[:, 0].astype(float), data["regression"].astype(float)
    assert found is not None
    assert found.examples == ROWS
    edges = np.array(found.edges)
    cells, _, _ = np.histogram2d(p, y, bins=[edges, edges], weights=w)
    shown = np.zeros_like(cells)
    for x, row, count in found.cells:
        shown[x, row] = count
    np.testing.assert_allclose(shown, cells)
    assert found.outside == pytest.approx(1 - cells.sum() / w.sum())
    assert found.outside < 0.02
    for band, part in zip(found.bands, np.array_split(np.argsort(p, kind="stable"), 10), strict=True):
        assert band.prediction == pytest.approx(np.average(p[part], weights=w[part]))
        expected = np.quantile((p - y)[part], BAND, weights=w[part], method="inverted_cdf")
        assert band.errors == pytest.approx(tuple(expected))
    assert evaluation.explanation.importance == ()


class _Sklearn(sklearn.base.ClassifierMixin, sklearn.base.BaseEstimator):
    """The exported model as scikit-learn calls one: rows of `columns` to probabilities, or to numbers."""

    def __init__(self, model: Any = None, columns: tuple[str, ...] = (), kind: str = "") -> None:
        self.model, self.columns, self.kind = model, columns, kind
        self.classes_ = np.arange(3 if kind == "multiclass" else 2)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, *_: Any) -> "_Sklearn":
        return self

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        p = _called(self.model, [dict(zip(self.columns, row, strict=True)) for row in rows])
        return np.column_stack([1 - p[:, 0], p[:, 0]]) if self.kind == "binary" else p

    def predict(self, rows: np.ndarray) -> np.ndarray:
        return _called(self.model, [dict(zip(self.columns, row, strict=True)) for row in rows])[:, 0]


class _SklearnRegressor(sklearn.base.RegressorMixin, _Sklearn):
    """The same with the tag of a regressor, by which scikit-learn calls `predict`."""


def _called(model: Any, rows: list[dict[str, float]]) -> np.ndarray:
    """The predictions of an exported model, [rows, outputs]."""
    loaded = tf.saved_model.load(str(Path(model.uri) / "Format-Serving"))
    serialized = [_example({"hour": 0.0, **row}, missing=False) for row in rows]
    found = loaded.signatures["serving_default"](examples=tf.constant(serialized))["predictions"]
    return found.numpy().astype(np.float64).reshape(len(rows), -1)


def _predictions(model: Any, data: Any) -> np.ndarray:
    return _called(model, [{"a": data["a"][row]} for row in range(ROWS)])


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Models of two columns that are not additive, so that permuting either matters."""
    root = tmp_path_factory.mktemp("on-two")
    outputs = {"multiclass": 3}
    return {kind: export(root / kind, kind, 0.5, outputs.get(kind, 1), times="w") for kind in LABELS}


@pytest.mark.parametrize("kind", LABELS)
def test_importance_and_partial_dependence_equal_scikit_learn_s(
    data: Any, examples: Any, on_two: Any, tmp_path: Path, kind: str
) -> None:
    evaluation, _ = _evaluate(tmp_path, kind, examples, on_two[kind], rows=1, importance=ROWS)
    found, order = evaluation.explanation, _sample_order()
    assert (found.examples, found.repeats) == (ROWS, REPEATS)
    columns = ("a", "w")
    rows = np.column_stack([data["a"], data["w"]])[order].astype(np.float64)
    labels = data[kind].astype(np.float32)[order]
    labels = labels if kind == "regression" else labels.astype(int)
    model = (_SklearnRegressor if kind == "regression" else _Sklearn)(on_two[kind], columns, kind)
    scorer = {"regression": "neg_mean_squared_error"}.get(kind, "neg_log_loss")
    expected = permutation_importance(model, rows, labels, scoring=scorer, n_repeats=REPEATS, random_state=SEED)
    by_column = {one.column: one for one in found.importance}
    assert {"a", "w", "hour", "some"} == by_column.keys()
    for place, column in enumerate(columns):
        assert by_column[column].increase == pytest.approx(expected.importances_mean[place], rel=1e-4)
        error = expected.importances[place].std(ddof=1) / math.sqrt(REPEATS)
        assert by_column[column].error == pytest.approx(error, rel=1e-3)
        assert by_column[column].increase > 0
    assert (by_column["hour"].increase, by_column["some"].increase) == pytest.approx((0, 0), abs=1e-9)
    assert {one.column for one in found.dependence} == {*columns}
    for one in found.dependence:
        assert one.values == tuple(sorted(one.values))
        place, grid = columns.index(one.column), np.array(one.values)[:, None]
        method = "predict" if kind == "regression" else "predict_proba"
        means, _ = _partial_dependence_brute(model, grid, [place], rows, method)
        means = means if kind == "multiclass" else means[-1:]
        np.testing.assert_allclose(np.array(one.predictions).T, means, rtol=1e-5)
        assert one.classes == {"binary": (1,), "multiclass": (0, 1, 2), "regression": ()}[kind]
    assert {one.column: one.values for one in found.dependence}["w"] == (0.5, 1.0, 3.0)


def _sample_order() -> np.ndarray:
    """The rows as the sample has them."""
    drawn = np.zeros(ROWS, np.uint64)
    for shard in (0, 1):
        name = f"data_tfrecord-{shard:05}-of-00002.gz"
        drawn[shard::2] = mixed_positions(0, ROWS // 2, zlib.crc32(name.encode()))
    return np.argsort(drawn)
