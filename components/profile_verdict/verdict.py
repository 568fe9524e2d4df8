"""Judging a profile.

verdict = judge(model_run)
verdict.input_bound, verdict.cause, verdict.changes[0]
"""

from __future__ import annotations

from pathlib import Path

from headrace.components.profile_verdict.advice import Situation, advise, cause
from headrace.components.profile_verdict.result import SOMEWHAT, Verdict
from headrace.components.profile_verdict.trace import Trace, read_trace
from headrace.components.profile_verdict.xprof_tools import Xprof, ask_xprof
from headrace.trainer.profiling.facts import SESSIONS, ProfileFacts

OPERATIONS = 12
STAGES = 8


def judge(model_run: Path) -> Verdict:
    """The verdict on the profile in a ModelRun. FileNotFoundError where the Trainer was not asked for one."""
    facts = ProfileFacts.read(model_run)
    files = sorted((model_run / SESSIONS).glob("*/*.xplane.pb"))
    trace = read_trace(files[-1], facts.building) if files and facts.executions else None
    if trace is None:
        return Verdict(steps=0, note=facts.note or "the profile holds no steps")
    return _verdict(facts, trace, ask_xprof(files[-1].parent))


def _verdict(facts: ProfileFacts, trace: Trace, xprof: Xprof) -> Verdict:
    step_seconds = trace.seconds / facts.steps
    accelerated = trace.device != "CPU"
    situation = Situation(trace.split, facts, trace.stages, facts.train, accelerated, step_seconds, trace.copying)
    return Verdict(
        steps=facts.steps,
        executions=len(facts.executions),
        first_step=facts.executions[0].step,
        step_seconds=step_seconds,
        split=trace.split,
        input_bound=trace.split.input,
        copying=trace.copying,
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
