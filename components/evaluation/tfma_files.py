"""The files that TFMA's own tools read: `metrics.tfrecord`, `validations.tfrecord` and `eval_config.json`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import tensorflow as tf
from google.protobuf import json_format
from tensorflow_model_analysis import version as tfma_version
from tensorflow_model_analysis.evaluators.metrics_validator import validate_metrics
from tensorflow_model_analysis.metrics.metric_types import MetricKey
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.proto.metrics_for_slice_pb2 import MetricsForSlice
from tensorflow_model_analysis.writers import metrics_plots_and_validations_writer as writer

from headrace.components.evaluation.conclude import Values, model_names
from headrace.components.evaluation.slices import SliceKey, in_words


def write(
    directory: Path, values: Values, config: config_pb2.EvalConfig, models: Mapping[str, str], *, blessed: bool
) -> None:
    """Write all three. models: the SavedModel's directory by the model's name."""
    sliced = _by_slice(values, config)
    with tf.io.TFRecordWriter(str(directory / "metrics.tfrecord")) as metrics:
        named = in_words(sliced)
        for key, of_slice in sliced.items():
            metrics.write(_proto(named[key], of_slice).SerializeToString())
    with tf.io.TFRecordWriter(str(directory / "validations.tfrecord")) as validations:
        validation = writer.CombineValidations(config, rubber_stamp=model_names(config)[1] is None)
        result = validation.extract_output(validate_metrics(((), sliced.get((), {})), config))
        result.validation_ok = blessed
        validations.write(result.SerializeToString())
    run = config_pb2.EvalRun(eval_config=config, version=tfma_version.VERSION, model_locations=models)
    (directory / "eval_config.json").write_text(json_format.MessageToJson(run), encoding="utf-8")


def _proto(key: tuple[tuple[str, str | int | float], ...], metrics: Mapping[MetricKey, float]) -> MetricsForSlice:
    return writer.convert_slice_metrics_to_proto((key, metrics), add_metrics_callbacks=[])


def _by_slice(values: Values, config: config_pb2.EvalConfig) -> dict[SliceKey, dict[MetricKey, float]]:
    candidate, baseline = model_names(config)
    sliced: dict[SliceKey, dict[MetricKey, float]] = {}
    for (model, key), metrics in values.items():
        sliced.setdefault(key, {}).update({MetricKey(name, model): value for name, value in metrics.items()})
    if baseline is not None:
        for of_slice in sliced.values():
            of_slice.update(dict(_differences(of_slice, candidate, baseline)))
    return sliced


def _differences(
    of_slice: Mapping[MetricKey, float], candidate: str, baseline: str
) -> Iterator[tuple[MetricKey, float]]:
    for key, value in of_slice.items():
        if key.model_name == candidate:
            before = of_slice.get(MetricKey(key.name, baseline), math.nan)
            yield MetricKey(key.name, candidate, is_diff=True), value - before
