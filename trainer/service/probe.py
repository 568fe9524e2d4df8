"""Asks the dispatcher of a tf.data service for its workers, with a timeout.

TensorFlow's own client waits forever for a dispatcher that does not exist.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc

from headrace.common.errors import TrainingError

METHOD = "/tensorflow.data.DispatcherService/GetWorkers"
"""Takes an empty message; returns `repeated WorkerInfo workers = 1` with the address as field 1 (dispatcher.proto)."""
_BYTES_FIELD_1 = 0x0A
"""Tag of a field 1 that holds bytes."""


def registered_workers(address: str, timeout: float) -> list[str]:
    """Return the addresses of the workers. Raises grpc.RpcError if the dispatcher does not answer.

    address: `host:port`; timeout: seconds.
    """
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options) as channel:
        answer: bytes = channel.unary_unary(METHOD)(b"", timeout=timeout)
    return [text.decode() for info in _fields(answer) for text in _fields(info)]


def alive_workers(address: str, timeout: float) -> list[str]:
    """Return the addresses of the workers; none if the dispatcher does not answer."""
    try:
        return registered_workers(address, timeout)
    except grpc.RpcError:
        return []


def wait_for_workers(address: str, timeout: float) -> list[str]:
    """Wait until there is a worker. Raises TrainingError with the cause after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        left = end - time.monotonic()
        try:
            found = registered_workers(address, max(left, 0.1))
            cause = "the dispatcher answers, but no worker has registered with it"
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
        return "what answers there is not a dispatcher"
    return f"{code.lower().replace('_', ' ')}: {details.splitlines()[0] if details else 'nothing answers'}"


def _fields(message: bytes) -> Iterator[bytes]:
    """Yield the contents of the fields numbered 1, in protobuf's wire format."""
    position = 0
    while position < len(message) and message[position] == _BYTES_FIELD_1:
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
