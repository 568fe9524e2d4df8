"""What passes between the command and its warm process: lines of JSON, and artifacts as ML Metadata's messages.

The command's side knows artifacts only by these messages, so that it need not import TFX.
"""

from __future__ import annotations

import base64
import errno
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from ml_metadata.proto import metadata_store_pb2 as mlmd

FULL_DISK = errno.ENOSPC
"""Exit code of a component whose result no disk had room for."""


@dataclass(frozen=True)
class Stored:
    """An artifact and its type."""

    artifact: mlmd.Artifact
    type: mlmd.ArtifactType

    @property
    def uri(self) -> str:
        return self.artifact.uri

    @property
    def properties(self) -> dict[str, str | int | float]:
        """The typed and the custom ones together."""
        both = [*self.artifact.properties.items(), *self.artifact.custom_properties.items()]
        found = {key: getattr(value, value.WhichOneof("value") or "string_value") for key, value in both}
        return {key: value for key, value in found.items() if isinstance(value, str | int | float)}

    def to_json(self) -> list[str]:
        return [
            base64.b64encode(part.SerializeToString(deterministic=True)).decode() for part in (self.artifact, self.type)
        ]

    @classmethod
    def from_json(cls, parts: list[str]) -> Self:
        artifact, type_ = map(base64.b64decode, parts)
        return cls(mlmd.Artifact.FromString(artifact), mlmd.ArtifactType.FromString(type_))


class Line:
    """One end of a connection: whole JSON values in both directions."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, **message: Any) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Iterator[dict[str, Any]]:
        """Wait for at least a part of a message; yield those that are whole. EOFError when the other end is gone."""
        data = self._connection.recv(1 << 20)
        if not data:
            raise EOFError
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from map(json.loads, lines)

    def close(self) -> None:
        self._connection.close()
