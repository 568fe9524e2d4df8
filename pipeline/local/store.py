"""ML Metadata's store on SQLite: opened, and called so that its errors are messages for the user.

store = Store(path)
store.put_execution(...)           # as of ml_metadata's MetadataStore; raises RunError, and logs nothing

After a statement that failed, as on a full disk, a store accepts no other.
"""

from __future__ import annotations

import errno
import functools
import logging
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headrace.common.errors import RunError
from headrace.pipeline.local.mlmd import PutTypesRequest, PutTypesResponse, errors, metadata_store
from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd

DISK_FULL = "no space is left on the disk"
_PROBE_BYTES = 1 << 16
_ROOM = "Free some space there, or set another `pipeline.root`."
_NEXT = "The next run reuses every component that finished in this one."


class LocalMetadata:
    """The methods of `MetadataStore`. Each raises RunError with the path, what failed and the way out."""

    def __init__(self, path: Path) -> None:
        """Open the store, or create it. Raises RunError if that is not possible."""
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(path)
        self._path = path
        try:
            self._store = metadata_store.MetadataStore(connection)
        except (errors.StatusError, RuntimeError) as error:
            if (why := store_message(error, path.parent)).startswith(DISK_FULL):
                raise RunError(f"{path} cannot be written: {why}.\n  {_ROOM}") from error
            raise RunError(
                f"{path} cannot be used: {why}.\n  Move the file away: the next run creates a new one, runs every"
                " component again, and leaves existing artifacts where they are."
            ) from error

    def put_types(self, artifacts: Iterable[mlmd.ArtifactType], executions: Iterable[mlmd.ExecutionType]) -> None:
        """Record all of these types in one transaction, for which `MetadataStore` has no method."""
        request = PutTypesRequest(can_add_fields=True, can_omit_fields=True)
        request.artifact_types.extend(artifacts)
        request.execution_types.extend(executions)
        self._call("PutTypes", request, PutTypesResponse())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        @functools.wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            log = logging.getLogger("absl")  # where ml_metadata repeats its errors, each with its statement
            disabled, log.disabled = log.disabled, True
            try:
                return method(*arguments, **named)
            except errors.StatusError as error:
                why = store_message(error, self._path.parent)
                way_out = _ROOM if why.startswith(DISK_FULL) else f"Check that {self._path.parent} can be written."
                raise RunError(f"{self._path} cannot be written: {why}.\n  {way_out} {_NEXT}") from error
            finally:
                log.disabled = disabled

        return call


def store_message(error: Exception, folder: Path) -> str:
    """What a store reports, without the statement that failed and its values; DISK_FULL if its folder is full.

    On a full disk SQLite also reports an I/O error, or that a transaction is gone, which it rolled back by itself;
    there may be room again by then.
    """
    found = re.search(r"Error when executing query: (.*?)(?: query:|$)", str(error), re.DOTALL)
    text = found[1] if found else str(error).split(" query:")[0]
    if "disk is full" in text or _is_full(folder):
        return DISK_FULL
    return f"{DISK_FULL}, or a write to it failed ({text})" if "no transaction is active" in text else text


def _is_full(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            written = probe.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return written < _PROBE_BYTES
