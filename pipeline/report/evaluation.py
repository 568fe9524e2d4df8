"""The Evaluator's results, as the report and the last lines of a run need them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SliceMetrics:
    """Metrics over one slice of the evaluated split. `columns`: what the slice is made of; empty for the whole split.

    `metrics` and `baseline` are keyed by the metric's name in the config; `baseline` is empty where there is none.
    """

    columns: tuple[tuple[str, str], ...] = ()
    examples: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """What the Evaluator found."""

    overall: SliceMetrics = SliceMetrics()
    slices: tuple[SliceMetrics, ...] = ()
