"""The verdict on a profile, as it is written and read: one JSON object, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

INPUT_BOUND = 0.2
"""Above this share of waiting for input the steps are called input-bound; xprof calls it HIGHLY so."""
SOMEWHAT = 0.05
"""Above this one, somewhat."""


@dataclass(frozen=True)
class Split:
    """Shares of the time, which sum up to 1 (trace.py says what is what)."""

    input: float
    host: float
    compute: float
    idle: float


@dataclass(frozen=True)
class Operation:
    """All the runs of one operation of TensorFlow's."""

    name: str
    kind: str
    place: str
    """`host` or `device`."""
    seconds: float
    """Over all threads, without what it called."""
    share: float
    """Of the time that operations of its place took."""
    count: int


@dataclass(frozen=True)
class Change:
    """One setting to change."""

    setting: str
    to: str
    why: str
    gain: float
    """The share of the time that it could save at most."""

    def __str__(self) -> str:
        return f"set {self.setting} to {self.to}: {self.why}"


class Verdict(BaseModel):
    """What a profile says. Shares are 0 to 1, of the time from the first profiled step's begin to the last's end."""

    model_config = ConfigDict(frozen=True)

    steps: int
    """Profiled; 0: there is no profile, and `note` says why. All else is then empty."""
    executions: int = 0
    """In which they ran."""
    first_step: int | None = None
    """Counted from 1 over all epochs."""
    step_seconds: float | None = None
    """Of the average step."""
    split: Split | None = None
    """Where the time went."""
    input_bound: float | None = None
    """The share in which a step waited for input and nothing computed: `split.input`."""
    copying: float | None = None
    """The part of it in which batches were on their way to an accelerator."""
    xprof_input: float | None = None
    """What xprof says to the same: it also counts waits during which other parts of the step compute."""
    device: str = "CPU"
    """What the steps computed on."""
    cause: str = ""
    """Why the steps wait for input; empty where they hardly do."""
    stages: dict[str, float] = {}
    """Seconds of work, over all threads, of what tf.data did meanwhile."""
    operations: tuple[Operation, ...] = ()
    """TensorFlow's operations that took most, input's and model's alike."""
    peak_bytes: int | None = None
    """The most memory that the training process held until the end of the profile."""
    device_peak_bytes: dict[str, int] = {}
    """The most that was taken of each accelerator's memory."""
    changes: tuple[Change, ...] = ()
    """The settings to change, the one that could save most first."""
    note: str = ""
    """Why other steps were profiled than the config asks for, or none."""

    @property
    def words(self) -> str:
        """The verdict in a few words."""
        if self.input_bound is None:
            return "no profile"
        if self.input_bound > INPUT_BOUND:
            return "input-bound"
        return "somewhat input-bound" if self.input_bound > SOMEWHAT else "not input-bound"
