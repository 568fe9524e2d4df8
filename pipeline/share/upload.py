"""Where a shared page can be uploaded: a bucket of S3 or Google Cloud Storage, or a TensorBoard on Vertex AI."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import DataError, MissingDependencyError, RunError

if TYPE_CHECKING:
    from headrace.common.storage.filesystems import ObjectLocation
    from headrace.pipeline.results.run_folder import RunFolder

SCHEMES = ("gs://", "s3://", "minio://")
_TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json"}
_RIGHTS = {"s3": "s3:PutObject", "gs": "storage.objects.create"}
LONGEST_NAME = 128
"""Characters of an experiment's name on Vertex AI, which consists of lowercase letters, digits and hyphens."""


@dataclass(frozen=True)
class BucketUpload:
    """A folder in a bucket. Objects of the same names are replaced."""

    place: ObjectLocation

    @classmethod
    def of(cls, url: str) -> BucketUpload:
        """Parse the URL of a bucket. Raises RunError if it is not one."""
        from headrace.common.storage.filesystems import parse_location

        if not url.startswith(SCHEMES):
            raise RunError(f"--to {url}: not a bucket; write gs://bucket/path or s3://bucket/path")
        try:
            return cls(replace(place := parse_location(url), key=place.key.strip("/")))
        except DataError as error:
            raise RunError(f"--to {url}: {error}") from None

    def send(self, folder: Path, folders: Sequence[RunFolder], name: str, description: str) -> str:  # noqa: ARG002 - for Vertex AI
        """Copy all files, the page last so that everything it links to is there; return the page's address."""
        from headrace.pipeline.share.folder import PAGE

        files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name == PAGE)
        for file in files:
            self._put(file, file.relative_to(folder).as_posix())
        return f"{self._at(PAGE)}  {len(files)} files"

    def _at(self, name: str) -> ObjectLocation:
        return replace(self.place, key=f"{self.place.key}/{name}" if self.place.key else name)

    def _put(self, file: Path, name: str) -> None:
        from headrace.common.storage.errors import object_error
        from headrace.common.storage.filesystems import filesystem
        from headrace.common.storage.writer import object_stream

        place = self._at(name)
        try:
            content, metadata = file.read_bytes(), {"Content-Type": content_type(name)}
            with object_stream(filesystem(place), place.arrow, metadata=metadata) as stream:
                stream.write(content)
        except OSError as error:
            why = object_error(error, str(place))
            denied = f"; writing needs {_RIGHTS[place.scheme]}" if "denied" in why.what else ""
            raise RunError(f"the page was not uploaded: {why}{denied}") from None


def content_type(name: str) -> str:
    """The object's Content-Type; without one, a browser would download the page instead of showing it."""
    return _TYPES.get(Path(name).suffix, "application/octet-stream")


@dataclass(frozen=True)
class VertexUpload:
    """A TensorBoard by its project, region and id (the number at the end of its resource name)."""

    project: str
    location: str
    tensorboard: str

    @classmethod
    def of(cls, given: str) -> VertexUpload:
        """Parse PROJECT/LOCATION/TENSORBOARD or a full resource name. Raises RunError if it is neither."""
        whole = re.fullmatch(r"projects/([^/\s]+)/locations/([^/\s]+)/tensorboards/([^/\s]+)", given)
        parts = whole.groups() if whole else tuple(given.split("/"))
        if len(parts) != 3 or not all(re.fullmatch(r"[\w.:-]+", part) for part in parts):
            raise RunError(
                f"--vertex {given}: write PROJECT/LOCATION/TENSORBOARD, such as my-project/europe-west4/1234567890"
            )
        return cls(*parts)

    def arguments(self, logdir: Path, name: str, description: str) -> dict[str, Any]:
        """The arguments of `aiplatform.upload_tb_log`."""
        return {
            "tensorboard_experiment_name": experiment(name),
            "logdir": str(logdir),
            "tensorboard_id": self.tensorboard,
            "project": self.project,
            "location": self.location,
            "experiment_display_name": name,
            "description": description or None,
            "verbosity": 0,
        }

    def send(self, folder: Path, folders: Sequence[RunFolder], name: str, description: str) -> str:  # noqa: ARG002 - for buckets
        """Upload the logs of all runs as one experiment and return its address. Raises RunError if that fails."""
        try:
            from google.cloud import aiplatform
        except ImportError as error:
            raise MissingDependencyError(f"--vertex needs the package google-cloud-aiplatform: {error}") from error
        from headrace.pipeline.share.logs import LOGS, copy_logs
        from headrace.pipeline.share.runs import shared

        with tempfile.TemporaryDirectory(prefix="headrace-share-") as logs:
            for run in shared(folders):
                copy_logs(run, Path(logs), experiment(run.label))
            try:
                with _quiet():
                    aiplatform.upload_tb_log(**self.arguments(Path(logs, LOGS), name, description))
            except Exception as error:  # the library lets errors of several others through
                raise RunError(
                    f"the logs were not uploaded to Vertex AI: {_first_line(error)}\n  {_WAY_OUT}"
                ) from error
        return (
            f"https://{self.location}.tensorboard.googleusercontent.com/experiment/"
            f"projects+{self.project}+locations+{self.location}+tensorboards+{self.tensorboard}"
            f"+experiments+{experiment(name)}"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Google's client, which prints markup for notebooks and logs each step."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


_WAY_OUT = (
    "Credentials come from GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth application-default login`, and need the role"
    " Vertex AI User on the project"
)


def experiment(name: str) -> str:
    """The name with only the characters that Vertex AI allows."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST_NAME].strip("-") or "headrace"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
