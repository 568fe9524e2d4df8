"""What the Evaluator blesses and refuses, with the reason."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import tensorflow as tf
from evaluator_runs import ROWS, evaluate
from messages import says
from tfx.types import artifact_utils, standard_artifacts

from headrace.common.errors import RunError
from headrace.components.evaluation.intervals import folds_of
from headrace.components.evaluation.metrics.accumulator import FOLDS
from headrace.configs.schema.evaluate import SliceThreshold, Threshold


def test_a_model_worse_than_the_baseline_is_refused_with_the_reason(examples: Any, models: Any, tmp_path: Path) -> None:
    thresholds = {"auc": Threshold(not_worse_than_baseline_by=0.01), "binary_accuracy": Threshold(min=0.9, max=0.95)}
    arguments: Any = ("binary", examples, models["worse"], models["binary"])
    given: Any = {"metrics": ("auc",), "thresholds": thresholds, "better_than_constant": False}
    evaluation, blessing = evaluate(tmp_path, *arguments, **given)
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
    assert evaluate(tmp_path / "same", *arguments, models["binary"], thresholds=thresholds)[0].blessed
    better, _ = evaluate(tmp_path / "better", *arguments, models["worse"], thresholds=thresholds)
    assert better.blessed
    assert all(check.passed for check in better.checks)


def test_a_model_no_better_than_a_constant_prediction_is_blessed_only_if_the_config_says_so(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    evaluation, _ = evaluate(tmp_path / "refused", "binary", examples, models["worse"], metrics=("auc",))
    p, share = 1 / (1 + np.exp(data["a"].astype(float))), data["binary"].mean()
    loss = -np.mean(np.log(np.where(data["binary"] == 1, p, 1 - p)))
    best = -share * np.log(share) - (1 - share) * np.log(1 - share)
    (check,) = evaluation.checks
    assert (check.metric, check.bound, check.passed) == ("binary_crossentropy", "better_than_constant", False)
    assert [check.value, check.limit] == pytest.approx([loss, best], rel=1e-5)
    (reason,) = evaluation.reasons
    assert says(reason, f"binary_crossentropy is {loss:.4g}, …constant …{best:.4g}")
    assert list(evaluation.metrics) == ["auc"]
    given: Any = {"metrics": ("auc",), "better_than_constant": False}
    evaluation, _ = evaluate(tmp_path / "blessed", "binary", examples, models["worse"], **given)
    assert (evaluation.blessed, evaluation.checks) == (True, ())


def test_a_bound_that_must_hold_with_confidence_is_held_against_the_interval(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    """The interval of the AUC is that of an independent jackknife over the same folds."""
    given: Any = ("binary", examples, models["binary"])
    plain, _ = evaluate(tmp_path / "plain", *given)
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
        evaluation, _ = evaluate(tmp_path / str(passes), *given, thresholds=thresholds)
        assert evaluation.blessed is passes
        assert evaluation.checks[0].interval == (low, high)
    same, _ = evaluate(
        tmp_path / "same",
        *given,
        models["binary"],
        thresholds={"auc": Threshold(not_worse_than_baseline_by=0, confident=True)},
    )
    assert (same.blessed, same.change["auc"]) == (True, (0.0, 0.0))


def test_each_slice_must_reach_its_bounds_and_none_be_far_from_another(
    data: Any, examples: Any, models: Any, tmp_path: Path
) -> None:
    plain, _ = evaluate(tmp_path / "plain", "binary", examples, models["binary"])
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
        evaluation, _ = evaluate(tmp_path / str(number), "binary", examples, models["binary"], thresholds=thresholds)
        check = evaluation.checks[0]
        assert (check.bound, check.slicing, check.slice, check.passed) == (*given, "hour", name, passes)
        assert check.value == pytest.approx(value)
        assert evaluation.blessed is passes
    ends = {each.name: each.intervals["auc"] for each in plain.slices if each.name in values}
    widest = min(ends, key=lambda name: ends[name][0])
    thresholds = {"auc": Threshold(slices={"hour": SliceThreshold(min=ends[widest][0] + 1e-6)}, confident=True)}
    evaluation, _ = evaluate(tmp_path / "sure", "binary", examples, models["binary"], thresholds=thresholds)
    assert (evaluation.checks[0].slice, evaluation.checks[0].interval) == (widest, ends[widest])
    assert not evaluation.blessed
    every = {"auc": Threshold(slices={"hour": SliceThreshold(min=0.1, min_examples=ROWS)})}
    evaluation, _ = evaluate(tmp_path / "none", "binary", examples, models["binary"], thresholds=every)
    assert not evaluation.blessed
    assert "no slice by hour has enough examples" in evaluation.reasons[0]


def test_a_baseline_that_learned_from_the_evaluated_span_is_told(examples: Any, models: Any, tmp_path: Path) -> None:
    held_out = {kind: _copy(examples[kind], standard_artifacts.Examples()) for kind in examples}
    roles = {"train": {"2026-11-28": 20785}, "test": {"2026-11-29": 20786, "2026-11-30": 20787}}
    held_out["binary"].set_string_custom_property("split_spans", json.dumps(roles))
    for learned, told in (([20784, 20785], ""), ([20785, 20786], "the baseline learned from 2026-11-29, ")):
        baseline = _copy(models["binary"], standard_artifacts.Model())
        baseline.set_string_custom_property("trained_on", json.dumps(learned))
        evaluation, _ = evaluate(tmp_path / str(len(told)), "binary", held_out, models["binary"], baseline)
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
    evaluation, blessing = evaluate(tmp_path, "binary", examples, models["binary"], absent, thresholds=thresholds)
    assert (evaluation.blessed, evaluation.baseline) == (True, None)
    assert [check.bound for check in evaluation.checks] == ["better_than_constant"]
    assert not blessing.has_custom_property("baseline_model")


def test_predictions_that_are_not_numbers_are_refused_even_without_thresholds(
    examples: Any, models: Any, tmp_path: Path
) -> None:
    evaluation, _ = evaluate(tmp_path, "binary", examples, models["broken"], metrics=("auc", "precision"))
    assert not evaluation.blessed
    assert evaluation.metrics == {"auc": None, "precision": None}
    assert [reason.split(":")[0] for reason in evaluation.reasons] == [
        "binary_crossentropy has no value to compare with better_than_constant",
        "auc has no value",
    ]


def test_a_threshold_on_a_metric_without_a_value_is_not_met(examples: Any, models: Any, tmp_path: Path) -> None:
    thresholds = {"precision": Threshold(max=1.0)}
    evaluation, _ = evaluate(
        tmp_path, "binary", examples, models["broken"], metrics=("precision",), thresholds=thresholds
    )
    reason, _ = evaluation.reasons
    assert reason.startswith("precision has no value ")
    assert reason.endswith(" max")


def test_a_baseline_for_other_classes_is_named_with_the_way_out(examples: Any, models: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError) as error:
        evaluate(tmp_path, "multiclass", examples, models["multiclass"], models["regression"])
    assert f"the model {models['regression'].uri}/Format-Serving was made for another label" in str(error.value)
    assert "Delete blessed.json in the pipeline" in str(error.value)


def test_a_split_without_examples_is_refused(models: Any, tmp_path: Path) -> None:
    artifact = standard_artifacts.Examples()
    artifact.uri, artifact.split_names = str(tmp_path), artifact_utils.encode_split_names(["test"])
    (tmp_path / "Split-test").mkdir()
    tf.io.TFRecordWriter(str(tmp_path / "Split-test" / "data_tfrecord-00000-of-00001.gz"), "GZIP").close()
    evaluation, _ = evaluate(tmp_path, "binary", {"binary": artifact}, models["binary"])
    (reason,) = evaluation.reasons
    assert "no example with a label" in reason
