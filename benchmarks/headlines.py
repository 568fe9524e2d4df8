"""The first table of docs/benchmarks.md: what a user waits for or pays for, beside stock TFX and beside another tool.

for line in measured(figures, machine="A"):      # the figures that `python -m benchmarks --json` writes
    print(line)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.floors import row_with

HEAD = ("what", "Headrace", "stock TFX", "ratio", "another tool", "ratio", "benchmark", "machine")

Figure = Callable[[Any], float | None]


@dataclass(frozen=True)
class Headline:
    """One line of the table. `what` names the quantity and its unit, and identifies the line on the page."""

    what: str
    benchmark: str
    ours: Figure
    stock: Figure | None = None
    other: tuple[str, Figure] | None = None
    """A tool that a user would take instead, and its figure."""
    less_is_better: bool = False

    def line(self, figures: Any, machine: str) -> list[str] | None:
        """The cells; None if this was not measured."""
        ours = self.ours(figures)
        if ours is None:
            return None
        stock = self.stock(figures) if self.stock else None
        tool, figure = self.other or ("", lambda _: None)
        other = figure(figures)
        return [
            self.what,
            number(ours),
            number(stock),
            self._ratio(ours, stock),
            f"{tool} {number(other)}" if other else "",
            self._ratio(ours, other),
            f"`{self.benchmark}`",
            machine,
        ]

    def _ratio(self, ours: float, than: float | None) -> str:
        if than is None:
            return ""
        ratio = than / ours if self.less_is_better else ours / than
        return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 0.995 else f"{ratio:.2f}"


def measured(figures: Mapping[str, Any], machine: str) -> Iterator[list[str]]:
    """The lines of the benchmarks that ran."""
    for headline in HEADLINES:
        if headline.benchmark in figures and (line := headline.line(figures[headline.benchmark], machine)):
            yield line


def number(value: float | None) -> str:
    """With as many digits as are worth reading: three, and units or millions above a thousand."""
    if value is None:
        return ""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.1f}"


def _run(run: str, figure: str) -> Callable[[str], Figure]:
    return lambda engine: lambda found: float(found[engine][run][figure])


def _rows(engine: str, figure: str = "rows_per_cpu_second", **wanted: Any) -> Figure:
    def found(rows: Any) -> float | None:
        row = row_with(rows, {"engine": engine, **wanted})
        return None if row is None else float(row[figure])

    return found


def _items(kind: str, engine: str) -> Figure:
    return _rows(engine, "items_per_cpu_second", kind=kind)


def _values(case: str, columns: int, engine: str) -> Figure:
    return _rows(engine, "values_per_cpu_second", case=case, columns=columns)


def _alike(pipeline: str) -> Figure:
    """Of a line of the training input's table of CPU seconds."""

    def found(result: Any) -> float | None:
        row = next((row for row in result["like_for_like"] if pipeline in row["pipeline"]), None)
        return None if row is None else float(row["examples_per_cpu_second"])

    return found


def _analysis(name: str) -> Figure:
    def found(result: Any) -> float | None:
        row = row_with(result["analyses"], {"window": 30})
        return None if row is None else float(row[name])

    return found


def _clicks(*steps: str) -> Figure:
    return lambda rows: sum(float(row["cpu_seconds"]) for row in rows if row["step"] in steps)


def _wide(engine: str) -> Figure:
    def found(rows: Any) -> float | None:
        row = row_with(rows, {"kind": "numeric", "columns": 1000})
        return None if row is None else float(row[f"{engine}_cpu_seconds"])

    return found


def _step(engine: str) -> Figure:
    """CPU milliseconds with the largest tables."""

    def found(result: Any) -> float | None:
        row = row_with(result["speed"], {"engine": engine, "weights": max(row["weights"] for row in result["speed"])})
        return None if row is None else float(row["cpu_ms"])

    return found


def _pair(
    what: str, benchmark: str, figure: Callable[[str], Figure], other: str = "", *, less_is_better: bool = False
) -> Headline:
    """Ours beside stock; `figure` gives the figure of an engine. `other` is an engine of that name."""
    tool = (other, figure(other)) if other else None
    return Headline(what, benchmark, figure("ours"), figure("stock"), tool, less_is_better)


HEADLINES = (
    *(
        _pair(
            f"{name}, {unit}",
            "whole_run",
            _run(run, key),
            less_is_better=True,
        )
        for run, name in (("first", "first run of the taxi example"), ("second", "the same, nothing changed"))
        for key, unit in (("wall_seconds", "wall s"), ("cpu_seconds", "CPU s"))
    ),
    Headline(
        "after an edit of `train.epochs`, until the first epoch has ended, wall s",
        "edited_run",
        lambda found: float(found["epoch"]["wall_seconds"]),
    ),
    _pair("CSV to shards (240,032 rows), rows per CPU s", "ingest", lambda engine: _rows(engine, copies=16)),
    _pair("Parquet to shards (20 MB), rows per CPU s", "ingest_parquet", _rows),
    _pair("CSV of 2,000 columns, values per CPU s", "ingest_wide", lambda engine: _values("CSV", 2_000, engine)),
    _pair(
        "CSV of 20,000 columns, values per CPU s",
        "ingest_wide",
        lambda engine: _values("CSV", 20_000, engine),
        "polars",
    ),
    _pair(
        "Parquet of 20,000 columns, values per CPU s",
        "ingest_wide",
        lambda engine: _values("Parquet", 20_000, engine),
        "polars",
    ),
    _pair("statistics, rows per CPU s", "statistics_gen", lambda engine: _rows(engine, table="taxi")),
    _pair("statistics of 1,000 numbers, rows per CPU s", "statistics_gen", lambda engine: _rows(engine, table="wide")),
    Headline(
        "Transform of 1,000 numbers, CPU s; stock: TFT's analysis in our executor",
        "transform_wide",
        _wide("ours"),
        _wide("tft"),
        less_is_better=True,
    ),
    Headline(
        "JPEG files to pixels of 224 x 224, once, images per CPU s",
        "images_texts",
        _items("images", "transform"),
        other=("Pillow", _items("images", "pillow")),
    ),
    Headline(
        "an epoch of these images, images per CPU s",
        "images_texts",
        _items("images", "epoch"),
        other=("libjpeg-turbo", _items("images", "simplejpeg")),
    ),
    Headline(
        "texts to vocabulary and ids, words per CPU s",
        "images_texts",
        _items("texts", "transform"),
        other=("tokenizers", _items("texts", "tokenizers")),
    ),
    Headline(
        "analysis of the next night, window of 30 days, CPU s",
        "nightly",
        _analysis("ours, next night"),
        _analysis("stock, next night"),
        less_is_better=True,
    ),
    Headline(
        "click logs, CSV to transformed examples, CPU s",
        "criteo",
        _clicks("ingest", "statistics", "transform"),
        other=("polars", _clicks("polars")),
        less_is_better=True,
    ),
    Headline(
        "training input from files, examples per CPU s",
        "training_input",
        _alike("cache: none"),
        _alike("tf_dataset_factory"),
        ("five lines of tf.data", _alike("lecture")),
    ),
    Headline(
        "training input in memory, fully shuffled, examples per CPU s",
        "training_input",
        _alike("cache: memory"),
        _alike("unbatch(), cache()"),
        ("NumPy gather", _alike("NumPy")),
    ),
    Headline(
        "step with 58 million embedding weights, CPU ms",
        "embedding_tables",
        _step("rows"),
        other=("Keras", _step("keras")),
        less_is_better=True,
    ),
    _pair("evaluation, rows per CPU s", "evaluator", lambda engine: _rows(engine, copies=8)),
    _pair("predictions, TFRecords to TFRecords, rows per CPU s", "predict", _rows),
)
