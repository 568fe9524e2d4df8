"""The verdict on the model: each threshold against its metric, the blessing, and the push."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from headrace.common.errors import RunError
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import Evaluation, Interval, ThresholdCheck
from headrace.components.lite.verdict import LiteVerdict
from headrace.components.stored_models.blessed_record import AWAITING, IN_SERVICE, LATE, REFUSED, WHY, WITHDRAWN
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.stored_models.stored_versions import shown
from headrace.configs.loading.loader import PYTHON_SOURCE
from headrace.configs.schema.evaluate import EvaluateConfig, Threshold
from headrace.pipeline.results.run_folder import RunFolder

CANARY, LITE = "canary: ", "lite: "
"""Start of the reasons that are the canary's, and of those of the conversion for LiteRT."""


@dataclass(frozen=True)
class Bound:
    """One limit on one metric over the evaluated split. `passed` is None if it needs a baseline and there is none."""

    metric: str
    value: float | None
    rule: str  # `at least 0.85`
    limit: float | None = None
    passed: bool | None = None
    found: str = ""  # `payment_type = Cash: 0.7123`: values of the data, which `rule` never has

    @property
    def words(self) -> str:
        """What the metric must be, and what was found."""
        return f"{self.rule} ({self.found})" if self.found else self.rule

    def __str__(self) -> str:
        return f"{self.metric} {f'is {self.shown}' if self.shown else 'has no value'}; it must be {self.words}"

    @property
    def shown(self) -> str:
        """The value; "" if there is none."""
        return "" if self.value is None else f"{self.value:,.{self.digits}f}"

    @property
    def digits(self) -> int:
        """Decimals to show: four, none for a large number, or as many as it takes to tell the value from the limit."""
        if self.value is None:
            return 4
        least = _decimals(self.value)
        if self.limit is None or self.value == self.limit:
            return least
        return next((n for n in range(least, 12) if f"{self.value:.{n}f}" != f"{self.limit:.{n}f}"), 12)


@dataclass(frozen=True)
class ModelVerdict:
    """The verdict on a run's model.

    Attributes:
        blessed: Whether the Evaluator, the canary and Lite passed it; None if the run did not get to the Evaluator.
        bounds: The limits on metrics.
        reasons: Why the model is not blessed; for a blessed model, the limits it met.
        pushed: The directory of the version that was pushed, by the run or by a promotion of its model.
        withdrawn: Why a blessed model was not pushed: a rollback took it out of service, or a later one is in service.
        awaiting: The command that pushes a blessed model that awaits approval.
        refused: The directory of the version that is in service and has the very model that this run refused.
        in_service: The directory of the version that was pushed last, if the run pushed nothing: of the model that it
            blessed, or of the one that stays as it refused its own.
        canary: The Canary's verdict; None if there is none.
        lite: The comparison of the `.tflite` file with the model; None if there is none.
        unguarded: What a config without thresholds lets pass; "" if there are thresholds, or nothing was judged.
    """

    blessed: bool | None = None
    bounds: tuple[Bound, ...] = ()
    reasons: tuple[str, ...] = ()
    pushed: str | None = None
    withdrawn: str | None = None
    awaiting: str | None = None
    in_service: str | None = None
    refused: str | None = None
    canary: CanaryVerdict | None = None
    unguarded: str = ""
    lite: LiteVerdict | None = None

    @property
    def refused_by(self) -> tuple[str, ...]:
        """The components that refused the model."""
        evaluated = [reason for reason in self.reasons if not reason.startswith((CANARY, LITE))]
        refused = {
            "Evaluator": evaluated,
            "Canary": self.canary is not None and self.canary.reasons,
            "Lite": self.lite is not None and self.lite.reasons,
        }
        return tuple(name for name, why in refused.items() if why) if self.blessed is False else ()

    @property
    def other_reasons(self) -> list[str]:
        """The reasons that are not limits on metrics."""
        limits = {str(bound) for bound in self.bounds}
        return [reason for reason in self.reasons if reason not in limits]


def read_verdict(folder: RunFolder) -> ModelVerdict:
    """The verdict of a run, with whatever the run got to."""
    evaluation, pushed = folder.evaluation, _pushed(folder)
    if evaluation is None:
        return ModelVerdict(pushed=pushed, canary=folder.canary, lite=folder.lite)
    evaluate = folder.config.evaluate if folder.config else EvaluateConfig()
    bounds = [
        *(_bound(check, evaluation) for check in evaluation.checks),
        *_without_baseline(evaluate, evaluation, _why_no_baseline(folder)),
    ]
    return ModelVerdict(
        folder.blessed,
        tuple(bounds),
        tuple(_reasons(evaluation, bounds, _failed(folder.canary, folder.lite))),
        pushed,
        withdrawn=_property(folder, WITHDRAWN),
        awaiting=_awaiting(folder) if pushed is None and folder.blessed else None,
        in_service=_place(folder, IN_SERVICE),
        refused=None if folder.blessed else _place(folder, REFUSED),
        canary=folder.canary,
        lite=folder.lite,
        unguarded=evaluate.what_passes if folder.config else "",
    )


def _why_no_baseline(folder: RunFolder) -> str:
    baseline = folder.directory("Baseline", "baseline")
    why = baseline / WHY if baseline else None
    return why.read_text(encoding="utf-8") if why and why.exists() else "there is none yet"


def _pushed(folder: RunFolder) -> str | None:
    model = folder.output("Pusher", "pushed_model")
    if model is None:
        return None
    if not model.properties.get("pushed"):
        return _promoted(folder, _property(folder, AWAITING))
    destination, late = model.properties.get("pushed_destination") or model.uri, model.properties.get(LATE)
    return f"{shown(str(destination))} ({late})" if late else shown(str(destination))


def _promoted(folder: RunFolder, destination: str | None) -> str | None:
    """The latest version as which a model that awaited approval was pushed since; None if that has not happened."""
    model, file = folder.directory("Trainer", "model"), folder.home / "pushed.json"
    if destination is None or model is None:
        return None
    try:
        record = PushRecord.read(file)
    except RunError:  # damaged, which `headrace models` reports
        return None
    since = int(folder.record.node("Pusher").started or 0)  # the number of a version is the time of its push, or more
    versions = [Path(destination, name) for name in record.models.get(destination, {}) if int(name) >= since]
    pushed = [version for version in versions if Path(record.model_of(file, version) or "") == model]
    return shown(max(pushed, key=lambda version: int(version.name))) if pushed else None


def _awaiting(folder: RunFolder) -> str | None:
    """The command that pushes the model, if it awaits approval."""
    if _property(folder, AWAITING) is None:
        return None
    config, run = folder.record.config_file, folder.record.run_id
    if config == PYTHON_SOURCE:
        return f'headrace.promote({config}, "{run}")'
    return f"headrace promote {shlex.quote(config)} --to {run}"


def _place(folder: RunFolder, name: str) -> str | None:
    """A property with the folder of a version, as users call it."""
    found = _property(folder, name)
    return None if found is None else shown(found)


def _property(folder: RunFolder, name: str) -> str | None:
    """A custom property of the Pusher's output."""
    model = folder.output("Pusher", "pushed_model")
    return str(model.properties[name]) if model and name in model.properties else None


def _failed(canary: CanaryVerdict | None, lite: LiteVerdict | None) -> list[str]:
    """The reasons of the examinations besides the Evaluator's."""
    verdicts = ((CANARY, canary), (LITE, lite))
    return [f"{start}{reason}" for start, verdict in verdicts if verdict for reason in verdict.reasons]


def _reasons(evaluation: Evaluation, bounds: list[Bound], failed: list[str]) -> list[str]:
    if evaluation.blessed:
        return failed or [str(bound) for bound in bounds]
    checked = {str(check) for check in evaluation.checks}
    return [
        *(str(bound) for bound in bounds if bound.passed is False),
        *(reason for reason in evaluation.reasons if reason not in checked),
        *failed,
    ]


def _bound(check: ThresholdCheck, evaluation: Evaluation) -> Bound:
    if check.slicing:
        value, (rule, found) = evaluation.metrics.get(check.metric), _rule_of_slices(check)
        return Bound(check.metric, value, rule, passed=check.passed, found=found)
    return Bound(check.metric, check.value, _rule(check), check.limit, check.passed)


def _rule_of_slices(check: ThresholdCheck) -> tuple[str, str]:
    """The rule, and the slices that are worst."""
    where = f"in each slice by {check.slicing}"
    if check.limit is None or check.value is None:
        rule = f"known {where} with at least `min_examples` examples, to judge `{check.bound}`"
        few = "fewer than two are that large" if check.bound == "max_gap" else "none is that large"
        return rule, f"{check.slice} has no value" if check.slice else few
    sure = " over the whole 95% confidence interval" if check.confident else ""
    found = f"{check.slice}: {_number(check.value)}"
    if check.confident:
        found += " without an interval" if check.interval is None else f" ({_ends(check.interval)})"
    if check.bound == "max_gap":
        return f"at most {check.limit:,.12g} apart between slices by {check.slicing}{sure}", found
    side = "least" if check.bound == "min" else "most"
    return f"at {side} {check.limit:,.12g} {where}{sure}", found


def _decimals(value: float) -> int:
    """Four, or none for large numbers."""
    return 4 if abs(value) < 1000 else 0


def _number(value: float) -> str:
    return f"{value:,.{_decimals(value)}f}"


def _ends(interval: Interval) -> str:
    return f"{_number(interval[0])} to {_number(interval[1])}"


def _rule(check: ThresholdCheck) -> str:
    rule = _plain_rule(check)
    if not check.confident:
        return rule
    found = "there is none" if check.interval is None else _ends(check.interval)
    return f"{rule} over the whole 95% confidence interval ({found})"


def _plain_rule(check: ThresholdCheck) -> str:
    if check.limit is None:
        what = "has no value" if check.baseline is None else "is 0, from which there is no relative change"
        return f"no worse than the baseline, which {what}"
    if check.bound == "better_than_constant":
        return f"below {_number(check.limit)}, what the best constant prediction reaches"
    if not check.compares:
        return f"at {'least' if check.bound == 'min' else 'most'} {check.limit:,.12g}"
    side = "most" if check.is_upper else "least"
    return f"at {side} {_number(check.limit)}" + (
        "" if check.baseline is None else f" (baseline: {_number(check.baseline)})"
    )


def _without_baseline(evaluate: EvaluateConfig, evaluation: Evaluation, why: str) -> list[Bound]:
    if evaluation.baseline is not None:
        return []
    return [
        Bound(metric, evaluation.metrics.get(metric), f"{_allowed_change(threshold)} of the baseline; {why}")
        for metric, threshold in evaluate.thresholds.items()
        if threshold.compares
    ]


def _allowed_change(threshold: Threshold) -> str:
    """`within 0.01`, or `changed by at least -0.01, -2%` as `change` has it."""
    change = threshold.change
    if change is None:
        return f"within {threshold.not_worse_than_baseline_by:,.12g}"
    bounds = [f"{change.absolute:+,.12g}"] if change.absolute is not None else []
    bounds += [f"{change.relative:+.4%}"] if change.relative is not None else []
    return f"within a change of {' and '.join(bounds)}"
