"""Warm-up requests in the SavedModel: TensorFlow Serving sends them when it loads a version, before it serves it.

The first request to each signature builds its kernels and lookup tables; without a warm-up, a client waits for that.
There is one request for each signature, with one example. Its values are made up: 0 for numbers, 1 for those that are
no columns, such as a length, and texts are missing. So no row of the data leaves with the model.

The format is TensorFlow Serving's: a TFRecord file of PredictionLog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

FILE_NAME = "assets.extra/tf_serving_warmup_requests"
"""Path of the file in the SavedModel's folder."""

Tensors = dict[str, np.ndarray]


def write_warmup(
    serving_dir: Path,
    signatures: Mapping[str, tuple[Callable[..., Any], Any]],
    raw_spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature],
    sizes: Mapping[str, int],
) -> None:
    """Write the file into a SavedModel.

    signatures: name to function and the specification of its argument; raw_spec: the raw columns that it reads; sizes:
    the length of the lists in those of them that hold lists of a fixed length.
    """
    file = serving_dir / FILE_NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for name, (_, spec) in signatures.items():
            writer.write(_log(name, _request(spec, raw_spec, sizes)).SerializeToString(deterministic=True))


def _log(signature: str, inputs: Tensors) -> prediction_log_pb2.PredictionLog:
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return log


def _request(
    spec: Any, raw_spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature], sizes: Mapping[str, int]
) -> Tensors:
    """The inputs of a signature for one example."""
    if isinstance(spec, tf.TensorSpec):  # serialized examples
        return {spec.name: np.array([_example(raw_spec, sizes)], object)}
    return {each.name or name: _zeros(each) for name, each in spec.items()}


def _zeros(spec: tf.TensorSpec) -> np.ndarray:
    shape = [size or 1 for size in spec.shape.as_list()]
    value = b"" if spec.dtype == tf.string else 0 if shape else 1
    return np.full(shape, value, object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype)


def _example(raw_spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature], sizes: Mapping[str, int]) -> bytes:
    """An example with a 0 in each column of numbers, or as many as its lists have."""
    example = tf.train.Example()
    for name, feature in sorted(raw_spec.items()):
        values = int(np.prod(feature.shape)) if isinstance(feature, tf.io.FixedLenFeature) else sizes.get(name, 1)
        if feature.dtype == tf.int64:
            example.features.feature[name].int64_list.value.extend([0] * values)
        elif feature.dtype == tf.float32:
            example.features.feature[name].float_list.value.extend([0.0] * values)
    return bytes(example.SerializeToString(deterministic=True))
