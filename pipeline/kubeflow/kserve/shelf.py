"""The versions as KServe loads them, and what became of each, beside the pipeline's folder in the store.

TensorFlow Serving looks for numbered folders below the path that KServe loads a URI to. So a version that is to have a
URI of its own is copied to `kserve/models/<version>/<version>/saved_model.pb`, and `kserve/models/<version>` is its
URI. `saved_model.pb` is the last file to be written and the first to be removed; what is written is never changed.

What became of a version is in `kserve/<version>.json`, an object of its own, so two runs lose nothing of each other.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from headrace.common.checksums import ChecksumError, checksum, with_checksum, without_checksum
from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import GRAPH
from headrace.pipeline.kubeflow.results_store import home_uri
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_models import StoredModel

FOLDER = "kserve"
State = Literal["trying", "in_service", "failed", "superseded"]
_MINIO = "minio://"


@dataclass(frozen=True)
class Attempt:
    """What became of a version.

    Attributes:
        service: `<namespace>/<name>` of the InferenceService.
        version: The number.
        model: URI of the model, relative to the pipeline's folder.
        contents: Checksum of its files.
        uri: What the service was pointed to.
        run: `<run>/<task>` of the run that did so, or what a command is called.
        state: trying: begun, and not ended as far as is known; superseded: the service was pointed elsewhere meanwhile.
        at: When that was written, in ISO 8601, UTC.
        why: Why it failed, or what superseded it.
    """

    service: str
    version: str
    model: str
    contents: str
    uri: str
    run: str
    state: State
    at: str
    why: str = ""


@dataclass(frozen=True)
class KServeShelf:
    """The folder `kserve/` of a pipeline. home: URI of the pipeline's folder; claim, mount: of a shared volume that
    stands for the store, "" if there is none.
    """

    home: str
    store: Store
    claim: str = ""
    mount: str = ""

    @cached_property
    def attempts(self) -> Mapping[str, Attempt]:
        """By version. Raises RunError if one cannot be read."""
        folder = f"{self.home}/{FOLDER}"
        names = (name for name in self.store.files(folder) if name.endswith(".json") and "/" not in name)
        return {name.removesuffix(".json"): self._read(f"{folder}/{name}") for name in names}

    def in_service(self, service: str) -> Attempt | None:
        """The version that came into service last."""
        found = (one for one in self.attempts.values() if one.service == service and one.state == "in_service")
        return max(found, key=_age, default=None)

    def by_model(self, name: str) -> dict[str, str]:
        """What became of each model on the service of that name, in words, by its URI relative to the home."""
        own = [one for one in self.attempts.values() if one.service.partition("/")[2] == name]
        current = max((one for one in own if one.state == "in_service"), key=_age, default=None)
        found = {one.model: one for one in sorted(own, key=_age)}
        return {model: "in service" if one == current else _words(one) for model, one in found.items()}

    def note(self, attempt: Attempt) -> None:
        """Write what became of a version."""
        text = with_checksum(json.dumps(asdict(attempt)))
        self.store.write(f"{self.home}/{FOLDER}/{attempt.version}.json", text)
        self.__dict__.pop("attempts", None)

    def uri_of(self, version: str) -> str:
        """The URI that KServe loads: `s3://` for Kubeflow's own `minio://`, `pvc://` on a volume."""
        uri = f"{self.home}/{FOLDER}/models/{version}"
        if self.claim:
            return f"pvc://{self.claim}/{PodPaths('', self.mount).local(uri).relative_to(self.mount)}"
        return f"s3://{uri.removeprefix(_MINIO)}" if uri.startswith(_MINIO) else uri

    def stage(self, pushed: str, version: str, contents: str | None) -> str:
        """Copy a pushed version to where KServe loads it, unless it is there; returns the checksum of its files.

        pushed: URI of its folder; contents: the checksum that it was pushed with, if it is known. Raises RunError if
        the files have another.
        """
        target = f"{self.home}/{FOLDER}/models/{version}/{version}"
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            self.store.get_all(pushed, Path(folder))
            found = checksum(Path(folder))
            if not Path(folder, GRAPH).is_file() or (contents is not None and found != contents):
                raise RunError(f"{pushed}: the files are not the ones that were pushed, so KServe is not given them")
            if not self.store.exists(f"{target}/{GRAPH}"):
                self.store.put_all(Path(folder), target, last=GRAPH)
        return found

    def remove_all_but(self, kept: Collection[str]) -> None:
        """Remove the copies of other versions."""
        folder = f"{self.home}/{FOLDER}/models"
        for version in self.store.children(folder):
            if version.isdecimal() and version not in kept:
                for name in sorted(self.store.files(f"{folder}/{version}"), key=lambda name: not name.endswith(GRAPH)):
                    self.store.remove(f"{folder}/{version}/{name}")
                self.store.remove_if_empty(f"{folder}/{version}")

    def _read(self, uri: str) -> Attempt:
        try:
            return Attempt(**json.loads(without_checksum(self.store.text(uri).encode())))
        except (ChecksumError, ValueError, TypeError) as error:
            way = "Remove it: the next run then looks at the InferenceService itself"
            raise RunError(f"{uri}: the record of a rollout is damaged: {error}.\n  {way}.") from None


def with_kserve(config: PipelineConfig, store: Store, models: Sequence[StoredModel]) -> list[StoredModel]:
    """The models with what became of them on the InferenceService of the config, if it has one.

    Raises RunError if a record is damaged.
    """
    if config.deploy.kserve is None:
        return [*models]
    found = KServeShelf(home_uri(config), store).by_model(config.deploy.kserve.name)
    return [replace(model, kserve=found.get(str(model.path), "")) for model in models]


def _age(attempt: Attempt) -> tuple[str, int]:
    return attempt.at, int(attempt.version)


def _words(attempt: Attempt) -> str:
    if attempt.state == "failed":
        return f"failed: {attempt.why}"
    return {"trying": "not finished", "in_service": "was in service"}.get(attempt.state, "superseded")
