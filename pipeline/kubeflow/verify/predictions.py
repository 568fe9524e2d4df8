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
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log
            outputs = {name: tf.make_ndarray(tensor) for name, tensor in log.response.outputs.items()}
            inputs = {name: _canonical(tensor) for name, tensor in sorted(log.request.inputs.items())}
            yield inputs, outputs


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
    if not np.issubdtype(one.dtype, np.number):
        return 0.0 if np.array_equal(one, other) else float("inf")
    scale = np.maximum(1.0, np.maximum(np.abs(one), np.abs(other)))
    return float(np.max(np.abs(one - other) / scale, initial=0.0))
