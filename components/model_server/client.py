"""What both ways to TensorFlow Serving, REST and gRPC, have in common: the states of versions, requests and replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

AVAILABLE, END = "AVAILABLE", "END"
"""States of ModelVersionStatus: the server answers for the version; it does not, or no longer does."""
STATUS_SECONDS = 5.0
"""Time limit of a question about states."""

Outcome = Literal["answered", "refused", "crashed", "hung"]


class ServerUnreachableError(Exception):
    """The server does not answer, or not as TensorFlow Serving does. `str(error)` says which one and why."""


@dataclass(frozen=True)
class VersionState:
    """The state of a version in the server. error: what prevented loading, "" if nothing did."""

    state: str
    error: str = ""


@dataclass(frozen=True)
class ServerRequest:
    """A request of type Predict. inputs: texts are arrays of `bytes` with dtype object; outputs: their types."""

    version: int
    signature: str
    inputs: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, np.dtype[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What became of a request. detail: the server's error, or how the connection ended; seconds: until the answer."""

    outcome: Outcome
    detail: str = ""
    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    seconds: float = 0.0


class Client(Protocol):
    """A way to the server. protocol: REST or gRPC; address: as messages name it."""

    protocol: str
    address: str

    def states(self) -> dict[int, VersionState]:
        """The versions of the model that the server knows; empty if it knows none. Raises ServerUnreachableError."""

    def predict(self, request: ServerRequest, seconds: float) -> Reply:
        """Send a request. seconds: its time limit."""

    def close(self) -> None:
        """Close the connection."""
