"""The component that judges the profile of a training. It never stops a run: that is for ProfileGate."""

from pathlib import Path

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.profile_verdict.result import Verdict
from headrace.components.profile_verdict.verdict import judge


@component
def ProfileVerdict(  # noqa: N802
    model_run: InputArtifact[standard_artifacts.ModelRun],
    verdict: OutputArtifact[standard_artifacts.String],
) -> None:
    """Judge the profile that the Trainer took, with what it wrote down of its training; verdict: Verdict as JSON."""
    judged = judge(Path(model_run.uri))
    print(describe(judged))
    verdict.value = judged.model_dump_json()


def describe(verdict: Verdict) -> str:
    """The verdict in a few lines."""
    if verdict.split is None or verdict.step_seconds is None:
        return f"no profile: {verdict.note}"
    split = verdict.split
    lines = [
        f"{verdict.words}: of {verdict.step_seconds * 1e3:.3g} ms a step, {split.input:.1%} waits for input, "
        f"{split.compute:.1%} computes, {split.host:.1%} is the host's, {split.idle:.1%} lies between steps"
    ]
    lines += [f"  cause: {verdict.cause}"] if verdict.cause else []
    lines += [f"  {number}. {change}" for number, change in enumerate(verdict.changes, 1)]
    lines += [f"  note: {verdict.note}"] if verdict.note else []
    return "\n".join(lines)
