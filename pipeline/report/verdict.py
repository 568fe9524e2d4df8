"""What became of the model: each bound against its value, the blessing, the push."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.components.deploy.registry import LATE, WHY
from headrace.components.evaluation.result import Evaluation, ThresholdCheck
from headrace.configs.evaluate import LOWER_IS_BETTER, EvaluateConfig
from headrace.pipeline.report.run_folder import RunFolder


@dataclass(frozen=True)
class Bound:
    """One bound of one metric over the evaluated split. `passed` is None without a baseline to compare with."""

    metric: str
    value: float | None
    rule: str  # `at least 0.85`
    limit: float | None = None
    passed: bool | None = None

    def __str__(self) -> str:
        value = "has no value" if self.value is None else f"is {self.value:.{self.digits}f}"
        return f"{self.metric} {value}; it must be {self.rule}"

    @property
    def digits(self) -> int:
        """Decimals that tell the value from the limit: four, or more where it is a near miss."""
        if self.value is None or self.limit is None or self.value == self.limit:
            return 4
        return next((n for n in range(4, 12) if f"{self.value:.{n}f}" != f"{self.limit:.{n}f}"), 12)


@dataclass(frozen=True)
class Verdict:
    """`blessed` is None where the run did not come to a judgement; `pushed` is the new version's directory.

    reasons: why the model is not blessed, or what it was held against.
    """

    blessed: bool | None = None
    bounds: tuple[Bound, ...] = ()
    reasons: tuple[str, ...] = ()
    pushed: str | None = None

    @property
    def other_reasons(self) -> list[str]:
        """Those that are no bound."""
        told = {str(bound) for bound in self.bounds}
        return [reason for reason in self.reasons if reason not in told]


def read_verdict(folder: RunFolder) -> Verdict:
    """The verdict of a run, as far as it came."""
    evaluation, pushed = folder.evaluation, _pushed(folder)
    if evaluation is None:
        return Verdict(pushed=pushed)
    evaluate = folder.config.evaluate if folder.config else EvaluateConfig()
    bounds = [*map(_bound, evaluation.checks), *_without_baseline(evaluate, evaluation, _why_none(folder))]
    return Verdict(evaluation.blessed, tuple(bounds), tuple(_reasons(evaluation, bounds)), pushed)


def _why_none(folder: RunFolder) -> str:
    """Why there is no baseline."""
    baseline = folder.directory("Baseline", "baseline")
    why = baseline / WHY if baseline else None
    return why.read_text(encoding="utf-8") if why and why.exists() else "there is none yet"


def _pushed(folder: RunFolder) -> str | None:
    model = folder.output("Pusher", "pushed_model")
    if model is None or not model.properties.get("pushed"):
        return None
    place, late = model.properties.get("pushed_destination") or model.uri, model.properties.get(LATE)
    return f"{place} ({late})" if late else str(place)


def _reasons(evaluation: Evaluation, bounds: list[Bound]) -> list[str]:
    if evaluation.blessed:
        return [str(bound) for bound in bounds]
    told = {str(check) for check in evaluation.checks}
    return [str(bound) for bound in bounds if bound.passed is False] + [
        reason for reason in evaluation.reasons if reason not in told
    ]


def _bound(check: ThresholdCheck) -> Bound:
    return Bound(check.metric, check.value, _rule(check), check.limit, check.passed)


def _rule(check: ThresholdCheck) -> str:
    if check.limit is None:
        return "no worse than the baseline, which has no value"
    if check.bound != "not_worse_than_baseline_by":
        return f"at {'least' if check.bound == 'min' else 'most'} {check.limit:g}"
    side = "most" if check.metric in LOWER_IS_BETTER else "least"
    return f"at {side} {check.limit:.4f}" + ("" if check.baseline is None else f" (baseline: {check.baseline:.4f})")


def _without_baseline(evaluate: EvaluateConfig, evaluation: Evaluation, why: str) -> list[Bound]:
    if evaluation.baseline is not None:
        return []
    return [
        Bound(metric, evaluation.metrics.get(metric), f"within {tolerance:g} of the baseline; {why}")
        for metric, threshold in evaluate.thresholds.items()
        if (tolerance := threshold.not_worse_than_baseline_by) is not None
    ]
