"""The comparison of the predictions that BulkInferrer wrote in a local run and in a run as compiled.

The order of its records depends on Beam's threads, and a model that was trained twice predicts almost the same. So the
records are matched by their requests, and predictions are compared as numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

Inputs = dict[str, bytes]
Outputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class PredictionComparison:
    """same: whether both predict for the same requests, within the tolerance; what: how far apart they are."""

    same: bool
    what: str


def compare_predictions(local: Path, cluster: Path, tolerance: float) -> PredictionComparison:
    """Compare two folders of TFRecords of PredictionLog. tolerance: relative, and absolute below 1."""
    ours, theirs = (sorted(_logs(folder), key=lambda log: [*log[0].items()]) for folder in (local, cluster))
    if [request for request, _ in ours] != [request for request, _ in theirs]:
        return PredictionComparison(False, f"{len(ours):,} predictions here, {len(theirs):,} there, of other examples")
    largest = max((_distance(one, other) for (_, one), (_, other) in zip(ours, theirs, strict=True)), default=0.0)
    return PredictionComparison(largest <= tolerance, f"{len(ours):,} predictions within {largest:.1g}")


def _logs(folder: Path) -> Iterator[tuple[Inputs, Outputs]]:
    """Each record as the inputs of its request by name, and the outputs of its response by name."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        for record in tf.data.TFRecordDataset(str(file), "GZIP" if file.suffix == ".gz" else ""):
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            yield _predicted(log.predict_log) if log.HasField("predict_log") else _as_bytes(log)


def _predicted(log: Any) -> tuple[Inputs, Outputs]:
    outputs = {name: tf.make_ndarray(tensor) for name, tensor in log.response.outputs.items()}
    return {name: _canonical(tensor) for name, tensor in sorted(log.request.inputs.items())}, outputs


def _as_bytes(log: Any) -> tuple[Inputs, Outputs]:
    """What signatures of classification and regression write: nothing in it is compared as numbers."""
    kind = log.WhichOneof("log_type") or ""
    message = getattr(log, kind, log)
    response = type(message)()
    response.CopyFrom(message)
    for each, unwanted in ((message, "response"), (response, "request")):
        if unwanted in each.DESCRIPTOR.fields_by_name:
            each.ClearField(unwanted)
    request, answer = (each.SerializeToString(deterministic=True) for each in (message, response))
    return {kind: request}, {kind: np.array(answer, dtype=object)}


def _canonical(tensor: Any) -> bytes:
    """A tensor of a request, with the features of each tf.Example in order: BulkInferrer writes them in any order."""
    for number, value in enumerate(tensor.string_val):
        with contextlib.suppress(DecodeError):
            tensor.string_val[number] = tf.train.Example.FromString(value).SerializeToString(deterministic=True)
    return tensor.SerializeToString(deterministic=True)


def _distance(one: Outputs, other: Outputs) -> float:
    """The largest difference, relative for numbers above 1; infinite if they differ in more than numbers."""
    if one.keys() != other.keys() or any(one[name].shape != other[name].shape for name in one):
        return float("inf")
    return max((_largest(one[name], other[name]) for name in one), default=0.0)


def _largest(one: np.ndarray, other: np.ndarray) -> float:
    if not np.issubdtype(one.dtype, np.integer) and not np.issubdtype(one.dtype, np.floating):
        return 0.0 if np.array_equal(one, other) else float("inf")
    ours, theirs = one.astype(np.float64), other.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        differences = np.abs(ours - theirs) / np.maximum(1.0, np.maximum(np.abs(ours), np.abs(theirs)))
    return float(np.max(np.nan_to_num(np.where(same, 0.0, differences), nan=np.inf), initial=0.0))
