"""Brings model registries to the state of `deploy.push`, after a push, and after a run that pushed nothing.

for outcome in register(config.deploy.registry, "taxi", local_shelf(config, runs)):
    outcome.error                 # None, or why it was not possible

Each registry is asked what it has; what is missing is added, the newest LIMIT versions at most, and states that changed
are noted. So whatever failed is tried again by the next run, promotion or rollback, and nothing is registered twice.
Nothing here raises because of a registry.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.common.credentials import redact
from headrace.configs.schema.model_registry import KubeflowRegistry, MlflowRegistry, ModelRegistries, RegistryServer
from headrace.pipeline.notify.transport import DeliveryError
from headrace.pipeline.registration.api import Api
from headrace.pipeline.registration.versions import PREFIX, PushedVersion, Shelf, State

LIMIT = 20
"""The newest versions that are registered if they are not: after this, a folder that has many is registered in part."""
STATE = f"{PREFIX}state"
"""The tag or property that holds a version's state."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Known:
    """A version in a registry. id: the registry's own; state: as it is noted there."""

    id: str
    state: str


class ModelRegistry(Protocol):
    """What the registries have in common. All of it raises DeliveryError."""

    @property
    def name(self) -> str:
        """The registered model."""

    def known(self) -> dict[int, Known]:
        """The versions of the destination by their numbers."""

    def add(self, version: PushedVersion) -> Known:
        """Register a version."""

    def mark(self, one: Known, state: State) -> None:
        """Note a version's state."""

    def serve(self, one: Known) -> None:
        """Let an alias name the version that is in service."""


@dataclass(frozen=True)
class Outcome:
    """What became of a registry. model: its name there; added: the numbers of new versions; error: why not all."""

    registry: str
    model: str
    added: tuple[int, ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.registry} has version {', '.join(map(str, self.added))} of {self.model}"


def register(
    registries: ModelRegistries, pipeline: str, shelf: Shelf, environ: Mapping[str, str] = os.environ
) -> list[Outcome]:
    """Register the versions of a folder in each registry, and log what was not possible."""
    outcomes = [_registered(name, server, pipeline, shelf, environ) for name, server in registries.named]
    for one in outcomes:
        if one.error is not None:
            what = "deploy.registry.%s: the versions in %s are not all registered: %s; %s"
            logger.warning(what, one.registry, shelf.destination, one.error, "the next run tries again")
    return outcomes


def _registered(name: str, server: RegistryServer, pipeline: str, shelf: Shelf, environ: Mapping[str, str]) -> Outcome:
    added: list[int] = []
    model = server.model
    try:
        registry = _opened(server, pipeline, shelf.destination, environ)
        model = registry.name
        _bring_up(registry, shelf, added.append)
    except DeliveryError as error:
        return Outcome(name, model, tuple(added), str(error))
    except Exception as error:  # a push must not fail because of a registry, whatever it answers
        logger.debug("deploy.registry.%s", name, exc_info=True)
        said = redact(str(error).splitlines()[0]) if str(error) else ""
        return Outcome(name, model, tuple(added), f"an unexpected {type(error).__name__}{said and f' ({said})'}")
    return Outcome(name, model, tuple(added))


def _opened(server: RegistryServer, pipeline: str, destination: str, environ: Mapping[str, str]) -> ModelRegistry:
    from headrace.pipeline.registration.kubeflow import KubeflowModels
    from headrace.pipeline.registration.mlflow import Mlflow

    api = Api.of(server, environ)
    if isinstance(server, MlflowRegistry):
        return Mlflow(server, pipeline, destination, api)
    assert isinstance(server, KubeflowRegistry)  # noqa: S101 - there is no other
    return KubeflowModels(server, pipeline, destination, api)


def _bring_up(registry: ModelRegistry, shelf: Shelf, note: Callable[[int], None]) -> None:
    known = registry.known()
    missing = sorted(shelf.states)[-LIMIT:]
    missing = [number for number in missing if number not in known]
    for version in shelf.describe(missing) if missing else ():
        known[version.number] = registry.add(version)
        note(version.number)
    for number, one in known.items():
        state = shelf.states.get(number, "removed")
        if one.state != state:
            registry.mark(one, state)
    for number, state in shelf.states.items():
        if state == "in_service" and number in known:
            registry.serve(known[number])
