"""The profile section: where the time of the training steps went, from ProfileVerdict."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from headrace.components.profile.result import OperationTime, ProfileDiagnosis
from headrace.pipeline.results.run_folder import RunFolder

_PARTS = (
    ("input", "Input", "a step waits for its batch, or for the copy to the accelerator, and nothing computes"),
    ("compute", "Compute", "the steps' own operations"),
    ("host", "Host", "Python, Keras and the calls of the graph"),
    ("idle", "Between steps", "callbacks, checkpoints"),
)
_ROWS = 10


@dataclass(frozen=True)
class TimePart:
    """One part of the steps' time. `share` is a fraction of the whole."""

    name: str
    label: str
    what: str
    share: float


@dataclass(frozen=True)
class ProfileSection:
    """The verdict, and the parts of the time in the order of the page; without a profile there are none."""

    verdict: ProfileDiagnosis
    parts: tuple[TimePart, ...] = ()

    @property
    def tone(self) -> str:
        """`good`, `warn` or `bad`; `quiet` without a profile."""
        tones = {"input-bound": "bad", "somewhat input-bound": "warn", "not input-bound": "good"}
        return tones.get(self.verdict.words, "quiet")

    @property
    def stages(self) -> list[tuple[str, float, float]]:
        """The stages of the input: name, seconds, fraction of the input's time."""
        whole = sum(self.verdict.stages.values()) or 1.0
        return [(name, seconds, seconds / whole) for name, seconds in self.verdict.stages.items()]

    @property
    def operations(self) -> tuple[OperationTime, ...]:
        """The most expensive operations."""
        return self.verdict.operations[:_ROWS]


def read_profile(folder: RunFolder) -> ProfileSection | None:
    """The section, or None if the run has no profile verdict or another version wrote it."""
    text = folder.text("ProfileVerdict", "verdict")
    if text is None:
        return None
    try:
        verdict = ProfileDiagnosis.model_validate_json(text)
    except ValidationError:
        return None
    split = verdict.split
    if split is None:
        return ProfileSection(verdict)
    parts = (TimePart(name, label, what, getattr(split, name)) for name, label, what in _PARTS)
    return ProfileSection(verdict, tuple(parts))
