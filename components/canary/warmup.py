"""The warm-up requests of a SavedModel as the canary repeats them: TensorFlow Serving sends them when it loads a model,
and does not serve a model that refuses one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from headrace.components.canary.signatures import Inputs
from headrace.trainer.input.reading import records_of
from headrace.trainer.warmup import FILE_NAME


class WarmupRequest(NamedTuple):
    """One request. signature: the name of the signature that it is for."""

    signature: str
    inputs: Inputs


def read_warmup(model: Path) -> Iterator[WarmupRequest]:
    """The requests of type Predict in a SavedModel's file; none if it has no file. Raises tf.errors.OpError or
    google.protobuf.message.DecodeError if it is damaged.
    """
    file = model / FILE_NAME
    if not file.is_file():
        return
    for record in records_of(str(file), ""):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        if log.WhichOneof("log_type") == "predict_log":
            request = log.predict_log.request
            inputs = {name: np.asarray(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
            yield WarmupRequest(request.model_spec.signature_name or "serving_default", inputs)
