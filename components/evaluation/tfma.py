"""The EvalConfig of TFMA that `evaluate:` amounts to, and what is read from one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tensorflow_model_analysis.proto import config_pb2

from headrace.configs.schema.evaluate import EvaluateConfig, Threshold
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.metrics import (
    AT_TARGET,
    DECISION_METRICS,
    METRICS,
    ON_REQUEST,
    TOP_K,
    key_in_metrics,
    lower_is_better,
    split_level,
    top_k,
)
from headrace.trainer.served_model import PREDICTIONS, SCORE, ModelCall, task_output

_LABEL_KINDS = {name: kind for kind, metrics in METRICS.items() for name in metrics.values()}
"""The kind of label for each of TFMA's metric classes."""
_USUAL_THRESHOLD = 0.5
"""The decision threshold of a config in which no metric has one."""
_THRESHOLD_ALONE = "decision_threshold"
"""The name of the metric that only has the decision threshold."""


def eval_config(label: LabelConfig, evaluate: EvaluateConfig, call: ModelCall | None = None) -> config_pb2.EvalConfig:
    """The EvalConfig with metrics (named as in the config), slices and thresholds.

    call: the signatures of the model; None for those that Headrace exports. Thresholds are set for the whole split
    alone: with `MetricConfig.threshold`, the smallest slice could block a model.
    """
    if label.tasks is not None:
        return _of_tasks(label, evaluate)
    call = call or own_call(label)
    model = config_pb2.ModelSpec(
        signature_name=call.signature_name,
        label_key=call.label_key,
        preprocessing_function_names=[call.preprocessing_function_name],
        prediction_key=call.prediction_key or "",
        example_weight_key=label.weight or "",
    )
    return config_pb2.EvalConfig(
        model_specs=[model],
        slicing_specs=[config_pb2.SlicingSpec(), *map(_slicing_spec, evaluate.slices)],
        metrics_specs=[config_pb2.MetricsSpec(metrics=_metric_configs(label, evaluate))],
    )


def _of_tasks(label: LabelConfig, evaluate: EvaluateConfig) -> config_pb2.EvalConfig:
    """One with the metrics of each task as those of an output of its name."""
    each = {name: eval_config(part, evaluate.of_task(name), own_call(part, name)) for name, part in label.parts.items()}
    whole = config_pb2.EvalConfig()
    whole.CopyFrom(next(iter(each.values())))
    del whole.metrics_specs[:]
    (model,) = whole.model_specs
    model.label_key = model.prediction_key = ""
    for name, one in each.items():
        model.label_keys[name], model.prediction_keys[name] = (
            one.model_specs[0].label_key,
            one.model_specs[0].prediction_key,
        )
        whole.metrics_specs.add(output_names=[name], metrics=one.metrics_specs[0].metrics)
    return whole


def by_task(config: config_pb2.EvalConfig) -> dict[str, config_pb2.EvalConfig]:
    """The config of each task as if its label were the only one; of one label, the config itself, by the name ""."""
    if not config.metrics_specs[0].output_names:
        return {"": config}
    found = {}
    for spec in config.metrics_specs:
        (name,) = spec.output_names
        found[name] = one = config_pb2.EvalConfig()
        one.CopyFrom(config)
        del one.metrics_specs[:]
        one.metrics_specs.add(metrics=spec.metrics)
        for model in one.model_specs:
            model.label_key, model.prediction_key = model.label_keys[name], model.prediction_keys[name]
            model.ClearField("label_keys")
            model.ClearField("prediction_keys")
    return found


def own_call(label: LabelConfig, task: str = "") -> ModelCall:
    """The signatures of a model that Headrace exports. That of a text label predicts the words of each label.

    task: the name of the label if there are several.
    """
    name = SCORE if label.kind == "text" else ModelCall.signature_name
    return ModelCall(label.key, signature_name=name, prediction_key=task_output(task, PREDICTIONS))


def model_call(spec: config_pb2.ModelSpec) -> ModelCall:
    """What is called of a model, as `eval_config` describes it."""
    (preprocessing,) = spec.preprocessing_function_names
    key = spec.prediction_key if spec.prediction_key != PREDICTIONS else ""  # a replaced Trainer may have another name
    return ModelCall(spec.label_key, spec.signature_name, preprocessing, key or None)


def metric_names(label: LabelConfig, evaluate: EvaluateConfig) -> tuple[str, ...]:
    """The metrics in the config (by default all for the label's kind), and those that have thresholds."""
    usual = tuple(name for name in METRICS[label.kind] if name not in ON_REQUEST.get(label.kind, ()))
    named = evaluate.metrics or usual
    return tuple(dict.fromkeys((*named, *evaluate.thresholds)))


def _metric_configs(label: LabelConfig, evaluate: EvaluateConfig) -> list[config_pb2.MetricConfig]:
    count, names = config_pb2.MetricConfig(class_name="ExampleCount"), metric_names(label, evaluate)
    metrics = [count, *(_metric_config(label.kind, name, evaluate) for name in names)]
    decisions = DECISION_METRICS.get(label.kind, frozenset())
    if decisions and decisions.isdisjoint(names) and evaluate.decision_threshold != _USUAL_THRESHOLD:
        metrics.append(_threshold_alone(label.kind, evaluate.decision_threshold))
    return metrics


def _threshold_alone(kind: str, threshold: float) -> config_pb2.MetricConfig:
    """A metric that is not computed, but has the threshold of the confusion matrix, which no other metric has."""
    base = min(DECISION_METRICS[kind] - {"binary_accuracy"})
    settings = {"name": _THRESHOLD_ALONE, "thresholds": [threshold]}
    return config_pb2.MetricConfig(class_name=METRICS[kind][base], config=json.dumps(settings))


def _metric_config(kind: str, name: str, evaluate: EvaluateConfig) -> config_pb2.MetricConfig:
    settings: dict[str, Any] = {"name": name}
    base, level = split_level(name)
    threshold = evaluate.decision_threshold if level is None else level
    if base == "binary_accuracy":
        settings |= {"threshold": threshold}
    elif base in DECISION_METRICS.get(kind, ()):
        settings |= {"thresholds": [threshold]}
    elif base in AT_TARGET:
        settings |= {AT_TARGET[base]: level}
    key = key_in_metrics(kind, base)
    if key == TOP_K:
        settings |= {"top_k": top_k(base)}
    metric = config_pb2.MetricConfig(class_name=METRICS[kind][key], config=json.dumps(settings))
    if name in evaluate.thresholds and (required := _threshold(name, evaluate.thresholds[name])).ByteSize():
        metric.per_slice_thresholds.add(slicing_specs=[config_pb2.SlicingSpec()], threshold=required)
    return metric


def _threshold(name: str, threshold: Threshold) -> config_pb2.MetricThreshold:
    result = config_pb2.MetricThreshold()
    if threshold.min is not None:
        result.value_threshold.lower_bound.value = threshold.min
    if threshold.max is not None:
        result.value_threshold.upper_bound.value = threshold.max
    lower, change = lower_is_better(name), result.change_threshold
    if threshold.not_worse_than_baseline_by is not None:
        change.absolute.value = threshold.not_worse_than_baseline_by * (1 if lower else -1)
    elif threshold.change is not None:
        lower = (threshold.change.direction or ("lower_is_better" if lower else "")) == "lower_is_better"
        for bound in ("absolute", "relative"):
            if (value := getattr(threshold.change, bound)) is not None:
                getattr(change, bound).value = value
    if threshold.compares:
        change.direction = config_pb2.LOWER_IS_BETTER if lower else config_pb2.HIGHER_IS_BETTER
    return result


def _slicing_spec(columns: str | Sequence[str]) -> config_pb2.SlicingSpec:
    return config_pb2.SlicingSpec(feature_keys=[columns] if isinstance(columns, str) else columns)


def label_kind(config: config_pb2.EvalConfig) -> str:
    """The kind of label that the config's metrics are for."""
    metrics = config.metrics_specs[0].metrics
    return next(_LABEL_KINDS[metric.class_name] for metric in metrics if metric.class_name in _LABEL_KINDS)


def decision_threshold(config: config_pb2.EvalConfig) -> float:
    """The probability above which a prediction counts as positive; a half if no metric has it. Metrics with a threshold
    of their own, as `precision@0.3`, have no part in it.
    """
    for metric in config.metrics_specs[0].metrics:
        settings = json.loads(metric.config or "{}")
        if split_level(settings.get("name", ""))[1] is not None:
            continue
        for found in (settings.get("threshold"), *settings.get("thresholds", ())):
            if found is not None:
                return float(found)
    return _USUAL_THRESHOLD


def measured_names(config: config_pb2.EvalConfig) -> tuple[str, ...]:
    """The metrics by their names in the config of the pipeline, without the example count."""
    configs = (json.loads(metric.config) for metric in config.metrics_specs[0].metrics if metric.config)
    return tuple(each["name"] for each in configs if each["name"] != _THRESHOLD_ALONE)


def model_names(config: config_pb2.EvalConfig) -> tuple[str, str | None]:
    """The names of the candidate and of the baseline, None if there is none."""
    names = {spec.is_baseline: spec.name for spec in config.model_specs}
    return names[False], names.get(True)


def compares_with_baseline(config: config_pb2.EvalConfig) -> bool:
    """Whether a threshold limits the difference from the baseline."""
    return any(
        each.threshold.HasField("change_threshold")
        for spec in config.metrics_specs
        for metric in spec.metrics
        for each in metric.per_slice_thresholds
    )


def weight_column(config: config_pb2.EvalConfig) -> str:
    """The data column with the examples' weights; "" if there is none."""
    weight: str = config.model_specs[0].example_weight_key
    return weight


def thresholds_of(config: config_pb2.EvalConfig) -> dict[str, config_pb2.MetricThreshold]:
    """The thresholds by the metric's name in the config."""
    return {
        json.loads(metric.config)["name"]: metric.per_slice_thresholds[0].threshold
        for metric in config.metrics_specs[0].metrics
        if metric.per_slice_thresholds
    }
