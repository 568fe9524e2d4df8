"""What the Trainer knows of its profile that the profile itself does not say, as one JSON file in the model's run."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from headrace.configs.train import TrainConfig
from headrace.trainer.input.memory import Where

FILE = "profile.json"
LOGS = "train"
"""The folder of TensorBoard logs that the profile lies in: a TensorBoard run of that name shows it."""
SESSIONS = f"{LOGS}/plugins/profile"
"""In the model's run: one folder for a profile, with one `<host>.xplane.pb` for each host."""
MARKER = "train"
"""The name of the trace events that mark steps; xprof looks for names that begin so."""


class Execution(BaseModel):
    """Steps that ran as one graph, under one marker."""

    model_config = ConfigDict(frozen=True)

    step: int
    """The first of them, counted from 1 over all epochs; `step_num` of the marker."""
    steps: int
    seconds: float
    """From the call to its return, by the clock of Python."""


class ProfileFacts(BaseModel):
    """One profile, or why there is none."""

    model_config = ConfigDict(frozen=True)

    asked: tuple[int, int]
    """First and last step that the config asks for."""
    executions: tuple[Execution, ...] = ()
    """What was profiled; none where training ended before."""
    steps_per_execution: int = 1
    building: bool = False
    """Whether there is a single one, in which Keras also built the graph."""
    note: str = ""
    """Why other steps were profiled than those asked for, or none."""
    train: TrainConfig = TrainConfig()
    """How it was trained, with the values that a Tuner found."""
    cache: Where = "none"
    """Where the parsed examples were kept."""
    examples: int | None = None
    """In the train split."""
    parsed_bytes: int | None = None
    """Of the train split's parsed examples, from the first few thousand; None where nobody counted them."""
    free_bytes: int = 0
    """Memory that was still free."""
    free_disk_bytes: int = 0
    """Where temporary files go."""
    peak_bytes: int = 0
    """The most that the training process held at a time, from its start to the end of the profile (VmHWM of Linux)."""
    cores: int = 1
    checkpoint_steps: int | None = None
    """Batches between two checkpoints; None where only SIGTERM made one."""

    @property
    def steps(self) -> int:
        """How many steps were profiled."""
        return sum(execution.steps for execution in self.executions)

    def write(self, directory: Path) -> None:
        """Write `profile.json`."""
        (directory / FILE).write_text(self.model_dump_json(indent=1), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> ProfileFacts:
        """FileNotFoundError where the training was not asked for a profile."""
        return cls.model_validate_json((directory / FILE).read_bytes())
