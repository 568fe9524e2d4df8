"""Paths of objects: s3://bucket/key, gs://bucket/key, and minio://bucket/key, which is s3 with another server."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, replace

from headrace.configs.errors import DataError

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Where S3's server is named, if it is not Amazon's; the first one that is set counts."""


def endpoint_url() -> str | None:
    """The URL of the S3 server that the environment names; None for Amazon's."""
    return next((os.environ[name] for name in ENDPOINT_VARIABLES if os.environ.get(name)), None)


@dataclass(frozen=True)
class Place:
    """Where an object, or a folder, lies."""

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.arrow}"

    @property
    def arrow(self) -> str:
        """As pyarrow's filesystems name it."""
        return f"{self.bucket}/{self.key}" if self.key else self.bucket

    @property
    def folder(self) -> Place:
        """The folder it lies in; the bucket's is the bucket."""
        return replace(self, key=self.key.rpartition("/")[0])


def place_of(path: str) -> Place:
    """The place that a path names. Raises DataError if it names none."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if not bucket or glob.has_magic(bucket):
        raise DataError(
            f"{path!r} names no bucket", hint=f"Write {scheme}://bucket/key; only the key may hold a pattern"
        )
    if scheme == "minio":
        if endpoint_url() is None:
            raise DataError(
                "nothing says where the MinIO server is",
                file=path,
                hint="Set AWS_ENDPOINT_URL, such as http://localhost:9000",
            )
        scheme = "s3"
    return Place(scheme, bucket, key)
