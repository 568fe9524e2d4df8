"""What the Trainer's task and the workers hand each other: through the object store, or on the shared volume.

The paths of a job are those of one pod. They travel as URIs, and each pod puts its own paths in their place. With a
shared volume all of it is in reach of every pod already, and nothing is copied.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from headrace.configs.checkpoint import KEPT_IN
from headrace.pipeline.kubeflow.carried import FILES
from headrace.pipeline.kubeflow.places import Places
from headrace.pipeline.kubeflow.store import Store

if TYPE_CHECKING:
    from headrace.trainer.job import Job

JOB, ERROR = "job.json", "error.json"
"""What is trained; and an error of a worker that another try would meet again."""


@dataclass(frozen=True)
class Handover:
    """`uri`: a folder in the object store for one training, or the URI that its folder on the volume stands for."""

    uri: str
    places: Places
    store: Store

    def write(self, name: str, text: str) -> None:
        """A file in the folder of the training, which appears whole."""
        if not self.places.mount:
            self.store.write(f"{self.uri}/{name}", text)
            return
        path = self.places.local(f"{self.uri}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".partial").write_text(text, encoding="utf-8")
        path.with_suffix(".partial").replace(path)

    def read(self, name: str) -> str | None:
        """The text of such a file; None where there is none."""
        try:
            if self.places.mount:
                return self.places.local(f"{self.uri}/{name}").read_text(encoding="utf-8")
            return self.store.text(f"{self.uri}/{name}")
        except FileNotFoundError:
            return None

    def fetch(self, path: str | Path, chosen: Callable[[Sequence[str]], Sequence[str]] | None = None) -> None:
        """Copy what the store has below the URI of a path there; `chosen`: which of the names, in order."""
        uri = self.places.remote(path)
        if self.places.mount or uri is None:
            return
        Path(path).mkdir(parents=True, exist_ok=True)
        names = list(self.store.files(uri))
        for name in chosen(names) if chosen else names:
            self.store.get(f"{uri}/{name}", Path(path, name))

    def give(self, path: str | Path) -> None:
        """Copy the files below a path to where the path stands for."""
        uri = self.places.remote(path)
        if not self.places.mount and uri is not None:
            self.store.put_all(Path(path), uri)

    def remove(self) -> None:
        """Remove the folder of the training."""
        if self.places.mount:
            shutil.rmtree(self.places.local(self.uri), ignore_errors=True)
            return
        for name in self.store.files(self.uri):
            self.store.remove(f"{self.uri}/{name}")
        self.store.remove_if_empty(self.uri)

    def as_uris(self, job: dict[str, Any]) -> dict[str, Any]:
        """A job's fields with URIs in the place of this pod's paths."""
        return _with_paths(job, lambda path: self.places.remote(path) or path)

    def as_paths(self, job: dict[str, Any]) -> dict[str, Any]:
        """A job's fields with this pod's paths in the place of URIs."""
        return _with_paths(job, lambda uri: str(self.places.local(uri)) if "://" in uri else uri)


def _with_paths(job: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    changed = dict(job)
    for name in ("transform_output", "model_run_dir", "base_model"):
        changed[name] = job[name] and change(job[name])
    for name in ("train_files", "eval_files"):
        changed[name] = [change(pattern) for pattern in job[name]]
    if KEPT_IN in job["custom_config"]:
        changed["custom_config"] = {**job["custom_config"], KEPT_IN: change(job["custom_config"][KEPT_IN])}
    return changed


def packed(handover: Handover, job: Job, files: Path) -> str:
    """A job as the workers are handed it. files: the folder of what came along with the pipeline, such as vocabularies,
    which travels on with it.
    """
    contents = {path.name: path.read_text(encoding="utf-8") for path in sorted(files.iterdir())}
    told = {"job": handover.as_uris(dataclasses.asdict(job)), "files": contents}
    return json.dumps(told).replace(str(files), FILES)


def unpacked(handover: Handover, text: str, files: Path) -> Job:
    """The job with this pod's own paths. files: an empty folder for what came along."""
    from headrace.trainer.job import Job

    told = json.loads(text.replace(FILES, str(files)))
    for name, content in told["files"].items():
        Path(files, name).write_text(content, encoding="utf-8")
    return Job(**handover.as_paths(told["job"]))


def folders(patterns: Sequence[str]) -> list[str]:
    """The folders of patterns of files."""
    return list(dict.fromkeys(str(PurePosixPath(pattern).parent) for pattern in patterns))
