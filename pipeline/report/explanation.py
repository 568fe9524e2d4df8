"""What predictions depend on, which examples are predicted worst, and how far numbers are off, for the page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from headrace.components.evaluation.result import (
    BAND,
    Agreement,
    Explanation,
    FeatureImportance,
    PartialDependence,
    WorstExamples,
)
from headrace.configs.schema.label import LabelConfig
from headrace.pipeline.report.charts import ChartLine, Picture, cell_map, line_chart
from headrace.pipeline.report.formatting import figure, score, value_in_words

STYLES = ("first", "second", "quiet")
SHOWN = 12
"""Columns whose importance is shown without unfolding the others."""
LISTED = 200
"""Columns whose importance is shown at all."""
MISSING = "(missing)"
MEDIAN = BAND.index(0.5)


class ImportanceRow(NamedTuple):
    """One column. width: of its bar, in percent."""

    column: str
    increase: float
    error: float
    width: float


@dataclass(frozen=True)
class DependenceTable:
    """The partial dependence on a column of categories. rows: (the value, the mean of each output)."""

    column: str
    outputs: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class ExplanationSection:
    """Importance and partial dependence. folded: the columns behind the first ones; unlisted: how many are not in the
    table; most: by how much one of these raises the loss at most.
    """

    result: Explanation
    rows: list[ImportanceRow]
    folded: list[ImportanceRow]
    unlisted: int
    most: float
    pictures: list[Picture]
    tables: list[DependenceTable]


class WorstRow(NamedTuple):
    """One example. off: the loss, or the error of a number."""

    label: str
    prediction: str
    off: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class WorstTable:
    """The worst-predicted examples."""

    columns: tuple[str, ...]
    rows: list[WorstRow]
    numbers: bool
    more: int


def explanation_section(
    explanation: Explanation, label: LabelConfig | None, *, values: bool, categories: Collection[str] = ()
) -> ExplanationSection | None:
    """Lay out what predictions depend on; None if nothing is known.

    values: whether partial dependence is shown; categories: columns whose numbers are codes without an order.
    """
    if not explanation.importance and not explanation.note:
        return None
    most = max((one.increase for one in explanation.importance), default=0.0)
    rows = [_importance_row(one, most) for one in explanation.importance[:LISTED]]
    unlisted = explanation.importance[LISTED:]
    dependence = explanation.dependence if values else ()
    tables = [one for one in dependence if isinstance(one.values[0], str) or one.column in categories]
    pictures = [one for one in dependence if one not in tables]
    return ExplanationSection(
        explanation,
        rows[:SHOWN],
        rows[SHOWN:],
        len(unlisted),
        unlisted[0].increase if unlisted else 0.0,
        [_dependence_picture(one, label) for one in pictures],
        [_dependence_table(one, label) for one in tables],
    )


def _importance_row(one: FeatureImportance, most: float) -> ImportanceRow:
    width = 100 * max(one.increase, 0.0) / most if most > 0 else 0.0
    return ImportanceRow(one.column, one.increase, one.error, width)


def _output_names(one: PartialDependence, label: LabelConfig | None) -> tuple[str, ...]:
    """What is predicted: the probabilities of classes, or the number."""
    values = label.class_values if label else ()
    named = [str(values[number]) if number < len(values) else str(number) for number in one.classes]
    return tuple(f"probability of {value_in_words(name)}" for name in named) or ("prediction",)


def _dependence_picture(one: PartialDependence, label: LabelConfig | None) -> Picture:
    names = _output_names(one, label)
    lines = [
        ChartLine(name, [(float(x), y[output]) for x, y in zip(one.values, one.predictions, strict=True)], style)
        for output, (name, style) in enumerate(zip(names, STYLES, strict=False))
    ]
    title = f"Mean prediction over {one.column}"
    chart = line_chart(title, lines, x_label=one.column)
    return Picture(title, chart, tuple(zip(names, STYLES, strict=False)))


def _dependence_table(one: PartialDependence, label: LabelConfig | None) -> DependenceTable:
    names = [x if isinstance(x, str) else f"{x:.17g}" for x in one.values]
    rows = tuple((value_in_words(x), y) for x, y in zip(names, one.predictions, strict=True))
    return DependenceTable(one.column, _output_names(one, label), rows)


def worst_table(worst: WorstExamples) -> WorstTable:
    """Lay out the worst-predicted examples."""
    numbers = any(row.error is not None for row in worst.rows)
    rows = [
        WorstRow(
            value_in_words(row.label),
            value_in_words(row.prediction),
            figure(row.error) if numbers else score(row.loss),
            tuple(MISSING if value is None else value_in_words(value) for value in row.values),
        )
        for row in worst.rows
    ]
    return WorstTable(worst.columns, rows, numbers, worst.more)


def agreement_pictures(found: Agreement, evaluated: int) -> list[Picture]:
    """Predicted against actual numbers, and the errors over the predictions. evaluated: the examples of the split."""
    bands = [
        ChartLine(name, [(band.prediction, band.errors[place]) for band in found.bands], style, dots=place == MEDIAN)
        for place, name, style in (
            (0, "10%", "second"),
            (MEDIAN, "median", "first"),
            (len(BAND) - 1, "90%", "second"),
        )
    ]
    about = f", for a sample of {found.examples:,} examples" if found.examples < evaluated else ""
    low, high = found.edges[0], found.edges[-1]
    cells = cell_map("Labels over predictions", found.cells, len(found.edges) - 1, (low, high), x_label="prediction")
    errors = line_chart(
        "Errors over predictions: the median, and what a tenth is below and above",
        [
            ChartLine("none", [(found.bands[0].prediction, 0), (found.bands[-1].prediction, 0)], "quiet", dots=False),
            *bands,
        ],
        x_label="prediction",
    )
    legend = (("median error", "first"), ("a tenth is below and above", "second"), ("none", "quiet"))
    return [
        Picture(f"Predicted against actual: label over prediction{about}", cells, (("equal", "quiet"),)),
        Picture(f"Errors over predictions: prediction minus label{about}", errors, legend),
    ]
