"""The files of an evaluation that TFMA's loaders and viewers read: metrics with intervals, plots, and the verdict."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import tensorflow as tf
from google.protobuf import json_format
from tensorflow_model_analysis import version as tfma_version
from tensorflow_model_analysis.evaluators.metrics_validator import validate_metrics
from tensorflow_model_analysis.metrics.metric_types import MetricKey
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.proto.metrics_for_slice_pb2 import ConfidenceInterval, MetricsForSlice
from tensorflow_model_analysis.writers import metrics_plots_and_validations_writer as writer

from headrace.components.evaluation.intervals import standard_error
from headrace.components.evaluation.measured import Measured
from headrace.components.evaluation.plots import steps_of
from headrace.components.evaluation.result import Interval
from headrace.components.evaluation.slices import MetricValues, SliceKey, name_missing
from headrace.components.evaluation.tfma import model_names


def write_files(
    directory: Path,
    measured: Mapping[str, Measured],
    config: config_pb2.EvalConfig,
    models: Mapping[str, str],
    *,
    blessed: bool,
) -> None:
    """Write `metrics.tfrecord`, `plots.tfrecord`, `validations.tfrecord` and `eval_config.json`.

    measured: by the name of the task, which is "" for a single label, and is that of the output in TFMA's keys; models:
    the SavedModel's directory by the model's name.
    """
    sliced: dict[SliceKey, dict[MetricKey, float]] = {}
    for task, one in measured.items():
        for key, of_slice in _by_slice(one.values, config, task).items():
            sliced.setdefault(key, {}).update(of_slice)
    named = name_missing(sliced)
    _write_plots(directory, measured, named, model_names(config)[0])
    with tf.io.TFRecordWriter(str(directory / "metrics.tfrecord")) as metrics:
        for key, of_slice in sliced.items():
            intervals = [confidence_intervals(one, config, key, task) for task, one in measured.items()]
            proto = _proto(named[key], of_slice, dict(itertools.chain.from_iterable(intervals)))
            metrics.write(proto.SerializeToString())
    with tf.io.TFRecordWriter(str(directory / "validations.tfrecord")) as validations:
        validation = writer.CombineValidations(config, rubber_stamp=model_names(config)[1] is None)
        result = validation.extract_output(validate_metrics(((), sliced.get((), {})), config))
        result.validation_ok = blessed
        validations.write(result.SerializeToString())
    run = config_pb2.EvalRun(eval_config=config, version=tfma_version.VERSION, model_locations=models)
    options = run.eval_config.options
    options.compute_confidence_intervals.value = True
    options.confidence_intervals.method = config_pb2.ConfidenceIntervalOptions.JACKKNIFE
    # sorted, because the order of a map of a protocol buffer differs from process to process
    (directory / "eval_config.json").write_text(json_format.MessageToJson(run, sort_keys=True), encoding="utf-8")


def _write_plots(
    directory: Path,
    measured: Mapping[str, Measured],
    named: Mapping[SliceKey, tuple[tuple[str, str | int | float], ...]],
    candidate: str,
) -> None:
    """Write the plots of the candidate alone: TFMA draws those of one model, and without its name finds them only if
    there is no other. No file is written for labels without plots.
    """
    keys = [key for key in named if any(key in one.plots for one in measured.values())]
    if not keys:
        return
    with tf.io.TFRecordWriter(str(directory / "plots.tfrecord")) as plots:
        for key in keys:
            of_tasks = [
                one.plots[key].plots(candidate, task, steps_of(key)).items()
                for task, one in measured.items()
                if key in one.plots
            ]
            proto = writer.convert_slice_plots_to_proto((named[key], dict(itertools.chain(*of_tasks))), None)
            plots.write(proto.SerializeToString())


def _proto(
    key: tuple[tuple[str, str | int | float], ...],
    metrics: Mapping[MetricKey, float],
    confidence: Mapping[MetricKey, ConfidenceInterval],
) -> MetricsForSlice:
    """The metrics of a slice. Their intervals are where TFMA 0.48 writes those of its jackknife: beside the values."""
    result = writer.convert_slice_metrics_to_proto((key, metrics), add_metrics_callbacks=[])
    for each in result.metric_keys_and_values:
        found = confidence.get(MetricKey.from_proto(each.key))
        if found is not None:
            each.confidence_interval.CopyFrom(found)
    return result


def confidence_intervals(
    measured: Measured, config: config_pb2.EvalConfig, key: SliceKey, task: str = ""
) -> Iterator[tuple[MetricKey, ConfidenceInterval]]:
    """The intervals of a slice: of the metrics of both models, and of their differences."""
    candidate, baseline = model_names(config)
    for model in (candidate, baseline):
        if model is not None and (model, key) in measured.values:
            without = measured.without[model, key]
            for name, interval in measured.intervals(model, key).items():
                yield MetricKey(name, model, task), _interval(interval, [each[name] for each in without])
    changes = measured.change_intervals(candidate, baseline, key)
    if baseline is not None and changes:
        pairs = [*zip(measured.without[candidate, key], measured.without[baseline, key], strict=True)]
        for name, interval in changes.items():
            differences = [ours[name] - theirs[name] for ours, theirs in pairs]
            yield MetricKey(name, candidate, task, is_diff=True), _interval(interval, differences)


def _interval(interval: Interval, without: Sequence[float]) -> ConfidenceInterval:
    result = ConfidenceInterval()
    result.lower_bound.double_value.value, result.upper_bound.double_value.value = interval
    result.standard_error.double_value.value = standard_error(without)
    result.degrees_of_freedom.value = len(without) - 1
    return result


def _by_slice(values: MetricValues, config: config_pb2.EvalConfig, task: str) -> dict[SliceKey, dict[MetricKey, float]]:
    """The metrics of both models and their differences, by slice."""
    candidate, baseline = model_names(config)
    sliced: dict[SliceKey, dict[MetricKey, float]] = {}
    for (model, key), metrics in values.items():
        sliced.setdefault(key, {}).update({MetricKey(name, model, task): value for name, value in metrics.items()})
    if baseline is not None:
        for of_slice in sliced.values():
            of_slice.update(dict(_differences(of_slice, candidate, baseline)))
    return sliced


def _differences(
    of_slice: Mapping[MetricKey, float], candidate: str, baseline: str
) -> Iterator[tuple[MetricKey, float]]:
    for key, value in of_slice.items():
        if key.model_name == candidate:
            before = of_slice.get(key._replace(model_name=baseline), math.nan)
            yield key._replace(is_diff=True), value - before
