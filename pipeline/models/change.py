"""What a rollback or a promotion did to the model in service, on this machine or on Kubeflow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelChange:
    """What a rollback or a promotion did, with paths on this machine or URIs.

    Attributes:
        version: The new version.
        model: Its model.
        run: Id of the run that trained it; None if that is not known.
        withdrawn: The models that it took out of service.
        kserve: What the InferenceService does then; None if there is none.
    """

    version: str
    model: str
    run: str | None
    withdrawn: tuple[str, ...]
    kserve: str | None = None
