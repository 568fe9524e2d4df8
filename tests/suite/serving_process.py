"""A stand-in for TensorFlow Serving's tensorflow_model_server, with its flags, its states, its APIs and its errors.

    python serving_process.py --rest_api_port=8501 --port=8500 --model_name=taxi --model_base_path=/models/taxi

Its models are in serving_models.py. It speaks as the server's sources describe: json_tensor.cc and
http_rest_api_handler.cc JSON, http_server.cc the statuses of errors, prediction_service_impl.cc and
model_service_impl.cc gRPC.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from serving_models import INVALID_ARGUMENT, Server, StatusError, Version, signature_of
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

STATUSES = {1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500}
"""http_server.cc: the status of each code."""
PATH = re.compile(
    r"/v1/models(?:/([^/:]+))?(?:(?:/versions/(\d+))|(?:/labels/([^/:]+)))?(?::(classify|regress|predict))?", re.I
)


def from_json(value: Any, dtype: tf.DType) -> np.ndarray:
    """json_tensor.cc: a nested list, whose texts are strings or objects with `b64`."""
    if dtype == tf.string:
        shape = np.shape(plain(value))
        made = np.empty(shape, object)
        for place in np.ndindex(*shape):
            item = value
            for index in place:
                item = item[index]
            if not isinstance(item, (str, dict)):
                raise StatusError(
                    INVALID_ARGUMENT, f"JSON Value: {item!r} Type: Number is not of expected type: string"
                )
            made[place] = base64.b64decode(item["b64"]) if isinstance(item, dict) else item.encode()
        return made
    try:
        found = np.asarray(value)
    except ValueError:
        raise StatusError(INVALID_ARGUMENT, "Encountered list at unexpected level") from None
    if found.size and found.dtype.kind not in "ifb":
        raise StatusError(INVALID_ARGUMENT, f"JSON Value: {value!r:.60} is not of expected type: {dtype.name}")
    if found.size and found.dtype.kind == "f" and not dtype.is_floating:
        raise StatusError(
            INVALID_ARGUMENT, f"JSON Value: {value!r:.60} Type: Number is not of expected type: {dtype.name}"
        )
    return found.astype(dtype.as_numpy_dtype)


def plain(value: Any) -> Any:
    return [plain(one) for one in value] if isinstance(value, list) else 0


def to_json(name: str, array: np.ndarray) -> Any:
    def text(value: bytes) -> Any:
        return {"b64": base64.b64encode(value).decode()} if name.endswith("_bytes") else value.decode("latin-1")

    if array.dtype != object:
        return array.tolist()
    made = np.empty(array.shape, object)
    for place, value in np.ndenumerate(array):
        made[place] = text(value)
    return made.tolist()


class Rest(BaseHTTPRequestHandler):
    """http_rest_api_handler.cc."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_core: Server

    def do_GET(self) -> None:
        self.answer(None)

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self, body: bytes | None) -> None:
        try:
            status, content = 200, self.result(body)
        except StatusError as error:
            status, content = STATUSES[error.code], {"error": error.message}
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def result(self, body: bytes | None) -> Any:
        found = PATH.fullmatch(self.path)
        if found is None or not found[1] or (body is None) == bool(found[4]):
            raise StatusError(INVALID_ARGUMENT, f"Malformed request: {self.command} {self.path}")
        name, number, label = found[1], int(found[2]) if found[2] else None, found[3]
        core = self.server_core
        if body is None:
            return {"model_version_status": [rest_state(*one) for one in core.states(name, number).items()]}
        if found[4].lower() != "predict":
            raise StatusError(12, "not in this stand-in")
        try:
            asked = json.loads(body)
        except ValueError:
            raise StatusError(INVALID_ARGUMENT, "JSON Parse error: Invalid value. at offset: 0") from None
        version = core.found(name, number, label)
        signature = signature_of(version, asked.get("signature_name", ""))
        infos = signature.structured_input_signature[1]
        if "inputs" not in asked:
            raise StatusError(INVALID_ARGUMENT, "Missing 'inputs' or 'instances' key")
        columns = asked["inputs"]
        if not isinstance(columns, dict) or "b64" in columns:
            columns = dict.fromkeys(infos, columns)
        for one in infos:
            if one not in columns:
                raise StatusError(INVALID_ARGUMENT, f"Missing named input: {one} in 'inputs' object.")
        inputs = {one: from_json(columns[one], spec.dtype) for one, spec in infos.items()}
        outputs = core.predict(version, asked.get("signature_name", ""), inputs)
        values = {one: to_json(one, array) for one, array in outputs.items()}
        return {"outputs": next(iter(values.values())) if len(values) == 1 else values}

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        pass


def rest_state(number: int, version: Version) -> dict[str, Any]:
    code = "OK" if version.error is None else grpc_code(version.error.code).name
    message = "" if version.error is None else version.error.message
    status = {"error_code": code, "error_message": message}
    return {"version": str(number), "state": version.state, "status": status}


def grpc_code(number: int) -> grpc.StatusCode:
    return next(one for one in grpc.StatusCode if one.value[0] == number)


class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
    """prediction_service_impl.cc."""

    def __init__(self, core: Server) -> None:
        self.core = core

    def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802
        spec = request.model_spec
        try:
            number = spec.version.value if spec.HasField("version") else None
            version = self.core.found(spec.name, number, spec.version_label or None)
            inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
            outputs = self.core.predict(version, spec.signature_name, inputs)
        except StatusError as error:
            context.abort(grpc_code(error.code), error.message)
        answer = predict_pb2.PredictResponse()
        for name, array in outputs.items():
            answer.outputs[name].CopyFrom(tf.make_tensor_proto(array))
        return answer


class Models(model_service_pb2_grpc.ModelServiceServicer):
    """model_service_impl.cc."""

    def __init__(self, core: Server) -> None:
        self.core = core

    def GetModelStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        spec = request.model_spec
        try:
            states = self.core.states(spec.name, spec.version.value if spec.HasField("version") else None)
        except StatusError as error:
            context.abort(grpc_code(error.code), error.message)
        answer = get_model_status_pb2.GetModelStatusResponse()
        for number, version in states.items():
            one = answer.model_version_status.add(version=number)
            one.state = get_model_status_pb2.ModelVersionStatus.State.Value(version.state)
            if version.error is not None:
                one.status.error_code, one.status.error_message = version.error.code, version.error.message
        return answer


def parsed() -> argparse.Namespace:
    flags = argparse.ArgumentParser()
    flags.add_argument("--port", type=int)
    flags.add_argument("--rest_api_port", type=int)
    flags.add_argument("--model_name", default="default")
    flags.add_argument("--model_base_path", default="")
    flags.add_argument("--model_config_file", default="")
    flags.add_argument("--model_config_file_poll_wait_seconds", type=float, default=0.2)
    flags.add_argument("--file_system_poll_wait_seconds", type=float, default=0.1)
    flags.add_argument("--max_num_load_retries", type=int, default=0)
    flags.add_argument("--load_retry_interval_micros", type=int, default=100_000)
    flags.add_argument("--allow_version_labels_for_unavailable_models", action="store_true")
    flags.add_argument("--faults", default="")
    flags.add_argument("--shown_labels", default="", help="a file for the labels of each model")
    flags.add_argument("--certificate", default="", help="of both APIs, with its key; otherwise they are not encrypted")
    return flags.parse_args()


def main() -> None:
    flags = parsed()
    core = Server(flags)
    handler = type("Handler", (Rest,), {"server_core": core})
    rest = ThreadingHTTPServer(("127.0.0.1", flags.rest_api_port), handler)
    rest.daemon_threads = True
    remote_calls = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Predictions(core), remote_calls)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(Models(core), remote_calls)
    if flags.certificate:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(flags.certificate)
        rest.socket = context.wrap_socket(rest.socket, server_side=True)
        pem = Path(flags.certificate).read_bytes()
        remote_calls.add_secure_port(f"127.0.0.1:{flags.port}", grpc.ssl_server_credentials([(pem, pem)]))
    else:
        remote_calls.add_insecure_port(f"127.0.0.1:{flags.port}")
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    remote_calls.start()
    print("ready", flush=True)
    while True:
        core.poll()
        time.sleep(flags.file_system_poll_wait_seconds)


if __name__ == "__main__":
    main()
