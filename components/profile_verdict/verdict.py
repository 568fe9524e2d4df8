"""The verdict on a profile: one JSON object, for people and programs.

verdict = judge(model_run, train)
verdict.input_bound, verdict.cause, verdict.changes[0]
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from components.profile_verdict.advice import Change, Situation, advise, cause
from components.profile_verdict.trace import Split, Trace, read_trace
from components.profile_verdict.xprof_tools import Operation, Xprof, ask_xprof
from configs.train import TrainConfig
from trainer.profile_facts import SESSIONS, ProfileFacts

INPUT_BOUND = 0.2
"""Above this share of waiting for input the steps are called input-bound; xprof calls it HIGHLY so."""
SOMEWHAT = 0.05
"""Above this one, somewhat."""
OPERATIONS = 12
STAGES = 8


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


def judge(model_run: Path, train: TrainConfig) -> Verdict:
    """The verdict on the profile in a ModelRun. FileNotFoundError where the Trainer was not asked for one."""
    facts = ProfileFacts.read(model_run)
    files = sorted((model_run / SESSIONS).glob("*/*.xplane.pb"))
    building = [execution.step for execution in facts.executions] == [1]
    trace = read_trace(files[-1], building) if files and facts.executions else None
    if trace is None:
        return Verdict(steps=0, note=facts.note or "the profile holds no steps")
    return _verdict(facts, trace, ask_xprof(files[-1].parent), train)


def _verdict(facts: ProfileFacts, trace: Trace, xprof: Xprof, train: TrainConfig) -> Verdict:
    step_seconds = trace.seconds / facts.steps
    accelerated = trace.device != "CPU"
    situation = Situation(trace.split, facts, trace.stages, train, accelerated, step_seconds)
    return Verdict(
        steps=facts.steps,
        executions=len(facts.executions),
        first_step=facts.executions[0].step,
        step_seconds=step_seconds,
        split=trace.split,
        input_bound=trace.split.input,
        xprof_input=xprof.input_share,
        device=trace.device,
        cause=cause(situation) if trace.split.input > SOMEWHAT else "",
        stages=dict(list(trace.stages.items())[:STAGES]),
        operations=xprof.operations[:OPERATIONS],
        peak_bytes=facts.peak_bytes,
        device_peak_bytes=dict(xprof.allocators),
        changes=tuple(advise(situation)),
        note=facts.note,
    )
