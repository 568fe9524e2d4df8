"""A stand-in for TensorFlow Serving's tensorflow_model_server, with its flags, its states, its APIs and its errors.

    python serving_process.py --rest_api_port=8501 --port=8500 --model_name=taxi --model_base_path=/models/taxi

It has versions as the server's sources describe them: file_system_storage_path_source.cc finds them, server_core.cc
assigns labels, get_model_status_impl.cc tells states, json_tensor.cc and http_rest_api_handler.cc speak JSON, and
http_server.cc has the statuses of errors. Models are loaded and called by TensorFlow's Python. `--faults` names a JSON
file, read at each request, of what a server may do wrong: see tests/suite/serving_server.py.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)
from tensorflow_serving.config import model_server_config_pb2

OK, INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, UNKNOWN = 0, 3, 5, 9, 2
STATUSES = {1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500}
"""http_server.cc: the status of each code."""
PATH = re.compile(
    r"/v1/models(?:/([^/:]+))?(?:(?:/versions/(\d+))|(?:/labels/([^/:]+)))?(?::(classify|regress|predict))?", re.I
)
WARMUP = "assets.extra/tf_serving_warmup_requests"
INITIALIZER = "__saved_model_init_op"


class StatusError(Exception):
    """An error with a code, as absl::Status has it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass
class Version:
    """state: as in ModelVersionStatus; error: of loading."""

    state: str = "START"
    error: StatusError | None = None
    loaded: Any = None
    tried: int = 0
    next_try: float = 0.0


@dataclass
class Model:
    """policy: None for the newest version, or the numbers of specific ones."""

    base_path: str
    policy: list[int] | None = None
    labels: dict[str, int] = field(default_factory=dict)
    versions: dict[int, Version] = field(default_factory=dict)


class Server:
    """The models, and what is asked of them."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags, self.models, self.lock = flags, dict[str, Model](), threading.Lock()
        self.config_read, self.requests = 0.0, 0
        if not flags.model_config_file:
            self.models[flags.model_name] = Model(flags.model_base_path)

    def fault(self, name: str) -> Any:
        """What the file of faults says."""
        file = Path(self.flags.faults) if self.flags.faults else None
        return json.loads(file.read_text()).get(name) if file and file.exists() else None

    def poll(self) -> None:
        """Read the config file, find versions, load and unload."""
        due = time.monotonic() - self.config_read >= self.flags.model_config_file_poll_wait_seconds
        if self.flags.model_config_file and due:
            self.config_read = time.monotonic()
            try:
                self.reload_config()
            except (StatusError, OSError, text_format.ParseError) as error:
                print("config:", error, file=sys.stderr, flush=True)
        for model in list(self.models.values()):
            if "://" not in model.base_path and not Path(model.base_path).is_dir():
                continue  # "Could not find base path", and nothing changes
            aspired = self.aspired(model)
            for number in sorted(aspired):
                version = model.versions.get(number)
                if version is None or (version.state == "END" and version.error is None):
                    version = model.versions[number] = Version()
                if version.state in {"START", "LOADING"} and time.monotonic() >= version.next_try:
                    self.load(model, number, version)
            states = [model.versions[number].state for number in aspired]
            if "AVAILABLE" in states or not states:  # AvailabilityPreservingPolicy
                self.unload(model, aspired)

    def unload(self, model: Model, aspired: list[int]) -> None:
        for number, version in model.versions.items():
            if number not in aspired and version.state == "AVAILABLE":
                version.state, version.loaded = "END", None

    def reload_config(self) -> None:
        text = Path(self.flags.model_config_file).read_text(encoding="utf-8")
        config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
        for one in config.model_config_list.config:
            known = self.models.get(one.name, Model(one.base_path))
            for label, number in one.version_labels.items():
                version = known.versions.get(number)
                if version is None or version.state != "AVAILABLE":
                    allowed = self.flags.allow_version_labels_for_unavailable_models
                    if not allowed or known.labels.get(label, number) != number:
                        what = f"Request to assign label to version {number} of model {one.name}"
                        raise StatusError(
                            FAILED_PRECONDITION, f"{what}, which is not currently available for inference"
                        )
        for one in config.model_config_list.config:
            model = self.models.setdefault(one.name, Model(one.base_path))
            specific = one.model_version_policy.WhichOneof("policy_choice") == "specific"
            model.base_path, model.labels = one.base_path, dict(one.version_labels)
            model.policy = list(one.model_version_policy.specific.versions) if specific else None
        if self.flags.shown_labels:
            labels = {name: model.labels for name, model in self.models.items()}
            shown = Path(self.flags.shown_labels)
            shown.with_suffix(".new").write_text(json.dumps(labels), encoding="utf-8")
            shown.with_suffix(".new").replace(shown)

    def aspired(self, model: Model) -> list[int]:
        numbers = {int(name) for name in children(model.base_path) if re.fullmatch(r"\d+", name)}
        return sorted(numbers)[-1:] if model.policy is None else sorted(numbers & set(model.policy))

    def load(self, model: Model, number: int, version: Version) -> None:
        version.state, version.tried = "LOADING", version.tried + 1
        try:
            path = local(f"{model.base_path}/{number}")
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            if (refusal := self.fault("refuse_to_load")) is not None and size > (self.fault("if_larger_than") or 0):
                raise StatusError(UNKNOWN, refusal)
            if self.fault("die_of_loading"):
                os._exit(139)
            time.sleep(self.fault("slow_to_load") or 0)
            if not (path / "saved_model.pb").is_file():
                raise StatusError(
                    NOT_FOUND, f"Could not find SavedModel .pb or .pbtxt at supplied export directory path: {path}"
                )
            loaded = tf.saved_model.load(str(path))
            warm_up(path, loaded)
            version.loaded, version.state = loaded, "AVAILABLE"
        except (StatusError, tf.errors.OpError, OSError, ValueError) as error:
            if version.tried <= self.flags.max_num_load_retries:
                version.next_try = time.monotonic() + self.flags.load_retry_interval_micros / 1e6
                return
            version.state = "END"
            version.error = error if isinstance(error, StatusError) else StatusError(UNKNOWN, str(error))

    def found(self, name: str, number: int | None, label: str | None) -> Version:
        model = self.models.get(name)
        if label:
            if model is None or label not in model.labels:
                raise StatusError(INVALID_ARGUMENT, f"Unrecognized servable version label: {label}")
            number = model.labels[label]
        serving = {} if model is None else {n: v for n, v in model.versions.items() if v.state == "AVAILABLE"}
        if not serving or (number is not None and number not in serving):
            asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise StatusError(NOT_FOUND, f"Servable not found for request: {asked}")
        return serving[max(serving) if number is None else number]

    def states(self, name: str, number: int | None) -> dict[int, Version]:
        model = self.models.get(name)
        if model is None or not model.versions:
            raise StatusError(NOT_FOUND, f"Could not find any versions of model {name}")
        if number is not None and number not in model.versions:
            raise StatusError(NOT_FOUND, f"Could not find version {number} of model {name}")
        return model.versions if number is None else {number: model.versions[number]}

    def predict(self, version: Version, signature_name: str, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
        with self.lock:
            self.requests += 1
            die_at = self.fault("die_at")
            if die_at is not None and self.requests >= die_at:
                os._exit(134)
        if self.fault("die_of_empty") and all(len(array) == 0 for array in inputs.values()):
            os._exit(139)
        signature = signature_of(version, signature_name)
        given = signature.structured_input_signature[1]
        if given.keys() != inputs.keys():
            raise StatusError(INVALID_ARGUMENT, f"input size does not match signature: {len(inputs)}!={len(given)}")
        try:
            tensors = {name: tf.constant(array) for name, array in inputs.items()}
            for name, tensor in tensors.items():
                if tensor.dtype != given[name].dtype:
                    what = f"Expects arg[0] to be {given[name].dtype.name} but {tensor.dtype.name} is provided"
                    raise StatusError(INVALID_ARGUMENT, what)
            outputs = {name: np.asarray(tensor) for name, tensor in signature(**tensors).items()}
        except tf.errors.OpError as error:
            raise StatusError(error.error_code, str(error.message)) from None
        except (TypeError, ValueError) as error:
            raise StatusError(INVALID_ARGUMENT, str(error)) from None
        if (factor := self.fault("times")) is not None:
            outputs = {n: a * a.dtype.type(factor) if a.dtype.kind == "f" else a for n, a in outputs.items()}
        return outputs


def children(base: str) -> list[str]:
    if "://" not in base:
        return [one.name for one in Path(base).iterdir()] if Path(base).is_dir() else []
    from pyarrow import fs

    system, path = remote(base)
    return [one.base_name for one in system.get_file_info(fs.FileSelector(path, allow_not_found=True))]


def remote(uri: str) -> Any:
    from pyarrow import fs

    return fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"]), uri.partition("://")[2]


def local(path: str) -> Path:
    """The folder itself, or a copy of that in the object store."""
    if "://" not in path:
        return Path(path)
    from pyarrow import fs

    system, source = remote(path)
    folder = tempfile.mkdtemp(prefix="serving-")
    fs.copy_files(source, folder, source_filesystem=system, destination_filesystem=fs.LocalFileSystem())
    return Path(folder)


def signature_of(version: Version, name: str) -> Any:
    name = name or "serving_default"
    if name == INITIALIZER or name not in version.loaded.signatures:
        raise StatusError(INVALID_ARGUMENT, f'Serving signature name: "{name}" not found in signature def')
    return version.loaded.signatures[name]


def warm_up(path: Path, loaded: Any) -> None:
    file = path / WARMUP
    for record in tf.data.TFRecordDataset(str(file)) if file.is_file() else ():
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        signature = loaded.signatures[request.model_spec.signature_name or "serving_default"]
        signature(**{name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()})


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
