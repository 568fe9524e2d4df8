"""The gate between a training and what a model comes to: the run stops where the steps wait too long for input."""

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.profile_verdict.result import Verdict
from headrace.configs.errors import GateError


@component
def ProfileGate(  # noqa: N802
    verdict: InputArtifact[standard_artifacts.String],
    passed: OutputArtifact[standard_artifacts.String],
    limit: Parameter[float],
) -> None:
    """Stop the run where a verdict is above the limit, or where there is none.

    verdict: Verdict as JSON; limit: `train.profile.fail_if_input_bound_above`; passed: how far below it is, in words.
    """
    judged = Verdict.model_validate_json(verdict.value)
    if judged.input_bound is None or judged.input_bound > limit:
        raise GateError(refusal(judged, limit))
    passed.value = f"the steps wait for input {judged.input_bound:.1%} of the time, and {limit:.1%} is allowed"
    print(passed.value)


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
