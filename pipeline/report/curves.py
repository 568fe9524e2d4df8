"""The training curves: one chart for each metric, train and eval split together."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from headrace.pipeline.report.charts import Line, line_chart
from headrace.pipeline.report.training import VALIDATION, Training


@dataclass(frozen=True)
class Curve:
    """One metric over the epochs; `best` is its value on the eval split (else train) in the best epoch."""

    metric: str
    picture: Markup
    best: float | None


def draw_curves(training: Training) -> list[Curve]:
    """The loss first, then the metrics in the order of the first epoch."""
    names = sorted(training.names, key=lambda name: name != "loss")
    return [_curve(training, name) for name in names]


def _curve(training: Training, metric: str) -> Curve:
    lines = [
        Line(name, points, style)
        for name, key, style in (("train", metric, "first"), ("eval", VALIDATION + metric, "second"))
        if (points := training.curve(key))
    ]
    best = training.best
    picture = line_chart(
        f"{metric} by epoch",
        lines,
        x_label="epoch",
        whole_x=True,
        mark=(best.epoch, f"best: {best.epoch}") if best else None,
    )
    value = best.metrics.get(VALIDATION + metric, best.metrics.get(metric)) if best else None
    return Curve(metric, picture, value)
