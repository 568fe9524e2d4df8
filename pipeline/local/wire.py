"""What the command and its fork server exchange: lines of JSON, with artifacts as ML Metadata's messages.

The command knows artifacts only as these messages, so that it need not import TFX.
"""

from __future__ import annotations

import base64
import errno
import json
import select
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd

FULL_DISK = errno.ENOSPC
"""Exit code of a component whose result could not be written because the disk is full."""


@dataclass(frozen=True)
class StoredArtifact:
    artifact: mlmd.Artifact
    type: mlmd.ArtifactType

    @property
    def uri(self) -> str:
        return self.artifact.uri

    @property
    def text(self) -> str:
        """The content of an output that is a text, such as a String's."""
        return Path(self.uri).read_text(encoding="utf-8")

    @property
    def properties(self) -> dict[str, str | int | float]:
        """The typed and the custom properties together."""
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


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write what a component leaves for the command: whole or not at all, but without waiting for the disk, as it is
    read in a moment, and then removed.
    """
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result), encoding="utf-8")
    partial.rename(path)


def total_rows(artifacts: Iterable[StoredArtifact], splits: list[str] | None = None) -> int | None:
    """The rows of all Examples among the artifacts, in the given splits or in all; None if there are no Examples."""
    counts = [
        stored.properties["rows"]
        for stored in artifacts
        if stored.type.name == "Examples" and "rows" in stored.properties
    ]
    if not counts:
        return None
    rows = [json.loads(str(count)) for count in counts]
    return sum(number for by_split in rows for split, number in by_split.items() if splits is None or split in splits)


class JsonConnection:
    """One end of a connection that carries whole JSON values in both directions."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, /, **message: Any) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Iterator[dict[str, Any]]:
        """Wait for data and yield the messages that are complete. Raises EOFError when the other end has closed."""
        data = self._connection.recv(1 << 20)
        if not data:
            raise EOFError
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from map(json.loads, lines)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Wait for messages, and yield one after the other. Raises EOFError when the other end has closed."""
        while True:
            yield from self.receive()

    def wait(self, seconds: float) -> bool:
        """Whether something can be received, or the end, within so many seconds."""
        poll = select.poll()  # `select` would fail for descriptors from 1,024 on
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(max(seconds, 0.0) * 1000))

    def end(self) -> None:
        """Send no more: the other end sees the connection close, and may still send."""
        self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._connection.close()
