"""The page of a comparison, in the style of the report: `headrace compare taxi.yaml A B --output comparison.html`.

html = comparison_page(compare_runs(config, runs, ["20261121-030004", "1795402861"]))

It shows what the command prints, with the best value of each metric marked, and has no script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.components.evaluation.result import Interval
from headrace.configs.schema.metrics import NEITHER_IS_BETTER, base_of, lower_is_better
from headrace.pipeline.models.comparison import Comparison, Values
from headrace.pipeline.report.formatting import score
from headrace.pipeline.share.page import page_style, public_environment
from headrace.pipeline.share.runs import look
from headrace.pipeline.share.settings import SettingRow
from headrace.pipeline.versions import installed

_TEMPLATES = Path(__file__).parent / "templates"
_UNJUDGED = NEITHER_IS_BETTER | {"calibration"}


@dataclass(frozen=True)
class ComparedColumn:
    """One of what is compared. label: as it was named; run: its id, if that is another; look: CSS classes."""

    label: str
    run: str
    look: str


@dataclass(frozen=True)
class MetricCell:
    """A metric of one of what is compared. best: better than all others, and within none of their intervals."""

    value: float | None
    interval: Interval | None
    best: bool


def comparison_page(found: Comparison) -> str:
    """Render the HTML."""
    columns = [
        ComparedColumn(name, run if run != name else "", look(number))
        for number, (name, run) in enumerate(zip(found.names, found.runs, strict=True))
    ]
    template = public_environment(_TEMPLATES).get_template("comparison.html")
    return template.render(
        style=page_style(),
        pipeline=found.pipeline,
        runs=columns,
        metrics={name: _cells(found, name) for name in found.metrics},
        settings=_rows(found.settings),
        data=_rows(found.data),
        code=_rows(found.code),
        versions=installed(),
    )


def _rows(values: Mapping[str, Values]) -> list[SettingRow]:
    return [SettingRow(name, each) for name, each in values.items()]


def _cells(found: Comparison, metric: str) -> list[MetricCell]:
    values = found.metrics[metric]
    intervals = found.intervals.get(metric, (None,) * len(values))
    best = _best(metric, values, intervals)
    return [
        MetricCell(value, ends, best is not None and score(value) == best)
        for value, ends in zip(values, intervals, strict=True)
    ]


def _best(metric: str, values: tuple[float | None, ...], intervals: tuple[Interval | None, ...]) -> str | None:
    """The best value as it is shown; None if the values look alike, or if the best may be so by chance."""
    known = [value for value in values if value is not None]
    if base_of(metric) in _UNJUDGED or len(set(map(score, known))) < 2:
        return None
    best = min(known) if lower_is_better(metric) else max(known)
    others = [ends for value, ends in zip(values, intervals, strict=True) if ends and score(value) != score(best)]
    return None if any(low <= best <= high for low, high in others) else score(best)
