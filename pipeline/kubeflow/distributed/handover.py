"""Files that the Trainer's task and the workers pass to each other, through the object store or on the shared volume.

The paths of a job are those of one pod. They travel as URIs, and each pod replaces these with its own paths. With a
shared volume every pod can reach the files already, and nothing is copied.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from headrace.common.durable import write_text
from headrace.configs.schema.train import CHECKPOINT_FOLDER
from headrace.pipeline.kubeflow.pod.paths import FILES, PodPaths
from headrace.pipeline.kubeflow.store import Store

if TYPE_CHECKING:
    from headrace.trainer.job import Job

JOB, ERROR = "job.json", "error.json"
"""The job to train, and an error of a worker that would recur in another try."""


@dataclass(frozen=True)
class Handover:
    """The folder of one training. uri: in the object store, or that which the folder on the volume stands for."""

    uri: str
    paths: PodPaths
    store: Store

    def write(self, name: str, text: str) -> None:
        """Write a file in the folder of the training. It appears whole."""
        if not self.paths.mount:
            self.store.write(f"{self.uri}/{name}", text)
            return
        write_text(self.paths.local(f"{self.uri}/{name}"), text)

    def read(self, name: str) -> str | None:
        """The text of a file in the folder of the training, or None if there is none."""
        if not self.paths.mount:
            return self.store.text_if_there(f"{self.uri}/{name}")
        try:
            return self.paths.local(f"{self.uri}/{name}").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def fetch(self, path: str | Path, chosen: Callable[[Sequence[str]], Sequence[str]] | None = None) -> None:
        """Download the files below the URI of a path to that path. chosen: selects among their names, in order."""
        uri = self.paths.remote(path)
        if self.paths.mount or uri is None:
            return
        Path(path).mkdir(parents=True, exist_ok=True)
        names = list(self.store.files(uri))
        for name in chosen(names) if chosen else names:
            self.store.get(f"{uri}/{name}", Path(path, name))

    def upload(self, path: str | Path) -> None:
        """Upload the files below a path to the URI that it stands for."""
        uri = self.paths.remote(path)
        if not self.paths.mount and uri is not None:
            self.store.put_all(Path(path), uri)

    def remove(self) -> None:
        """Remove the folder of the training."""
        if self.paths.mount:
            shutil.rmtree(self.paths.local(self.uri), ignore_errors=True)
            return
        for name in self.store.files(self.uri):
            self.store.remove(f"{self.uri}/{name}")
        self.store.remove_if_empty(self.uri)

    def as_uris(self, job: dict[str, Any]) -> dict[str, Any]:
        """A job's fields with URIs instead of this pod's paths."""
        return _with_paths(job, lambda path: self.paths.remote(path) or path)

    def as_paths(self, job: dict[str, Any]) -> dict[str, Any]:
        """A job's fields with this pod's paths instead of URIs."""
        return _with_paths(job, lambda uri: str(self.paths.local(uri)) if "://" in uri else uri)


def _with_paths(job: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    changed = dict(job)
    for name in ("transform_output", "model_run_dir", "base_model"):
        changed[name] = job[name] and change(job[name])
    for name in ("train_files", "eval_files"):
        changed[name] = [change(pattern) for pattern in job[name]]
    if CHECKPOINT_FOLDER in job["custom_config"]:
        changed["custom_config"] = {
            **job["custom_config"],
            CHECKPOINT_FOLDER: change(job["custom_config"][CHECKPOINT_FOLDER]),
        }
    return changed


def packed(handover: Handover, job: Job, files: Path) -> str:
    """A job as text for the workers. files: the folder of the files that were compiled in, such as vocabularies, which
    the text contains.
    """
    contents = {path.name: path.read_text(encoding="utf-8") for path in sorted(files.iterdir())}
    content = {"job": handover.as_uris(dataclasses.asdict(job)), "files": contents}
    return json.dumps(content).replace(str(files), FILES)


def unpacked(handover: Handover, text: str, files: Path) -> Job:
    """The job with this pod's own paths. files: an empty folder for the files that the text contains."""
    from headrace.trainer.job import Job

    packed_job = json.loads(text.replace(FILES, str(files)))
    for name, content in packed_job["files"].items():
        Path(files, name).write_text(content, encoding="utf-8")
    return Job(**handover.as_paths(packed_job["job"]))


def folders(patterns: Sequence[str]) -> list[str]:
    """The folders of file patterns, each once."""
    return list(dict.fromkeys(str(PurePosixPath(pattern).parent) for pattern in patterns))
