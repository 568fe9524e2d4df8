"""The logs in a TensorBoard on Vertex AI."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.configs.errors import MissingDependencyError, RunError

if TYPE_CHECKING:
    from headrace.pipeline.report.run_folder import RunFolder

LONGEST_NAME = 128
"""Of an experiment on Vertex AI, which is made of small letters, digits and hyphens."""


@dataclass(frozen=True)
class VertexUpload:
    """A TensorBoard by its project, its region, and its id (the number at the end of its resource name)."""

    project: str
    location: str
    tensorboard: str

    @classmethod
    def of(cls, given: str) -> VertexUpload:
        """From PROJECT/LOCATION/TENSORBOARD, or the whole resource name. RunError where it is neither."""
        whole = re.fullmatch(r"projects/([^/\s]+)/locations/([^/\s]+)/tensorboards/([^/\s]+)", given)
        parts = whole.groups() if whole else tuple(given.split("/"))
        if len(parts) != 3 or not all(re.fullmatch(r"[\w.:-]+", part) for part in parts):
            raise RunError(
                f"--vertex {given}: write PROJECT/LOCATION/TENSORBOARD, such as my-project/europe-west4/1234567890"
            )
        return cls(*parts)

    def arguments(self, logdir: Path, name: str, description: str) -> dict[str, Any]:
        """Of `aiplatform.upload_tb_log`."""
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

    def send(self, folder: Path, folders: Sequence[RunFolder], name: str, description: str) -> str:  # noqa: ARG002
        """Upload the logs of all runs as one experiment; returns its address. Raises RunError if that fails."""
        try:
            from google.cloud import aiplatform
        except ImportError as error:
            raise MissingDependencyError(f"--vertex needs the package google-cloud-aiplatform: {error}") from error
        from headrace.pipeline.share.logs import copy_logs
        from headrace.pipeline.share.runs import shared

        with tempfile.TemporaryDirectory(prefix="headrace-share-") as logs:
            for run in shared(folders):
                copy_logs(run, Path(logs), experiment(run.label))
            try:
                with _quiet():
                    aiplatform.upload_tb_log(**self.arguments(Path(logs, "logs"), name, description))
            except Exception as error:  # the library raises errors of several others
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
    """Google's client prints markup that is meant for notebooks, and logs each step where it should print results."""
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
    """The name as Vertex AI takes it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:LONGEST_NAME].strip("-") or "headrace"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
