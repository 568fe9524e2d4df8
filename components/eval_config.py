"""The TFMA EvalConfig that `evaluate:` amounts to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tensorflow_model_analysis.proto import config_pb2

from headrace.configs.evaluate import LOWER_IS_BETTER, METRICS, EvaluateConfig, Threshold
from headrace.configs.label import LabelConfig

SIGNATURE = "serving_default"
PREPROCESSING = "transform_features"


def eval_config(label: LabelConfig, evaluate: EvaluateConfig) -> config_pb2.EvalConfig:
    """Metrics (named as in the config), slices and thresholds.

    The thresholds are for the whole split alone: with `MetricConfig.threshold`, the smallest slice could block a model.
    """
    model = config_pb2.ModelSpec(
        signature_name=SIGNATURE, label_key=label.key, preprocessing_function_names=[PREPROCESSING]
    )
    return config_pb2.EvalConfig(
        model_specs=[model],
        slicing_specs=[config_pb2.SlicingSpec(), *map(_slicing, evaluate.slices)],
        metrics_specs=[config_pb2.MetricsSpec(metrics=_metrics(label, evaluate))],
    )


def metric_names(label: LabelConfig, evaluate: EvaluateConfig) -> tuple[str, ...]:
    """What is measured: the metrics named (all that fit the label's kind if none are), and those with thresholds."""
    named = evaluate.metrics or tuple(METRICS[label.kind])
    return tuple(dict.fromkeys((*named, *evaluate.thresholds)))


def _metrics(label: LabelConfig, evaluate: EvaluateConfig) -> list[config_pb2.MetricConfig]:
    count = config_pb2.MetricConfig(class_name="ExampleCount")
    return [count, *(_metric(label.kind, name, evaluate) for name in metric_names(label, evaluate))]


def _metric(kind: str, name: str, evaluate: EvaluateConfig) -> config_pb2.MetricConfig:
    metric = config_pb2.MetricConfig(class_name=METRICS[kind][name], config=json.dumps({"name": name}))
    if name in evaluate.thresholds:
        metric.per_slice_thresholds.add(
            slicing_specs=[config_pb2.SlicingSpec()], threshold=_threshold(name, evaluate.thresholds[name])
        )
    return metric


def _threshold(name: str, threshold: Threshold) -> config_pb2.MetricThreshold:
    result = config_pb2.MetricThreshold()
    if threshold.min is not None:
        result.value_threshold.lower_bound.value = threshold.min
    if threshold.max is not None:
        result.value_threshold.upper_bound.value = threshold.max
    if threshold.not_worse_than_baseline_by is not None:
        lower = name in LOWER_IS_BETTER
        change = result.change_threshold
        change.direction = config_pb2.LOWER_IS_BETTER if lower else config_pb2.HIGHER_IS_BETTER
        change.absolute.value = threshold.not_worse_than_baseline_by * (1 if lower else -1)
    return result


def _slicing(columns: str | Sequence[str]) -> config_pb2.SlicingSpec:
    return config_pb2.SlicingSpec(feature_keys=[columns] if isinstance(columns, str) else columns)
