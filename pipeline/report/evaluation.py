"""The Evaluator's results, as the report and the last lines of a run need them.

Read without importing TensorFlow Model Analysis, which takes five seconds: its protocol buffers are loaded alone, and
a TFRecord file is a run of (length, checksum, bytes, checksum).
"""

from __future__ import annotations

import importlib.util
import json
import math
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from configs.errors import MissingDependencyError
from configs.evaluate import METRICS

EXAMPLE_COUNT = "example_count"
_PROTOS = "tensorflow_model_analysis.proto.metrics_for_slice_pb2"
_NAMES = {metric.lower(): name for metrics in METRICS.values() for name, metric in metrics.items()}
_AREAS = ("auc", "auc_precision_recall")  # TFMA says 0 for a slice with a single class, where they have no meaning

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class SliceMetrics:
    """Metrics over one slice of the evaluated split. `columns`: what the slice is made of; empty for the whole split.

    `metrics` and `baseline` are keyed by the metric's name in the config; `baseline` is empty where there is none.
    """

    columns: tuple[tuple[str, str], ...] = ()
    examples: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Plots:
    """Curves over the whole evaluated split; empty where they were not asked for.

    roc: (false positive rate, true positive rate); calibration: (mean prediction, share of positives, examples).
    """

    roc: Points = ()
    baseline_roc: Points = ()
    calibration: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """What the Evaluator found."""

    overall: SliceMetrics = SliceMetrics()
    slices: tuple[SliceMetrics, ...] = ()
    plots: Plots = Plots()


def read_evaluation(directory: Path | None) -> Evaluation | None:
    """The results in a ModelEvaluation artifact; None if there are none."""
    files = [] if directory is None else sorted(directory.glob("metrics*.tfrecord"))
    if directory is None or not files:
        return None
    protos = _load_protos()
    baseline = _baseline_name(directory / "eval_config.json")
    slices = [
        _slice(protos.MetricsForSlice.FromString(record), baseline) for file in files for record in _records(file)
    ]
    overall = next((found for found in slices if not found.columns), SliceMetrics())
    plots = [
        protos.PlotsForSlice.FromString(record)
        for file in sorted(directory.glob("plots*.tfrecord"))
        for record in _records(file)
    ]
    whole = next((plot for plot in plots if not plot.slice_key.single_slice_keys), None)
    return Evaluation(
        overall, tuple(found for found in slices if found.columns), _plots(whole, baseline) if whole else Plots()
    )


def _load_protos() -> Any:
    """TFMA's message classes, without the package around them."""
    if _PROTOS in sys.modules:
        return sys.modules[_PROTOS]
    importlib.import_module("google.protobuf.wrappers_pb2")  # the messages are built on it
    package = importlib.util.find_spec("tensorflow_model_analysis")
    if package is None or package.origin is None:
        raise MissingDependencyError("tensorflow_model_analysis is not installed; run `headrace doctor`")
    file = Path(package.origin).parent / "proto" / "metrics_for_slice_pb2.py"
    module = ModuleType("headrace_metrics_for_slice_pb2")
    SourceFileLoader(module.__name__, str(file)).exec_module(module)
    return module


def _records(file: Path) -> Iterator[bytes]:
    content, start = file.read_bytes(), 0
    while start < len(content):
        (length,) = struct.unpack_from("<Q", content, start)
        yield content[start + 12 : start + 12 + length]
        start += length + 16


def _baseline_name(eval_config: Path) -> str | None:
    if not eval_config.exists():
        return None
    fields = json.loads(eval_config.read_text())
    specs = fields.get("evalConfig", fields).get("modelSpecs", [])
    return next((spec.get("name", "") for spec in specs if spec.get("isBaseline")), None)


def _slice(message: Any, baseline: str | None) -> SliceMetrics:
    found: dict[bool, dict[str, float]] = {False: {}, True: {}}
    for entry in message.metric_keys_and_values:
        if entry.key.is_diff or entry.value.WhichOneof("type") != "double_value":
            continue
        name, value = _name(entry.key), entry.value.double_value.value
        found[entry.key.model_name == baseline][name] = math.nan if name in _AREAS and value == 0 else value
    examples = found[False].pop(EXAMPLE_COUNT, None)
    found[True].pop(EXAMPLE_COUNT, None)
    columns = tuple((key.column, _value(key)) for key in message.slice_key.single_slice_keys)
    return SliceMetrics(columns, None if examples is None else round(examples), found[False], found[True])


def _name(key: Any) -> str:
    name = _NAMES.get(key.name.replace("_", "").lower(), key.name)
    return f"{name} (class {key.sub_key.class_id.value})" if key.sub_key.HasField("class_id") else str(name)


def _value(key: Any) -> str:
    kind = key.WhichOneof("kind")
    if kind is None:
        return ""
    value = getattr(key, kind)
    return (
        value.decode(errors="replace")
        if isinstance(value, bytes)
        else f"{value:g}"
        if kind == "float_value"
        else str(value)
    )


def _plots(message: Any, baseline: str | None) -> Plots:
    roc: dict[bool, Points] = {}
    calibration: tuple[tuple[float, float, float], ...] = ()
    for entry in message.plot_keys_and_values:
        of_baseline = entry.key.model_name == baseline
        if entry.value.confusion_matrix_at_thresholds.matrices:
            roc[of_baseline] = _roc(entry.value.confusion_matrix_at_thresholds.matrices)
        if entry.value.calibration_histogram_buckets.buckets and not of_baseline:
            calibration = _calibration(entry.value.calibration_histogram_buckets.buckets)
    return Plots(roc.get(False, ()), roc.get(True, ()), calibration)


def _roc(matrices: Any) -> Points:
    points = {(0.0, 0.0), (1.0, 1.0)}
    for matrix in matrices:
        positives = matrix.true_positives + matrix.false_negatives
        negatives = matrix.true_negatives + matrix.false_positives
        if positives and negatives:
            points.add((matrix.false_positives / negatives, matrix.true_positives / positives))
    return tuple(sorted(points))


def _calibration(buckets: Any) -> tuple[tuple[float, float, float], ...]:
    return tuple(
        (
            bucket.total_weighted_refined_prediction.value / examples,
            bucket.total_weighted_label.value / examples,
            examples,
        )
        for bucket in buckets
        if (examples := bucket.num_weighted_examples.value)
    )
