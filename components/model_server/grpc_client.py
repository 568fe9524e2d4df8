"""TensorFlow Serving's gRPC API: PredictionService and ModelService."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from headrace.components.model_server.client import (
    STATUS_SECONDS,
    Reply,
    ServerRequest,
    ServerUnreachableError,
    VersionState,
)

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcClient:
    """A channel. It uses no proxy, whatever the environment says."""

    protocol = "gRPC"

    def __init__(self, address: str, model: str, *, tls: bool, ca_file: str | None) -> None:
        self.address, self._model = address, model
        if tls:
            self._channel = grpc.secure_channel(address, _credentials(ca_file), options=_OPTIONS)
        else:
            self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def states(self) -> dict[int, VersionState]:
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._model
        try:
            answer = self._models.GetModelStatus(request, timeout=STATUS_SECONDS)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return {}
            raise ServerUnreachableError(f"{self.address} does not answer: {_why(error)}") from None
        return {one.version: _state(one) for one in answer.model_version_status}

    def predict(self, request: ServerRequest, seconds: float) -> Reply:
        made = predict_pb2.PredictRequest()
        made.model_spec.name, made.model_spec.signature_name = self._model, request.signature
        made.model_spec.version.value = request.version
        for name, array in request.inputs.items():
            made.inputs[name].CopyFrom(tf.make_tensor_proto(array, tf.string if array.dtype == object else array.dtype))
        start = time.perf_counter()
        try:
            answer = self._predictions.Predict(made, timeout=seconds)
        except grpc.RpcError as error:
            return _refusal(error, seconds, time.perf_counter() - start)
        took = time.perf_counter() - start
        return Reply(
            "answered", "", {key: np.asarray(tf.make_ndarray(one)) for key, one in answer.outputs.items()}, took
        )

    def close(self) -> None:
        self._channel.close()


def _refusal(error: Any, seconds: float, took: float) -> Reply:
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Reply("hung", f"no answer within {seconds:g} seconds")
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return Reply("crashed", _why(error))
    return Reply("refused", _why(error), seconds=took)


def _state(one: Any) -> VersionState:
    name = get_model_status_pb2.ModelVersionStatus.State.Name(one.state)
    return VersionState(name, (one.status.error_message or str(one.status.error_code)) if one.status.error_code else "")


def _why(error: Any) -> str:
    return str(error.details() or error.code().name)


def _credentials(ca_file: str | None) -> Any:
    if ca_file is None:
        return grpc.ssl_channel_credentials()
    try:
        return grpc.ssl_channel_credentials(Path(ca_file).read_bytes())
    except OSError as error:
        raise ServerUnreachableError(f"ca_file {ca_file} cannot be read: {error}") from None
