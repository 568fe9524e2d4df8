"""What became of the model: each threshold against its value, the blessing, the push."""

from __future__ import annotations

from dataclasses import dataclass

from configs.evaluate import LOWER_IS_BETTER, EvaluateConfig, Threshold
from pipeline.local.record import ArtifactRecord, RunRecord
from pipeline.report.evaluation import Evaluation


@dataclass(frozen=True)
class Check:
    """One bound of one metric over the evaluated split. `passed` is None where there was nothing to compare with."""

    metric: str
    value: float | None
    rule: str  # `at least 0.85`
    limit: float | None
    baseline: float | None
    passed: bool | None

    def __str__(self) -> str:
        value = "was not computed" if self.value is None else f"is {self.value:.4f}"
        return f"{self.metric} {value}; it must be {self.rule}"


@dataclass(frozen=True)
class Verdict:
    """`blessed` is None where the run did not come to a judgement; `pushed` is the new version's directory."""

    blessed: bool | None = None
    checks: tuple[Check, ...] = ()
    pushed: str | None = None

    @property
    def reasons(self) -> list[str]:
        """Why a model is not blessed, or what it was held against."""
        missed = [check for check in self.checks if check.passed is False]
        return [str(check) for check in (missed or self.checks)]


def read_verdict(record: RunRecord, evaluate: EvaluateConfig | None, evaluation: Evaluation | None) -> Verdict:
    """The verdict of a run, as far as it came."""
    blessing = _output(record, "Evaluator", "blessing")
    blessed = None if blessing is None else bool(blessing.properties.get("blessed", 0))
    checks = () if evaluate is None or evaluation is None else tuple(_checks(evaluate, evaluation))
    return Verdict(blessed, checks, _pushed(record))


def _output(record: RunRecord, node_id: str, key: str) -> ArtifactRecord | None:
    outputs = {node.id: node.outputs for node in record.nodes if node.status in {"done", "cached"}}
    return outputs.get(node_id, {}).get(key)


def _pushed(record: RunRecord) -> str | None:
    pushed = _output(record, "Pusher", "pushed_model")
    if pushed is None or not pushed.properties.get("pushed"):
        return None
    return str(pushed.properties.get("pushed_destination") or pushed.uri)


def _checks(evaluate: EvaluateConfig, evaluation: Evaluation) -> list[Check]:
    overall = evaluation.overall
    return [
        check
        for metric, threshold in evaluate.thresholds.items()
        for check in _bounds(metric, threshold, overall.metrics.get(metric), overall.baseline.get(metric))
    ]


def _bounds(metric: str, threshold: Threshold, value: float | None, baseline: float | None) -> list[Check]:
    checks = []
    if threshold.min is not None:
        passed = value is not None and value >= threshold.min
        checks.append(Check(metric, value, f"at least {threshold.min:g}", threshold.min, None, passed))
    if threshold.max is not None:
        passed = value is not None and value <= threshold.max
        checks.append(Check(metric, value, f"at most {threshold.max:g}", threshold.max, None, passed))
    if threshold.not_worse_than_baseline_by is not None:
        checks.append(_change(metric, threshold.not_worse_than_baseline_by, value, baseline))
    return checks


def _change(metric: str, tolerance: float, value: float | None, baseline: float | None) -> Check:
    if baseline is None:
        return Check(
            metric, value, f"not worse than the baseline by {tolerance:g} (there is none yet)", None, None, None
        )
    lower_is_better = metric in LOWER_IS_BETTER
    limit = baseline + tolerance if lower_is_better else baseline - tolerance
    passed = value is not None and (value <= limit if lower_is_better else value >= limit)
    side = "at most" if lower_is_better else "at least"
    rule = f"{side} {limit:.4f} (the baseline's {baseline:.4f}, give or take {tolerance:g})"
    return Check(metric, value, rule, limit, baseline, passed)
