"""The object store, for the files that Kubeflow does not copy: `blessed.json`, the baseline, and pushed models.

store = open_store({"endpoint": "http://seaweedfs.kubeflow:9000"})
store.get("minio://mlpipeline/v2/artifacts/taxi/blessed.json", Path("/tmp/blessed.json"))

Keys come from the environment: from the variables KEYS, which are for this store alone, because the data may be in a
store with other keys; otherwise from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the pod's service account.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from pyarrow import fs
from pydantic import BaseModel

from headrace.common.credentials import redact_urls
from headrace.common.durable import replacing
from headrace.common.errors import RunError
from headrace.common.records import parse_record
from headrace.common.storage.filesystems import (
    ATTEMPTS,
    CONNECT_SECONDS,
    PROMPT_ATTEMPTS,
    PROMPT_CONNECT_SECONDS,
    PROMPT_READ_SECONDS,
    READ_SECONDS,
)
from headrace.common.storage.reader import Content, read_whole
from headrace.common.storage.writer import object_stream
from headrace.common.store_lock import HeldLock, Timing, held

logger = logging.getLogger(__name__)

Record = TypeVar("Record", bound=BaseModel)

FOLDER = "HEADRACE_STORE"
"""Environment variable for tests: a folder that stands for the object store, with a folder for each scheme in it."""
CHUNK = 1 << 22
KEYS = ("HEADRACE_STORE_ACCESS_KEY", "HEADRACE_STORE_SECRET_KEY")
"""Environment variables with the keys of `kubeflow.object_store`. AWS_ACCESS_KEY_ID may hold that of the data."""
AWS_KEY = "AWS_ACCESS_KEY_ID"
ACCESS_ERROR = re.compile(
    r"ACCESS_DENIED|FORBIDDEN|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE|MISSING_AUTH|\b40[13]\b|denied|credential",
    re.IGNORECASE,
)
"""Matches the errors of a store that does not know the keys, or whose keys do not suffice."""


def stays_inside(name: str) -> bool:
    """Whether a relative path is plainly spelled, so that it names a file below the folder."""
    return not {"", ".", ".."} & {*name.split("/")}


class StoredObject(NamedTuple):
    """What a listing says about an object."""

    size: int
    """Bytes."""
    written: float
    """Unix time."""


class StoreError(RunError, OSError):
    """A pod's object store failed, for any reason but that a file is missing."""


class Store:
    """Files behind URIs. A file appears whole or not at all."""

    def __init__(self, options: Mapping[str, str], folder: str | None = None, *, of_pod: bool = False) -> None:
        self._options, self._folder, self._of_pod = options, folder, of_pod
        self._systems: dict[str, Any] = {}
        self._limits = ATTEMPTS, CONNECT_SECONDS, READ_SECONDS
        self._google_limit: timedelta | None = None

    def exists(self, uri: str) -> bool:
        """Whether a file has that name, or is below it."""
        with self._filesystem(uri) as (system, path):
            type_ = system.get_file_info(path).type
        return type_ == fs.FileType.File or (type_ == fs.FileType.Directory and bool(self.files(uri)))

    def get(self, uri: str, path: Path) -> bool:
        """Copy a file to `path`. Returns False if there is none."""
        with self._filesystem(uri) as (system, source):
            if system.get_file_info(source).type != fs.FileType.File:
                return False
        try:
            with replacing(path) as partial:

                def copy(stream: Any) -> None:
                    with partial.open("wb") as file:
                        shutil.copyfileobj(stream, file, CHUNK)

                self._read(uri, copy)
        except FileNotFoundError:  # removed meanwhile
            return False
        return True

    def text(self, uri: str) -> str:
        """The content of a text file. Raises FileNotFoundError."""
        return self._read(uri, lambda stream: bytes(stream.read())).decode("utf-8", "replace")

    def text_if_there(self, uri: str) -> str | None:
        """The content of a text file; None if there is none, such as one that was removed since it was listed."""
        try:
            return self.text(uri)
        except FileNotFoundError:
            return None

    def record(self, uri: str, model: type[Record], what: str, way_out: str) -> Record:
        """The record in a JSON object, after its checksum was verified.

        Raises FileNotFoundError; RunError if it is damaged, which says what it is, and what follows if it is removed.
        """
        try:
            return parse_record(model, self.text(uri))
        except ValueError as error:
            raise RunError(f"{uri}: {what} is damaged: {error}\n  Remove the object; {way_out}") from None

    def get_all(self, uri: str, folder: Path) -> int:
        """Copy the files below `uri` into a folder, which is created. Returns their number."""
        folder.mkdir(parents=True, exist_ok=True)
        files = self.files(uri)
        for inside in files:
            self.get(f"{uri}/{inside}", folder / inside)
        return len(files)

    def put(self, path: Path, uri: str) -> None:
        """Upload a file, replacing one of that name."""
        with path.open("rb") as file:
            self._write(uri, file)

    def write(self, uri: str, text: str) -> None:
        """Write a text file, replacing one of that name."""
        self._write(uri, io.BytesIO(text.encode()))

    def put_all(self, folder: Path, uri: str, last: str = "") -> None:
        """Upload the files below a folder. last: name of the file that is uploaded after all others."""
        for path in sorted(folder.rglob("*"), key=lambda path: (path == folder / last, path)):
            if path.is_file():
                self.put(path, f"{uri}/{path.relative_to(folder)}")

    def children(self, uri: str) -> list[str]:
        """The names directly below `uri`."""
        return sorted({inside.partition("/")[0] for inside in self.files(uri)})

    def files(self, uri: str) -> dict[str, float]:
        """The names of the files below `uri`, with the Unix times at which they were written."""
        return {inside: found.written for inside, found in self.listing(uri).items()}

    def listing(self, uri: str) -> dict[str, StoredObject]:
        """The objects below `uri`, by their names in order.

        A store accepts any text as a name. A name that would lead out of a folder as a path is reported and left out.
        """
        with self._filesystem(uri) as (system, path):
            found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        start = len(path.rstrip("/")) + 1
        files = [info for info in sorted(found, key=lambda info: info.path) if info.type == fs.FileType.File]
        for stray in (info.path[start:] for info in files if not stays_inside(info.path[start:])):
            logger.warning(f"{uri}/{stray} is ignored: as a path, that name is not below {uri}")
        return {
            info.path[start:]: StoredObject(info.size, info.mtime.timestamp() if info.mtime else 0.0)
            for info in files
            if stays_inside(info.path[start:])
        }

    def remove(self, uri: str) -> None:
        """Remove a file, if it exists."""
        with contextlib.suppress(FileNotFoundError), self._filesystem(uri) as (system, path):
            system.delete_file(path)

    def remove_if_empty(self, uri: str) -> None:
        """Remove what PyArrow leaves of a folder whose files were removed; nothing if it contains a file.

        On S3 that is an empty object for the folder and for each folder in it. One for the parent folder remains.
        What somebody writes there between the look and the removal goes too, as PyArrow can remove such objects only
        with all that is below. So this is for folders that nobody else writes to, such as versions, and for what is
        computed again if it is missing: spans and checkpoints.
        """
        if not self.files(uri):
            with contextlib.suppress(FileNotFoundError), self._filesystem(uri) as (system, path):
                system.delete_dir(path)

    def promptly(self) -> Store:
        """The same store, with requests that fail within seconds."""
        prompt = copy.copy(self)
        prompt._systems = {}
        prompt._limits = PROMPT_ATTEMPTS, PROMPT_CONNECT_SECONDS, PROMPT_READ_SECONDS
        prompt._google_limit = timedelta(seconds=PROMPT_ATTEMPTS * PROMPT_READ_SECONDS)
        return prompt

    @contextlib.contextmanager
    def held(self, uri: str, timing: Timing) -> Iterator[tuple[Store, HeldLock]]:
        """Hold a lock of common/store_lock.py, with claims whose names start with `uri`.

        Yields the lock, and a store for what is written under it, whose requests end before others may have the lock.
        Raises as `store_lock.held` does.
        """
        prompt = self.promptly()
        system, path = prompt._at(uri)
        if self._folder is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with held(system, path, timing=timing) as lock:
            yield prompt, lock

    def _read(self, uri: str, consume: Callable[[Any], Content]) -> Content:
        with self._filesystem(uri) as (system, source):
            return read_whole(system, source, consume)

    def _write(self, uri: str, content: IO[bytes]) -> None:
        with self._filesystem(uri) as (system, target):
            if self._folder is None:
                with object_stream(system, target) as stream:
                    shutil.copyfileobj(content, stream, CHUNK)
            else:
                with replacing(Path(target)) as partial, partial.open("wb") as file:
                    shutil.copyfileobj(content, file, CHUNK)

    @contextlib.contextmanager
    def _filesystem(self, uri: str) -> Iterator[tuple[Any, str]]:
        """The file system and the path in it. In a pod, its failures become StoreErrors that name the settings."""
        try:
            yield self._at(uri)
        except FileNotFoundError:
            raise
        except OSError as error:
            if not self._of_pod or error.filename is not None:  # a file of this machine
                raise
            raise StoreError(_explained(uri, error)) from error

    def _at(self, uri: str) -> tuple[Any, str]:
        scheme, _, path = uri.partition("://")
        if scheme not in self._systems:
            self._systems[scheme] = self._open(scheme)
        return self._systems[scheme], path if self._folder is None else f"{self._folder}/{scheme}/{path}"

    def _open(self, scheme: str) -> Any:
        if self._folder is not None:
            return fs.LocalFileSystem()
        if scheme == "gs":
            return fs.GcsFileSystem(retry_time_limit=self._google_limit)
        if scheme in ("s3", "minio"):
            endpoint = self._endpoint(scheme)
            region = self._options.get("region") or ("us-east-1" if endpoint else None)
            protocol, _, host = (endpoint or "https://").partition("://")
            if protocol not in ("http", "https"):
                raise StoreError(f"{redact_urls(endpoint or '')} is not the URL of an object store: {_URL_FORM}")
            access, secret = (os.environ.get(name) for name in KEYS)
            attempts, connect, read = self._limits
            keys = {"access_key": access, "secret_key": secret} if access and secret else {}
            return fs.S3FileSystem(
                endpoint_override=host or None,
                scheme=protocol,
                region=region,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
                connect_timeout=connect,
                request_timeout=read,  # PyArrow's default gives up on an answer after 3 seconds
                **keys,
            )
        raise RunError(f"{scheme}:// is not a supported object store; use gs, s3 or minio")

    def _endpoint(self, scheme: str) -> str | None:
        """In a pod, AWS_ENDPOINT_URL may be the server of the data, and Kubeflow's own store is at its usual address.
        Elsewhere that address is unreachable, and the variable may name another way to the same store.
        """
        own = self._options.get("minio") if scheme == "minio" else None
        named = os.environ.get("AWS_ENDPOINT_URL")
        return self._options.get("endpoint") or ((own or named) if self._of_pod else (named or own))


def open_store(options: Mapping[str, str], *, of_pod: bool = False) -> Store:
    """The object store. Connects when first used.

    options: `endpoint`, `region`, and `minio`, the endpoint for `minio://` alone (see `store_settings`); of_pod:
    whether this is a component's pod, whose access the config decides, so that failures are StoreErrors.
    """
    return Store(options, os.environ.get(FOLDER), of_pod=of_pod)


_URL_FORM = "it begins with http:// or https:// (kubeflow.object_store.endpoint, or the variable AWS_ENDPOINT_URL)"


def _explained(uri: str, error: OSError) -> str:
    if not ACCESS_ERROR.search(str(error)):
        return f"{uri}: the object store failed: {error}\n  Its address is kubeflow.object_store.endpoint."
    given = any(os.environ.get(name) for name in (KEYS[0], AWS_KEY))
    with_keys = "the keys that this pod was given" if given else "a pod without keys"
    return (
        f"{uri}: the object store refuses {with_keys}: {error}"
        "\n  Set kubeflow.object_store.secret to the name of the Secret with its keys (and access_key and secret_key to"
        " the names of the keys in it); or, without a Secret, give access to the service account of the runs,"
        " kubeflow.server.service_account. If the keys reach only some folders, set kubeflow.pipeline_root to one of"
        " these: in a multi-user Kubeflow, private-artifacts/<namespace>/ of mlpipeline."
    )
