"""Facts about a profile that it does not contain itself, as a JSON file in the model's run directory."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from headrace.configs.schema.train import TrainConfig
from headrace.trainer.input.memory import CacheKind

FILE = "profile.json"
LOGS = "train"
"""The folder of TensorBoard logs that contains the profile: TensorBoard shows it in a run of that name."""
SESSIONS = f"{LOGS}/plugins/profile"
"""In the model's run: one folder per profile, with one `<host>.xplane.pb` per host."""
MARKER = "train"
"""The name of the trace events that mark steps; xprof looks for names with this prefix."""


class ProfiledExecution(BaseModel, frozen=True):
    """Steps that ran as one graph, under one marker."""

    step: int
    """The first of these steps, counted from 1 over all epochs; `step_num` of the marker."""
    steps: int
    seconds: float
    """Time between the call and its return, by Python's clock."""


class ProfileFacts(BaseModel, frozen=True):
    """One profile, or why there is none."""

    asked: tuple[int, int]
    """The first and last step to profile according to the config."""
    executions: tuple[ProfiledExecution, ...] = ()
    """The executions that were profiled; none if training ended before."""
    steps_per_execution: int = 1
    building: bool = False
    """Whether there is a single execution, in which Keras also built the graph."""
    note: str = ""
    """Why other steps were profiled than those of the config, or none."""
    train: TrainConfig = TrainConfig()
    """The `train:` section, with the values that a Tuner found."""
    cache: CacheKind = "none"
    """Where the parsed examples were cached."""
    columns: bool = False
    """Whether the examples were columns, which need no parsing."""
    examples: int | None = None
    """Number of examples in the train split."""
    parsed_bytes: int | None = None
    """Size of the train split's parsed examples, estimated from the first few thousand; None if it is not known."""
    free_bytes: int = 0
    """Memory that was still free."""
    free_disk_bytes: int = 0
    """Free disk space for temporary files."""
    peak_bytes: int = 0
    """Peak memory of the training process, from its start to the end of the profile (VmHWM of Linux)."""
    cores: int = 1
    checkpoint_steps: int | None = None
    """Batches between two checkpoints; None if only SIGTERM triggered one."""
    jit_measured: bool = False
    """Whether `train.jit: auto` measured the steps with XLA and without, or found that XLA cannot compile them."""
    updated_rows: tuple[str, ...] = ()
    """The embedding tables of which only looked-up rows were updated, each with its number of weights."""

    @property
    def steps(self) -> int:
        """Number of steps that were profiled."""
        return sum(execution.steps for execution in self.executions)

    def write(self, directory: Path) -> None:
        (directory / FILE).write_text(self.model_dump_json(indent=1), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> ProfileFacts:
        """Read `profile.json`. Raises FileNotFoundError if the training was not profiled."""
        return cls.model_validate_json((directory / FILE).read_bytes())
