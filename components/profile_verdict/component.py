"""The component that judges the profile of a training, and stops the run where it waits too long for input."""

from pathlib import Path

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from components.profile_verdict.result import Verdict
from components.profile_verdict.verdict import judge
from configs.errors import GateError
from configs.train import TrainConfig


@component
def ProfileVerdict(  # noqa: N802
    model_run: InputArtifact[standard_artifacts.ModelRun],
    verdict: OutputArtifact[standard_artifacts.String],
    train: Parameter[str],
) -> None:
    """Judge the profile that the Trainer took; GateError where `train.profile` does not let it pass.

    train: TrainConfig as JSON; verdict: Verdict as JSON.
    """
    config = TrainConfig.model_validate_json(train)
    judged = judge(Path(model_run.uri), config)
    print(describe(judged))
    limit = config.profile.fail_if_input_bound_above if config.profile else None
    if limit is not None and (judged.input_bound is None or judged.input_bound > limit):
        raise GateError(refusal(judged, limit))
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


def refusal(verdict: Verdict, limit: float) -> str:
    """Why the run stops, the cause, and the first change."""
    setting = "train.profile.fail_if_input_bound_above"
    if verdict.input_bound is None:
        return (
            f"{setting}: {limit:g} cannot be judged: {verdict.note}.\n"
            "  Set `train.profile.batches` to steps that the training comes to, or the limit to null."
        )
    lines = [
        f"the steps wait for input {verdict.input_bound:.1%} of the time; {setting} allows {limit:.1%}",
        f"  cause: {verdict.cause or 'each step waits a little'}",
    ]
    lines += [
        f"  {'first change' if number == 0 else 'then'}: {change}" for number, change in enumerate(verdict.changes[:3])
    ]
    return "\n".join([*lines, "  Or raise the limit to let the run pass. Nothing was pushed."])
