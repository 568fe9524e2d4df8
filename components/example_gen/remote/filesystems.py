"""Connections to object stores: server, region and credentials as the environment says.

S3's credentials are found as Amazon's tools find them: AWS_ACCESS_KEY_ID and its companions, the profiles in ~/.aws,
the role of the machine. Google's: GOOGLE_APPLICATION_CREDENTIALS, gcloud's, the machine's account; without any of
them, public buckets can be read.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace.components.example_gen.remote.place import Place, endpoint_url
from headrace.configs.errors import DataError

ATTEMPTS = 4
CONNECT_SECONDS, READ_SECONDS, GOOGLE_SECONDS = 5, 60, 30

_used_by: set[int] = set()
"""Processes that have connected: at most this one and the one it was forked from."""


def filesystem(place: Place) -> Any:
    """The pyarrow.fs.FileSystem that the place lies in. May raise OSError."""
    _used_by.add(os.getpid())
    if len(_used_by) > 1:
        raise RuntimeError("an object store was used before this process was forked, so it would hang in here")
    return _google(os.environ.get("STORAGE_EMULATOR_HOST")) if place.scheme == "gs" else _s3(*_server(), place.bucket)


def _server() -> tuple[str, str | None]:
    """The scheme and the address of the S3 server; no address for Amazon's."""
    url = endpoint_url()
    if url is None:
        return "https", None
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise DataError(
            "AWS_ENDPOINT_URL is not the URL of a server",
            hint="It looks like https://minio.example:9000; credentials have variables of their own",
        )
    return parts.scheme, parts.netloc + parts.path.rstrip("/")


@cache
def _s3(scheme: str, address: str | None, bucket: str) -> Any:
    from pyarrow import fs

    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return fs.S3FileSystem(
        scheme=scheme,
        endpoint_override=address,
        region=region if address else fs.resolve_s3_region(bucket),
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        connect_timeout=CONNECT_SECONDS,
        request_timeout=READ_SECONDS,
    )


@cache
def _google(emulator: str | None) -> Any:
    from pyarrow import fs

    limit = timedelta(seconds=GOOGLE_SECONDS)
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
