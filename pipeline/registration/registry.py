"""What the model registries have in common: their versions, and what can be done with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.registration.versions import PREFIX, PushedVersion, State

STATE = f"{PREFIX}state"
"""The tag or property that holds a version's state."""


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
