"""Brings the server of `deploy.serving` to the state of `deploy.push`, after a push and after a run without one.

outcome = bring_up(config.deploy.serving, "taxi", pushed)
outcome.error                   # None, or why the version in service is not loaded

Its config file is compared with what should be in it, and the server is asked for the version in service, so pushing
twice does nothing, and whatever failed is tried again by the next run, promotion or rollback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from headrace.components.model_server.client import ServerUnreachableError
from headrace.components.model_server.connection import LoadError, opened, wait_until_answering, wait_until_loaded
from headrace.components.stored_models.stored_versions import shown
from headrace.configs.schema.model_registry import filled
from headrace.configs.schema.serving import ServingConfig
from headrace.pipeline.models.destination import Destination
from headrace.pipeline.production.config_file import Labels, in_between, update, with_model
from headrace.pipeline.results.serving import ServingOutcome


@dataclass(frozen=True)
class PushedModel:
    """A version in `deploy.push`. model: what identifies its model; withdrawn: whether a rollback took that out."""

    model: str | None
    withdrawn: bool


@dataclass(frozen=True)
class ModelService:
    """All versions in `deploy.push` by number. path: of the folder, for a server on this machine, or its
    URI.
    """

    path: str
    versions: Mapping[int, PushedModel]

    @property
    def in_service(self) -> int:
        """The version that servers load."""
        return max(self.versions)

    @property
    def labels(self) -> Labels:
        """What `stable` and `canary` name."""
        newest = self.versions[self.in_service]
        if newest.model is not None and [one.model for one in self.versions.values()].count(newest.model) > 1:
            return Labels(stable=self.in_service, canary=self.in_service)  # it has been in service before
        earlier = [
            number
            for number, one in self.versions.items()
            if not one.withdrawn and one.model is not None and one.model != newest.model
        ]
        return Labels(stable=max(earlier, default=self.in_service), canary=self.in_service)


def local_service(there: Destination) -> ModelService | None:
    """The folder on this machine; None if nothing was pushed."""
    if not there.versions:
        return None
    versions = dict[int, PushedModel]()
    for number in there.versions:
        uri = there.model_of(str(number))
        entry = there.registry.find(uri) if uri else None
        versions[number] = PushedModel(uri, withdrawn=entry is not None and entry.withdrawn_at is not None)
    return ModelService(shown(there.path), versions)


def bring_up(serving: ServingConfig, pipeline: str, service: ModelService) -> ServingOutcome:
    """Write the config file, and wait until the server has loaded the version in service.

    Raises RunError if the config file cannot be written.
    """
    version, model = service.in_service, filled(serving.model, pipeline)
    base = filled(serving.base_path, pipeline) if serving.base_path else service.path
    labels = service.labels if serving.labels else None
    asked = serving.rest is not None or serving.grpc is not None
    final = partial(with_model, model=model, base_path=base, labels=labels)
    updated = False
    if serving.config_file is not None and labels and not _is(serving.config_file, final):
        first = partial(in_between, model=model, base_path=base, labels=labels, present=service.versions)
        updated = update(serving.config_file, first)
    elif serving.config_file is not None:
        updated = update(serving.config_file, final)
    if not asked:
        return ServingOutcome(version=version, config_updated=updated)
    address = " and ".join(filter(None, (serving.rest, serving.grpc)))
    try:
        seconds = _wait(serving, pipeline, {version, *(labels.named.values() if labels else ())})
    except (LoadError, ServerUnreachableError) as error:
        rejected = isinstance(error, LoadError) and error.refused and error.version == version
        return ServingOutcome(
            version=version, address=address, config_updated=updated, error=str(error), rejected=rejected
        )
    if serving.config_file is not None and labels:
        updated = update(serving.config_file, final) or updated
    return ServingOutcome(version=version, address=address, seconds=seconds, config_updated=updated)


def _is(file: str, final: partial[str]) -> bool:
    """Whether the config file is what it should be."""
    unchanged = False

    def look(text: str) -> str:
        nonlocal unchanged
        unchanged = bool(text) and final(text) == text
        return text

    update(file, look)
    return unchanged


def _wait(serving: ServingConfig, pipeline: str, versions: set[int]) -> float:
    """Wait until the server has loaded the versions, the newest first; returns the seconds."""
    with opened(serving, pipeline) as clients:
        wait_until_answering(clients, serving.timeout_seconds)
        return sum(
            wait_until_loaded(clients, version, serving.timeout_seconds) for version in sorted(versions, reverse=True)
        )
