"""Brings model registries to the state of `deploy.push`, after a push, and after a run that pushed nothing.

for outcome in register(config.deploy.registry, "taxi", local_shelf(config, runs)):
    outcome.error                 # None, or why it was not possible

Each registry is asked what it has; what is missing is added, the newest LIMIT versions at most, and states that changed
are noted. So whatever failed is tried again by the next run, promotion or rollback, and nothing is registered twice.
A version that cannot be registered prevents nothing else; a server that no longer answers ends the attempt. Nothing
here raises because of a registry.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from headrace.common.credentials import redact
from headrace.configs.schema.model_registry import KubeflowRegistry, MlflowRegistry, ModelRegistries, RegistryServer
from headrace.pipeline.notify.transport import DeliveryError
from headrace.pipeline.registration.api import Api
from headrace.pipeline.registration.kubeflow import KubeflowModels
from headrace.pipeline.registration.mlflow import Mlflow
from headrace.pipeline.registration.registry import Known, ModelRegistry
from headrace.pipeline.registration.versions import Shelf

LIMIT = 20
"""The newest versions that are registered if they are not: after this, a folder that has many is registered in part."""
UNANSWERED = 3
"""Requests in a row without an answer after which a server is asked for nothing more."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RegistrationOutcome:
    """What became of a registry. model: its name there; added: the numbers of new versions; error: why not all."""

    registry: str
    model: str
    added: tuple[int, ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.registry} has version {', '.join(map(str, self.added))} of {self.model}"


def register(
    registries: ModelRegistries, pipeline: str, shelf: Shelf, environ: Mapping[str, str] = os.environ
) -> list[RegistrationOutcome]:
    """Register the versions of a folder in each registry, and log what was not possible."""
    outcomes = [_registered(name, server, pipeline, shelf, environ) for name, server in registries.named]
    for one in outcomes:
        if one.error is not None:
            what = "deploy.registry.%s: the versions in %s are not all registered: %s; %s"
            logger.warning(what, one.registry, shelf.destination, one.error, "the next run tries again")
    return outcomes


def _registered(
    name: str, server: RegistryServer, pipeline: str, shelf: Shelf, environ: Mapping[str, str]
) -> RegistrationOutcome:
    model, work = server.model, None
    try:
        registry = _opened(server, pipeline, shelf.destination, environ)
        model, work = registry.name, _Registration(registry, shelf)
        work.bring_up()
        error = None
    except Exception as why:  # a push must not fail because of a registry, whatever it answers
        error = _reason(why)
    if work is None:
        return RegistrationOutcome(name, model, error=error)
    problems = [f"{', '.join(what)}: {why}" for why, what in work.failed.items()]
    problems += [error] if error is not None and error not in work.failed else []
    return RegistrationOutcome(name, model, tuple(work.added), "; ".join(problems) or None)


def _reason(error: Exception) -> str:
    """Why something was not possible, without a credential."""
    if isinstance(error, DeliveryError):
        return str(error)
    logger.debug("deploy.registry", exc_info=error)
    said = redact(str(error).splitlines()[0]) if str(error) else ""
    return f"an unexpected {type(error).__name__}{said and f' ({said})'}"


def _opened(server: RegistryServer, pipeline: str, destination: str, environ: Mapping[str, str]) -> ModelRegistry:
    api = Api.of(server, environ)
    if isinstance(server, MlflowRegistry):
        return Mlflow(server, pipeline, destination, api)
    assert isinstance(server, KubeflowRegistry)  # noqa: S101 - there is no other
    return KubeflowModels(server, pipeline, destination, api)


@dataclass
class _Registration:
    """What is done to one registry.

    added: the numbers of new versions; failed: what was not possible, by the reason; unanswered: requests in a row
    that got no answer.
    """

    registry: ModelRegistry
    shelf: Shelf
    added: list[int] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    known: dict[int, Known] = field(default_factory=dict)
    unanswered: int = 0

    def bring_up(self) -> None:
        """Add what is missing, and note states. Raises DeliveryError if the server does not answer."""
        states = self.shelf.states
        self.known = self.registry.known()
        for number in sorted(states)[-LIMIT:]:
            if number not in self.known:
                self._attempt(f"version {number}", partial(self._add, number))
        for number, one in list(self.known.items()):
            state = states.get(number, "removed")
            if one.state != state:
                self._attempt(f"the state of version {number}", partial(self.registry.mark, one, state))
        for number, state in states.items():
            if state == "in_service" and number in self.known:
                what = f"that version {number} is in service"
                self._attempt(what, partial(self.registry.serve, self.known[number]))

    def _add(self, number: int) -> None:
        self.known[number] = self.registry.add(self.shelf.describe(number))
        self.added.append(number)

    def _attempt(self, what: str, do: Callable[[], None]) -> None:
        """Do something, and note if it fails.

        Raises DeliveryError if the server does not answer any more: at all, or only such requests, a few times in a
        row, as each has to run into its limit of time.
        """
        try:
            do()
            self.unanswered = 0
        except Exception as error:
            self.failed.setdefault(_reason(error), []).append(what)
            if not (isinstance(error, DeliveryError) and error.unanswered):
                self.unanswered = 0
                return
            self.unanswered += 1
            self.registry.known()
            if self.unanswered == UNANSWERED:
                raise
