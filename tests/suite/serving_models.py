"""The models of a stand-in for TensorFlow Serving: their versions, labels and states, and what calls them.

    core = Server(flags)                # of serving_process.py, which speaks its protocols
    core.poll()                         # finds, loads and unloads versions
    core.predict(core.found("taxi", None, "stable"), "serving_default", {"examples": array})

It has versions as the server's sources describe them: file_system_storage_path_source.cc finds them, server_core.cc
assigns labels, get_model_status_impl.cc tells states. Models are loaded and called by TensorFlow's Python. `--faults`
names a JSON file, read at each request, of what a server may do wrong: see serving_server.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, UNKNOWN = 3, 5, 9, 2
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
