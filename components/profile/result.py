"""The diagnosis of a profile as ProfileVerdict writes it: one JSON object, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

INPUT_BOUND = 0.2
"""Steps that wait for input for more than this share of the time are input-bound; xprof calls them HIGHLY so."""
SOMEWHAT = 0.05
"""Above this share they are somewhat input-bound."""


@dataclass(frozen=True)
class TimeShares:
    """Shares of the time, which sum to 1. trace.py defines them."""

    input: float
    host: float
    compute: float
    idle: float


@dataclass(frozen=True)
class OperationTime:
    """All executions of one TensorFlow operation."""

    name: str
    kind: str
    place: str
    """`host` or `device`."""
    seconds: float
    """Summed over all threads, without the operations that it called."""
    share: float
    """Share of the time of all operations on the host, or on the devices."""
    count: int


@dataclass(frozen=True)
class SettingChange:
    setting: str
    to: str
    why: str
    gain: float
    """The largest share of the time that it could save."""

    def __str__(self) -> str:
        return f"set {self.setting} to {self.to}: {self.why}"


class ProfileDiagnosis(BaseModel, frozen=True):
    """The diagnosis of a profile.

    Shares are 0 to 1, of the time from the start of the first profiled step to the end of the last one.
    """

    steps: int
    """Profiled steps. If 0, there is no profile, `note` says why, and everything else is empty."""
    executions: int = 0
    """The executions that these steps ran in (`train.steps_per_execution`)."""
    first_step: int | None = None
    """Number of the first profiled step, counted from 1 over all epochs."""
    step_seconds: float | None = None
    """Mean duration of a step."""
    split: TimeShares | None = None
    """Where the time went."""
    input_bound: float | None = None
    """The share in which a step waited for input and nothing computed: `split.input`."""
    copying: float | None = None
    """The part of `input_bound` in which batches were being copied to an accelerator."""
    xprof_input: float | None = None
    """xprof's figure for the same. It also counts waits during which other parts of the step compute."""
    device: str = "CPU"
    """The devices that the steps computed on."""
    cause: str = ""
    """Why the steps wait for input; empty if they hardly do."""
    stages: dict[str, float] = {}
    """Seconds of tf.data's work, summed over all threads, by stage."""
    operations: tuple[OperationTime, ...] = ()
    """The TensorFlow operations that took most time, of the input and the model alike."""
    peak_bytes: int | None = None
    """Peak memory of the training process until the end of the profile."""
    device_peak_bytes: dict[str, int] = {}
    """Peak memory in use on each accelerator."""
    changes: tuple[SettingChange, ...] = ()
    """The settings to change, starting with the one that could save most."""
    note: str = ""
    """Why other steps were profiled than the config asks for, or none."""

    @property
    def words(self) -> str:
        if self.input_bound is None:
            return "no profile"
        if self.input_bound > INPUT_BOUND:
            return "input-bound"
        return "somewhat input-bound" if self.input_bound > SOMEWHAT else "not input-bound"
