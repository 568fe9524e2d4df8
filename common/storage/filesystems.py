"""Locations of objects, and connections to their stores, with server, region and credentials from the environment.

Locations are s3://bucket/key, gs://bucket/key, and minio://bucket/key, which is S3 on another server than Amazon's.

Credentials for S3 are found as Amazon's tools find them: AWS_ACCESS_KEY_ID and its companions, the profiles in ~/.aws,
the role of the machine. Credentials for Google are GOOGLE_APPLICATION_CREDENTIALS, gcloud's, or the machine's account;
without any, public buckets can be read.
"""

from __future__ import annotations

import glob
import os
import socket
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace.common.errors import DataError

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The variables that name an S3 server other than Amazon's; the first one that is set counts."""

ATTEMPTS = 4
CONNECT_SECONDS, READ_SECONDS, GOOGLE_SECONDS = 5, 60, 30
PROMPT_ATTEMPTS, PROMPT_CONNECT_SECONDS, PROMPT_READ_SECONDS = 2, 2, 4
"""The limits of a request under a lock: in all it takes less than the time in which the lock is still held."""

_used_by: set[int] = set()
"""The processes that have connected: at most this one and the one it was forked from."""


@dataclass(frozen=True)
class ObjectLocation:
    """The location of an object or a folder in an object store."""

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.arrow}"

    @property
    def arrow(self) -> str:
        """The path in pyarrow's filesystems."""
        return f"{self.bucket}/{self.key}" if self.key else self.bucket

    @property
    def folder(self) -> ObjectLocation:
        """The folder that contains it; that of a bucket is the bucket."""
        return replace(self, key=self.key.rpartition("/")[0])


def parse_location(path: str) -> ObjectLocation:
    """The location that a path names. Raises DataError for a path without a bucket."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if not bucket or glob.has_magic(bucket):
        raise DataError(
            f"{path!r} does not name a bucket", hint=f"Write {scheme}://bucket/key; only the key may contain a pattern"
        )
    if scheme == "minio":
        if endpoint_url() is None:
            raise DataError(
                "the address of the MinIO server is not set",
                file=path,
                hint="Set AWS_ENDPOINT_URL, for example to http://localhost:9000",
            )
        scheme = "s3"
    return ObjectLocation(scheme, bucket, key)


def endpoint_url() -> str | None:
    """The URL of the S3 server according to the environment; None: Amazon's."""
    return next((os.environ[name] for name in ENDPOINT_VARIABLES if os.environ.get(name)), None)


def filesystem(location: ObjectLocation) -> Any:
    """The pyarrow.fs.FileSystem that contains the location. May raise OSError."""
    _used_by.add(os.getpid())
    if len(_used_by) > 1:
        raise RuntimeError("an object store was used before this process was forked, so using it again would hang")
    if location.scheme == "gs":
        return _google(os.environ.get("STORAGE_EMULATOR_HOST"), GOOGLE_SECONDS)
    return _s3(*_server(), location.bucket, (ATTEMPTS, CONNECT_SECONDS, READ_SECONDS))


def promptly(location: ObjectLocation) -> Any:
    """Like `filesystem`, for requests under a lock (`common/store_lock.py`): one that gets no answer is given up before
    others may have the lock, so that it cannot change afterwards what they write. `write` returns when a part is there,
    so that whoever writes several can look before each whether the lock was lost.
    """
    filesystem(location)
    if location.scheme == "gs":
        return _google(os.environ.get("STORAGE_EMULATOR_HOST"), PROMPT_ATTEMPTS * PROMPT_READ_SECONDS)
    limits = PROMPT_ATTEMPTS, PROMPT_CONNECT_SECONDS, PROMPT_READ_SECONDS
    return _s3(*_server(), location.bucket, limits, in_background=False)


def _server() -> tuple[str, str | None]:
    """The scheme and the address of the S3 server; the address is None for Amazon's."""
    url = endpoint_url()
    if url is None:
        return "https", None
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise DataError(
            "AWS_ENDPOINT_URL is not the URL of a server",
            hint="It must look like https://minio.example:9000; credentials have variables of their own",
        )
    return parts.scheme, parts.netloc + parts.path.rstrip("/")


@cache
def _s3(
    scheme: str,
    address: str | None,
    bucket: str,
    limits: tuple[int, int, int],
    *,
    in_background: bool = True,
) -> Any:
    from pyarrow import fs

    attempts, connect, read = limits
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return fs.S3FileSystem(
        scheme=scheme,
        endpoint_override=address,
        region=region if address else fs.resolve_s3_region(bucket),
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
        connect_timeout=connect,
        request_timeout=read,
        background_writes=in_background,
    )


@cache
def _google(emulator: str | None, seconds: int) -> Any:
    from pyarrow import fs

    limit = timedelta(seconds=seconds)
    if emulator:
        parts = urlsplit(emulator if "://" in emulator else f"http://{emulator}")
        return fs.GcsFileSystem(
            anonymous=True, scheme=parts.scheme, endpoint_override=parts.netloc, retry_time_limit=limit
        )
    return fs.GcsFileSystem(anonymous=not _has_google_credentials(), retry_time_limit=limit)


def _has_google_credentials() -> bool:
    folder = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
    if (
        os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        or Path(folder, "application_default_credentials.json").exists()
    ):
        return True
    try:
        return bool(socket.getaddrinfo("metadata.google.internal", 80))
    except OSError:
        return False
