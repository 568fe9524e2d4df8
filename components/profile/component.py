"""ProfileVerdict, which diagnoses the profile of a training, and ProfileGate, which stops an input-bound run."""

import logging
from pathlib import Path

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.common.errors import GateError
from headrace.components.profile.advice import TrainingProfile, advise, explain_waits
from headrace.components.profile.result import SOMEWHAT, ProfileDiagnosis
from headrace.components.profile.trace import Trace, read_trace
from headrace.components.profile.xprof import XprofResults, run_xprof
from headrace.trainer.profiling.facts import SESSIONS, ProfileFacts

logger = logging.getLogger(__name__)

OPERATIONS = 12
"""Operations in the diagnosis."""
STAGES = 8
"""Stages of tf.data in the diagnosis."""


@component
def ProfileVerdict(  # noqa: N802
    model_run: InputArtifact[standard_artifacts.ModelRun],
    verdict: OutputArtifact[standard_artifacts.String],
) -> None:
    """Diagnose the profile in the Trainer's `model_run`. verdict: ProfileDiagnosis as JSON."""
    diagnosis = diagnose(Path(model_run.uri))
    logger.info(describe(diagnosis))
    verdict.value = diagnosis.model_dump_json()


@component
def ProfileGate(  # noqa: N802
    verdict: InputArtifact[standard_artifacts.String],
    passed: OutputArtifact[standard_artifacts.String],
    limit: Parameter[float],
) -> None:
    """Stop the run if the steps wait for input for more than the limit, or if there is no profile. Raises GateError.

    verdict: ProfileDiagnosis as JSON; limit: `train.profile.fail_if_input_bound_above`; passed: how far below the limit
    it is, in words.
    """
    diagnosis = ProfileDiagnosis.model_validate_json(verdict.value)
    if diagnosis.input_bound is None or diagnosis.input_bound > limit:
        raise GateError(gate_error(diagnosis, limit))
    passed.value = f"the steps wait for input {diagnosis.input_bound:.1%} of the time, within the limit of {limit:.1%}"
    logger.info(passed.value)


def diagnose(model_run: Path) -> ProfileDiagnosis:
    """The diagnosis of the profile in a ModelRun. Raises FileNotFoundError if the Trainer was not asked for one."""
    facts = ProfileFacts.read(model_run)
    files = sorted((model_run / SESSIONS).glob("*/*.xplane.pb"))
    trace = read_trace(files[-1], facts.building) if files and facts.executions else None
    if trace is None:
        return ProfileDiagnosis(steps=0, note=facts.note or "the profile holds no steps")
    return _diagnosis(facts, trace, run_xprof(files[-1].parent))


def _diagnosis(facts: ProfileFacts, trace: Trace, xprof: XprofResults) -> ProfileDiagnosis:
    step_seconds = trace.seconds / facts.steps
    accelerated = trace.device != "CPU"
    several = ", " in trace.device
    profile = TrainingProfile(
        trace.shares, facts, trace.stages, facts.train, accelerated, step_seconds, trace.copying, several
    )
    return ProfileDiagnosis(
        steps=facts.steps,
        executions=len(facts.executions),
        first_step=facts.executions[0].step,
        step_seconds=step_seconds,
        split=trace.shares,
        input_bound=trace.shares.input,
        copying=trace.copying,
        xprof_input=xprof.input_share,
        device=trace.device,
        cause=explain_waits(profile) if trace.shares.input > SOMEWHAT else "",
        stages=dict(list(trace.stages.items())[:STAGES]),
        operations=xprof.operations[:OPERATIONS],
        peak_bytes=facts.peak_bytes,
        device_peak_bytes=dict(xprof.allocators),
        changes=tuple(advise(profile)),
        note=facts.note,
    )


def describe(diagnosis: ProfileDiagnosis) -> str:
    """The diagnosis in a few lines."""
    if diagnosis.split is None or diagnosis.step_seconds is None:
        return f"no profile: {diagnosis.note}"
    shares = diagnosis.split
    lines = [
        f"{diagnosis.words}: of {diagnosis.step_seconds * 1e3:.3g} ms per step, {shares.input:.1%} waiting for input, "
        f"{shares.compute:.1%} computing, {shares.host:.1%} on the host, {shares.idle:.1%} between steps"
    ]
    lines += [f"  cause: {diagnosis.cause}"] if diagnosis.cause else []
    lines += [f"  {number}. {change}" for number, change in enumerate(diagnosis.changes, 1)]
    lines += [f"  note: {diagnosis.note}"] if diagnosis.note else []
    return "\n".join(lines)


def gate_error(diagnosis: ProfileDiagnosis, limit: float) -> str:
    """Why the run stops, the cause, and the first changes to make."""
    setting = "train.profile.fail_if_input_bound_above"
    if diagnosis.input_bound is None:
        return (
            f"{setting}: {limit:g} cannot be judged: {diagnosis.note}.\n"
            "  Set `train.profile.batches` to steps that the training reaches, or the limit to null."
        )
    lines = [
        f"the steps wait for input {diagnosis.input_bound:.1%} of the time; {setting} allows {limit:.1%}",
        f"  cause: {diagnosis.cause or 'each step waits a little'}",
    ]
    lines += [
        f"  {'first change' if number == 0 else 'then'}: {change}"
        for number, change in enumerate(diagnosis.changes[:3])
    ]
    return "\n".join([*lines, "  Or raise the limit to let the run pass. Nothing was pushed."])
