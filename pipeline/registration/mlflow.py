"""Versions in MLflow: a run for each model, a version of the registered model, and an alias for what is in service.

As of MLflow's REST API 2.0 (https://mlflow.org/docs/latest/api_reference/rest-api.html). MLflow takes no path on a
machine as the source of a version, so the files of a folder on this machine are copied into its artifact store, through
the server (`--serve-artifacts`, its default).
"""

from __future__ import annotations

import collections
import hashlib
import posixpath
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from headrace.configs.schema.model_registry import MlflowRegistry, filled
from headrace.pipeline.notify.transport import DeliveryError
from headrace.pipeline.registration.api import Api, quoted
from headrace.pipeline.registration.registry import STATE, Known
from headrace.pipeline.registration.versions import PREFIX, PushedVersion, State

_API = "/api/2.0/mlflow"
_FILES = "/api/2.0/mlflow-artifacts/artifacts"
_PAGE = 200
_BATCH = 100
"""Parameters in one request, which MLflow limits to this."""
_METRICS = 1000
"""Metrics in one request."""
_VALUE = 5000
"""Characters of a tag or parameter."""
_UNNAMED = re.compile(r"[^\w\-. /:]")
"""What the key of a metric or parameter may not hold."""
_KEY = 250
"""Characters of such a key."""
_DIGEST = 8
_ID, _DESTINATION, _VERSION = f"{PREFIX}id", f"{PREFIX}destination", f"{PREFIX}version"
MODEL = "model"
"""The folder of a run's artifacts with the model."""


class Mlflow:
    """A registered model on a server of MLflow's."""

    def __init__(self, settings: MlflowRegistry, pipeline: str, destination: str, api: Api) -> None:
        self._api, self._alias, self._destination = api, settings.alias, destination
        self._name = filled(settings.model, pipeline)
        self._experiment = filled(settings.experiment, pipeline)

    @property
    def name(self) -> str:
        """The registered model, for messages."""
        return self._name

    def known(self) -> dict[int, Known]:
        """The versions that were registered for this destination."""
        found: dict[int, Known] = {}
        for one in self._listed():
            tags = _mapping(one.get("tags", []))
            if tags.get(_DESTINATION) == self._destination and tags.get(_VERSION, "").isdecimal():
                found[int(tags[_VERSION])] = Known(str(one["version"]), tags.get(STATE, ""))
        return found

    def add(self, version: PushedVersion) -> Known:
        """Register a version, and the run of its model if there is none yet."""
        self._make_model()
        run, artifacts = self._run_of(version)
        is_local = version.folder is not None and "://" not in version.source
        source = f"{artifacts.rstrip('/')}/{MODEL}" if is_local else version.source
        body = {
            "name": self._name,
            "source": source,
            "run_id": run,
            "tags": _tags({**_prefixed(version), STATE: version.state, _DESTINATION: self._destination}),
            "description": version.description,
        }
        made = self._api.send("POST", f"{_API}/model-versions/create", body)
        return Known(str(made["model_version"]["version"]), version.state)

    def mark(self, one: Known, state: State) -> None:
        """Note another state of a version."""
        body = {"name": self._name, "version": one.id, "key": STATE, "value": state}
        self._api.send("POST", f"{_API}/model-versions/set-tag", body)

    def serve(self, one: Known) -> None:
        """Move the alias to the version in service."""
        model = self._api.get(f"{_API}/registered-models/get", name=self._name)["registered_model"]
        aliases = {each["alias"]: str(each["version"]) for each in model.get("aliases", [])}
        if aliases.get(self._alias) != one.id:
            body = {"name": self._name, "alias": self._alias, "version": one.id}
            self._api.send("POST", f"{_API}/registered-models/alias", body)

    def _listed(self) -> Iterator[dict[str, Any]]:
        token: str | None = ""
        while token is not None:
            page = {"page_token": token} if token else {}
            wanted = f"name='{self._name}'"
            answer = self._api.get(f"{_API}/model-versions/search", filter=wanted, max_results=_PAGE, **page)
            yield from answer.get("model_versions", [])
            token = answer.get("next_page_token") or None

    def _make_model(self) -> None:
        try:
            self._api.get(f"{_API}/registered-models/get", name=self._name)
        except DeliveryError as error:
            if error.status != 404:
                raise
            self._api.send("POST", f"{_API}/registered-models/create", {"name": self._name})

    def _run_of(self, version: PushedVersion) -> tuple[str, str]:
        """The id of the model's run and the URI of its artifacts. A run that was begun and not finished is completed:
        what it has already is sent again.
        """
        experiment = self._experiment_id()
        id_ = hashlib.sha256(f"{self._destination}\n{version.model}".encode()).hexdigest()[:32]
        wanted = {"experiment_ids": [experiment], "filter": f"tags.\"{_ID}\" = '{id_}'", "max_results": 1}
        runs = self._api.send("POST", f"{_API}/runs/search", wanted).get("runs", [])
        if not runs:
            body = {
                "experiment_id": experiment,
                "run_name": version.run or str(version.number),
                "start_time": _milliseconds(version),
                "tags": _tags({_ID: id_, "mlflow.note.content": version.description, **_prefixed(version)}),
            }
            runs = [self._api.send("POST", f"{_API}/runs/create", body)["run"]]
        info = runs[0]["info"]
        run, artifacts = str(info["run_id"]), str(info["artifact_uri"])
        if info["status"] != "FINISHED":
            self._fill(run, artifacts, version)
            ended = {"run_id": run, "status": "FINISHED", "end_time": round(time.time() * 1000)}
            self._api.send("POST", f"{_API}/runs/update", ended)
        return run, artifacts

    def _experiment_id(self) -> str:
        try:
            found = self._api.get(f"{_API}/experiments/get-by-name", experiment_name=self._experiment)
            return str(found["experiment"]["experiment_id"])
        except DeliveryError as error:
            if error.status != 404:
                raise
        return str(self._api.send("POST", f"{_API}/experiments/create", {"name": self._experiment})["experiment_id"])

    def _fill(self, run: str, artifacts: str, version: PushedVersion) -> None:
        """Send metrics, parameters and files."""
        at = _milliseconds(version)
        measured = [(name, 0, value) for name, value in sorted(version.metrics.items())]
        measured += [(f"training/{name}", epoch, value) for name, epoch, value in version.curves]
        keys, settings = keys_of({name for name, _, _ in measured}), keys_of(version.settings)
        metrics = [{"key": keys[name], "value": value, "timestamp": at, "step": step} for name, step, value in measured]
        params = [{"key": settings[name], "value": value[:_VALUE]} for name, value in version.settings.items()]
        for part in _parts(metrics, _METRICS):
            self._api.send("POST", f"{_API}/runs/log-batch", {"run_id": run, "metrics": part})
        for part in _parts(params, _BATCH):
            self._api.send("POST", f"{_API}/runs/log-batch", {"run_id": run, "params": part})
        if version.folder is not None and "://" not in version.source:
            self._copy(artifacts, version)

    def _copy(self, artifacts: str, version: PushedVersion) -> None:
        """Put the files of the model and its card into the run's artifacts."""
        place = urlsplit(artifacts)
        if place.scheme != "mlflow-artifacts":
            where = f"the experiment {self._experiment} has its artifacts in {place.scheme or 'a folder of the server'}"
            raise DeliveryError(
                f"{where}, not behind the server; start it with --serve-artifacts and set another `experiment`, or set"
                " `deploy.registry.source` to the URI at which others read deploy.push"
            )
        folder = version.folder
        assert folder is not None  # noqa: S101 - of the caller
        files = {f"{MODEL}/{file.relative_to(folder).as_posix()}": file for file in folder.rglob("*") if file.is_file()}
        files |= {card.name: card for card in version.cards}
        for name, file in sorted(files.items()):
            self._api.put_file(quoted(f"{_FILES}{place.path.rstrip('/')}/{name}"), file)


def keys_of(names: Iterable[str]) -> dict[str, str]:
    """The keys of metrics or parameters in MLflow, by their names: each key is of one name alone.

    Characters that MLflow refuses become `_`. If several names would then have the same key, those that are not that
    key themselves end in a hyphen and the beginning of the SHA-256 digest of the name.
    """
    keys = {name: _allowed(name) for name in names}
    count = collections.Counter(keys.values())
    return {name: key if count[key] == 1 or key == name else _distinct(name, key) for name, key in keys.items()}


def _allowed(name: str) -> str:
    key = _UNNAMED.sub("_", name)[:_KEY]
    is_path = posixpath.normpath(key) == key and not key.startswith(("/", "."))  # as that of a file, which it may be
    return key if is_path else re.sub(r"/|^\.", "_", key)


def _distinct(name: str, key: str) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{key[: _KEY - _DIGEST - 1]}-{digest}"


def _prefixed(version: PushedVersion) -> dict[str, str]:
    return {f"{PREFIX}{name}": value[:_VALUE] for name, value in version.facts.items()}


def _tags(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _mapping(tags: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {tag["key"]: tag.get("value", "") for tag in tags}


def _milliseconds(version: PushedVersion) -> int:
    """When the model was trained, or else pushed: the number of a version is a time."""
    return round((version.trained.timestamp() if version.trained else version.number) * 1000)


def _parts(items: Sequence[dict[str, Any]], most: int) -> Iterator[Sequence[dict[str, Any]]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]
