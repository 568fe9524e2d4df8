"""Asking a tf.data service's dispatcher who works for it, with an end to the waiting.

TensorFlow's own client waits for ever for a dispatcher that is not there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc

from headrace.configs.errors import TrainingError

METHOD = "/tensorflow.data.DispatcherService/GetWorkers"
"""Takes an empty message; gives `repeated WorkerInfo workers = 1`, whose field 1 is the address (dispatcher.proto)."""
_WITHIN_A_MESSAGE = 0x0A
"""Tag of a field 1 that holds bytes."""


def workers(address: str, timeout: float) -> list[str]:
    """The addresses of the workers. address: `host:port`; timeout: seconds. Raises grpc.RpcError where none answers."""
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options) as channel:
        answer: bytes = channel.unary_unary(METHOD)(b"", timeout=timeout)
    return [text.decode() for info in _fields(answer) for text in _fields(info)]


def alive_workers(address: str, timeout: float) -> list[str]:
    """The workers; none where the dispatcher does not answer."""
    try:
        return workers(address, timeout)
    except grpc.RpcError:
        return []


def wait_for_workers(address: str, timeout: float) -> list[str]:
    """The workers, as soon as there is one. Raises TrainingError, with the cause, once the time is over."""
    end = time.monotonic() + timeout
    while True:
        left = end - time.monotonic()
        try:
            found, cause = workers(address, max(left, 0.1)), "it answers, but no worker has registered with it"
        except grpc.RpcError as error:
            found, cause = [], _cause(error)
        if found:
            return found
        if left <= 0.5:
            raise TrainingError(
                f"train.input.service: no tf.data service at grpc://{address} within {timeout:g} s: {cause}. Start one"
                f" with `headrace tfdata-service --port {address.rpartition(':')[2]}`, correct the address, or remove"
                " the setting"
            )
        time.sleep(0.5)


def _cause(error: grpc.RpcError) -> str:
    code = error.code().name if hasattr(error, "code") else "no answer"
    details = (error.details() or "") if hasattr(error, "details") else str(error)
    if code == "UNIMPLEMENTED":
        return "what answers there is no dispatcher"
    return f"{code.lower().replace('_', ' ')}: {details.splitlines()[0] if details else 'nothing answers'}"


def _fields(message: bytes) -> Iterator[bytes]:
    """The contents of the fields numbered 1, in protobuf's wire format."""
    position = 0
    while position < len(message) and message[position] == _WITHIN_A_MESSAGE:
        length, position = _varint(message, position + 1)
        yield message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
        if byte < 0x80:
            return value, position
