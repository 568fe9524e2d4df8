"""TensorFlow Serving's REST API (https://www.tensorflow.org/tfx/serving/api_rest), over one connection."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray

from headrace.components.model_server.client import (
    STATUS_SECONDS,
    Reply,
    ServerRequest,
    ServerUnreachableError,
    VersionState,
)

BYTES = "_bytes"
"""End of the names of outputs that are bytes, which come in Base64."""
_GATEWAY = (502, 503, 504)
"""What a proxy in front of a server that is gone answers, as the server itself does when it is overloaded."""
_LOST = (OSError, http.client.HTTPException)


class RestClient:
    """A connection that is opened when it is needed. It uses no proxy, whatever the environment says."""

    protocol = "REST"

    def __init__(self, url: str, model: str, ca_file: str | None) -> None:
        parts = urlsplit(url)
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port, self._tls = parts.hostname or "", parts.port, parts.scheme == "https"
        self._path = f"{parts.path.rstrip('/')}/v1/models/{quote(model, safe='')}"
        self._ca_file = ca_file
        self._connection: http.client.HTTPConnection | None = None

    def states(self) -> dict[int, VersionState]:
        try:
            status, body = self._send("GET", self._path, None, STATUS_SECONDS)
        except _LOST as error:
            raise ServerUnreachableError(f"{self.address} does not answer: {_why(error)}") from None
        found = _json(body)
        if status == 404 and "error" in found:
            return {}
        if status != 200 or "model_version_status" not in found:
            said = f": {found['error']}" if "error" in found else ""
            raise ServerUnreachableError(
                f"{self.address} answers with status {status}, not as TensorFlow Serving{said}"
            )
        return {int(one["version"]): _state(one) for one in found["model_version_status"]}

    def predict(self, request: ServerRequest, seconds: float) -> Reply:
        columns = {name: _as_json(array) for name, array in request.inputs.items()}
        body = json.dumps({"signature_name": request.signature, "inputs": columns}).encode()
        start = time.perf_counter()
        try:
            status, answer = self._send("POST", f"{self._path}/versions/{request.version}:predict", body, seconds)
        except TimeoutError:
            return Reply("hung", f"no answer within {seconds:g} seconds")
        except _LOST as error:
            return Reply("crashed", _why(error))
        took, found = time.perf_counter() - start, _json(answer)
        if status == 200 and "outputs" in found:
            return Reply("answered", "", _outputs(found["outputs"], request.outputs), took)
        if status in _GATEWAY and "error" not in found:
            return Reply("crashed", f"status {status} of a proxy")
        return Reply("refused", str(found.get("error", f"status {status}")), seconds=took)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, method: str, path: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        """A connection that the server closed while nobody used it is opened again, once."""
        fresh = self._connection is None
        try:
            return self._exchange(method, path, body, seconds)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if fresh or method == "POST":
                raise
            return self._exchange(method, path, body, seconds)

    def _exchange(self, method: str, path: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        try:
            connection = self._connection = self._connection or self._connect(seconds)
            if connection.sock is not None:
                connection.sock.settimeout(seconds)
            connection.timeout = seconds
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            content = answer.read()
            if answer.will_close:
                self.close()
            return answer.status, content
        except BaseException:
            self.close()
            raise

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            raise ServerUnreachableError(f"ca_file {self._ca_file} cannot be read: {error}") from None
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=context)


def _state(one: Mapping[str, Any]) -> VersionState:
    status = one.get("status", {})
    failed = status.get("error_code", "OK") != "OK"
    return VersionState(one["state"], status.get("error_message") or status["error_code"] if failed else "")


def _json(body: bytes) -> dict[str, Any]:
    """An empty object for what is none. Outputs may be bytes that are not UTF-8."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(body.decode("utf-8", "replace"))
        if isinstance(found, dict):
            return found
    return {}


def _as_json(array: NDArray[Any]) -> Any:
    if array.dtype.kind != "O":
        return array.tolist()
    coded = np.empty(array.shape, object)
    for place, text in np.ndenumerate(array):
        coded[place] = {"b64": base64.b64encode(text).decode()}
    return coded.tolist()


def _outputs(given: Any, types: Mapping[str, np.dtype[Any]]) -> dict[str, NDArray[Any]]:
    """Outputs as arrays; those that do not fit their types as arrays of objects, which equal nothing.

    A single output has no name.
    """
    named = given if isinstance(given, dict) and len(types) != 1 else dict.fromkeys(list(types)[:1], given)
    return {name: _as_array(value, types.get(name, np.dtype(object)), name) for name, value in named.items()}


def _as_array(value: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    try:
        found = np.asarray(value)
        if dtype.kind != "O":
            return found.astype(dtype)
        texts = np.empty(found.shape, object)
        for place, text in np.ndenumerate(np.asarray(value, object)):
            texts[place] = base64.b64decode(text["b64"]) if name.endswith(BYTES) else text.encode()
        return texts
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return np.asarray(repr(value)[:100])


def _why(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
