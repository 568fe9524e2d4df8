"""What ProfileVerdict says of where the steps' time went."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from headrace.components.profile.result import OperationTime, ProfileDiagnosis
from headrace.pipeline.report.run_folder import RunFolder

_PARTS = (
    ("input", "Input", "a step waits for its batch, or for its copy to the accelerator, and nothing computes"),
    ("compute", "Compute", "the steps' own operations"),
    ("host", "Host", "Python, Keras and calling the graph"),
    ("idle", "Between steps", "callbacks, checkpoints"),
)
_ROWS = 10


@dataclass(frozen=True)
class Part:
    """One part of the steps' time."""

    name: str
    label: str
    what: str
    share: float


@dataclass(frozen=True)
class Profile:
    """The verdict, and its split in the order of the page."""

    verdict: ProfileDiagnosis
    parts: tuple[Part, ...] = ()

    @property
    def tone(self) -> str:
        """Good, warn or bad; quiet without a profile."""
        tones = {"input-bound": "bad", "somewhat input-bound": "warn", "not input-bound": "good"}
        return tones.get(self.verdict.words, "quiet")

    @property
    def stages(self) -> list[tuple[str, float, float]]:
        """What the input does: name, seconds, share of it."""
        whole = sum(self.verdict.stages.values()) or 1.0
        return [(name, seconds, seconds / whole) for name, seconds in self.verdict.stages.items()]

    @property
    def operations(self) -> tuple[OperationTime, ...]:
        """The most expensive."""
        return self.verdict.operations[:_ROWS]


def read_profile(folder: RunFolder) -> Profile | None:
    """None where the run has no verdict on a profile, or one of another version."""
    text = folder.text("ProfileVerdict", "verdict")
    if text is None:
        return None
    try:
        verdict = ProfileDiagnosis.model_validate_json(text)
    except ValidationError:
        return None
    split = verdict.split
    if split is None:
        return Profile(verdict)
    return Profile(verdict, tuple(Part(name, label, what, getattr(split, name)) for name, label, what in _PARTS))
