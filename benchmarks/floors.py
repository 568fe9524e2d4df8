"""Floors of the ratios in docs/benchmarks.md: how many times better than stock TFX each must stay.

for one in judged(figures):      # those that `python -m benchmarks --json` writes
    print(one, one.holds)

The ratio of two figures of one run is similar on every machine; seconds are not. Each floor is about half of what was
measured, so that a noisy machine passes, and a change that makes something twice as slow does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.ingest_wide import CASES, COLUMNS, FEWER, WIDE


@dataclass(frozen=True)
class Floor:
    """A ratio that must not fall below `least`. `measured` is its value in docs/benchmarks.md when the floor was set.

    `ratio` computes it from the benchmark's figures; None if they lack a figure (a quick run measures less).
    """

    benchmark: str
    what: str
    measured: float
    least: float
    ratio: Callable[[Any], float | None]


@dataclass(frozen=True)
class Judged:
    """A floor and the measured ratio."""

    floor: Floor
    found: float

    @property
    def holds(self) -> bool:
        """Whether the ratio is not below the floor. NaN is below every floor."""
        return self.found >= self.floor.least

    def __str__(self) -> str:
        """One line of the output."""
        relation = "at least" if self.holds else "BELOW"
        about = f"{self.floor.benchmark}: {self.floor.what}"
        return f"{about}: {self.found:.2f}, {relation} {self.floor.least:g} (measured: {self.floor.measured:g})"


def judged(figures: Mapping[str, Any]) -> list[Judged]:
    """The floors of the benchmarks that ran, with their ratios."""
    return [
        Judged(floor, found)
        for floor in FLOORS
        if floor.benchmark in figures and (found := floor.ratio(figures[floor.benchmark])) is not None
    ]


def without_ratio(figures: Mapping[str, Any]) -> list[Floor]:
    """The floors of the benchmarks that ran whose figures are missing; only a quick run may lack some."""
    return [floor for floor in FLOORS if floor.benchmark in figures and floor.ratio(figures[floor.benchmark]) is None]


def _of_run(run: str) -> Callable[[Any], float | None]:
    """Stock's CPU seconds divided by ours, of the first or the unchanged second run."""
    return lambda found: float(found["stock"][run]["cpu_seconds"] / found["ours"][run]["cpu_seconds"])


def _of_rows(figure: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Callable[[Any], float | None]:
    """A figure of one row divided by that of another; the rows are found by their values."""

    def ratio(rows: Any) -> float | None:
        first, second = row_with(rows, one), row_with(rows, other)
        return None if first is None or second is None else float(first[figure] / second[figure])

    return ratio


def row_with(rows: Any, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first row that has these values; None if there is none."""
    return next((row for row in rows if wanted.items() <= row.items()), None)


def _of_nights(window: int) -> Callable[[Any], float | None]:
    """CPU seconds of ExampleGen, StatisticsGen and the analysis, in a night with nothing kept by those of the next."""

    def ratio(found: Any) -> float | None:
        nights = [row_with(found["nights"], {"night": name, "window": window}) for name in ("uncached", "next")]
        sums = [sum(row[step] for step in STEPS) for row in nights if row is not None]
        return float(sums[0] / sums[1]) if len(sums) == 2 else None

    return ratio


def _of_analyses(found: Any) -> float | None:
    row = row_with(found["analyses"], {"window": 30})
    return None if row is None else float(row["stock, next night"] / row["ours, next night"])


def _of_input(pipeline: str, figure: str) -> Callable[[Any], float | None]:
    def ratio(found: Any) -> float | None:
        row = next((row for row in found["pipelines"] if pipeline in row["pipeline"]), None)
        return None if row is None else float(row[figure])

    return ratio


def _of_rival(pipeline: str) -> Callable[[Any], float | None]:
    def ratio(found: Any) -> float | None:
        row = next((row for row in found.get("like_for_like", ()) if pipeline in row["pipeline"]), None)
        return None if row is None else float(row["ours_by_it"])

    return ratio


def _of_case(case: str, engine: str) -> Callable[[Any], float | None]:
    """Values per CPU second of ours by those of another engine, at the columns that both were given."""
    columns = FEWER if engine == "stock" and case in WIDE else CASES[case].columns
    ours, other = ({"case": case, "engine": name, "columns": columns} for name in ("ours", engine))
    return _of_rows("values_per_cpu_second", ours, other)


def _of_tables(engine: str) -> Callable[[Any], float | None]:
    """CPU milliseconds of a step with the largest tables, of an engine by those of our updates by rows."""

    def ratio(found: Any) -> float | None:
        largest = max(row["weights"] for row in found["speed"])
        other, rows = (row_with(found["speed"], {"weights": largest, "engine": one}) for one in (engine, "rows"))
        return None if other is None or rows is None else float(other["cpu_ms"] / rows["cpu_ms"])

    return ratio


def _of_clicks(rows: Any) -> float:
    """CPU seconds of polars by those of ExampleGen, StatisticsGen and Transform together."""
    seconds = {row["step"]: float(row["cpu_seconds"]) for row in rows}
    return seconds["polars"] / sum(seconds[step] for step in ("ingest", "statistics", "transform"))


def _of_columns(case: str) -> Callable[[Any], float | None]:
    """Values per CPU second of ours at all columns by those at a tenth."""
    all_columns, fewer = ({"case": case, "engine": "ours", "columns": columns} for columns in (COLUMNS, FEWER))
    return _of_rows("values_per_cpu_second", all_columns, fewer)


STEPS = ("ExampleGen", "StatisticsGen", "analysis")
CPU, OURS, STOCK = "rows_per_cpu_second", {"engine": "ours"}, {"engine": "stock"}
FLOORS = (
    Floor("whole_run", "CPU seconds of a first run, stock by ours", 3.6, 2.0, _of_run("first")),
    Floor("whole_run", "CPU seconds of an unchanged run, stock by ours", 17.0, 8.0, _of_run("second")),
    *(
        Floor(
            "ingest",
            f"rows of CSV a CPU second at {copies} times the data, ours by stock",
            measured,
            least,
            _of_rows(CPU, {**OURS, "copies": copies}, {**STOCK, "copies": copies}),
        )
        for copies, measured, least in ((4, 36, 15), (16, 41, 18))
    ),
    Floor(
        "ingest",
        "wall seconds at 64 times the data, one worker by two",
        1.7,
        1.2,
        _of_rows("wall_seconds", {**OURS, "copies": 64}, {"engine": "two", "copies": 64}),
    ),
    Floor("ingest_parquet", "rows a CPU second, ours by stock", 54, 25, _of_rows(CPU, OURS, STOCK)),
    *(
        Floor(
            "ingest_wide", f"values of {case} a CPU second, ours by {engine}", measured, least, _of_case(case, engine)
        )
        for case, engine, measured, least in (
            ("CSV", "stock", 9.7, 5.0),
            ("CSV", "polars", 0.85, 0.5),
            ("Parquet", "stock", 9.4, 5.0),
            ("Parquet", "polars", 0.43, 0.25),
            ("JSON lines", "polars", 2.3, 1.2),
            ("TFRecords", "stock", 1.4, 0.8),
            ("CSV of ids", "stock", 32, 18),
            ("CSV of ids", "polars", 0.73, 0.4),
        )
    ),
    *(
        Floor(
            "ingest_wide",
            f"values of {case} a CPU second, {COLUMNS:,} columns by {FEWER:,}",
            measured,
            least,
            _of_columns(case),
        )
        for case, measured, least in (
            ("CSV", 0.92, 0.5),
            ("Parquet", 0.70, 0.4),
            ("JSON lines", 0.79, 0.5),
            ("TFRecords", 1.5, 0.8),
        )
    ),
    *(
        Floor(
            "statistics_gen",
            f"rows of the {table} table a CPU second, ours by stock",
            measured,
            least,
            _of_rows(CPU, {**OURS, "table": table}, {**STOCK, "table": table}),
        )
        for table, measured, least in (("taxi", 6.6, 3.0), ("wide", 8.0, 4.0))
    ),
    *(
        Floor(
            "images_texts",
            f"images a CPU second {what}, ours by Pillow's decode and resize",
            measured,
            least,
            _of_rows("items_per_cpu_second", {"engine": engine}, {"engine": "pillow"}),
        )
        for what, engine, measured, least in (("once", "transform", 0.55, 0.3), ("in each epoch", "epoch", 17, 8.0))
    ),
    *(
        Floor(
            "evaluator",
            f"rows a CPU second of {rows} rows, ours by stock",
            measured,
            least,
            _of_rows(CPU, {**OURS, "copies": copies}, {**STOCK, "copies": copies}),
        )
        for rows, copies, measured, least in (("15,002", 1, 33, 20), ("120,016", 8, 42, 20))
    ),
    Floor(
        "evaluator",
        "rows a CPU second at 64 times the data by those at 8 times",
        1.4,
        0.9,
        _of_rows(CPU, {**OURS, "copies": 64}, {**OURS, "copies": 8}),
    ),
    *(
        Floor(
            "nightly",
            f"a night with nothing kept by one that reads a day, {window} days",
            measured,
            least,
            _of_nights(window),
        )
        for window, measured, least in ((7, 2.5, 1.5), (30, 7.7, 4.0))
    ),
    Floor("nightly", "analysis of a night of 30 days, stock by ours", 7.6, 3.5, _of_analyses),
    Floor(
        "training_input",
        "examples a second without a cache, by TFX's factory",
        2.4,
        1.3,
        _of_input("cache: none", "times_tfx"),
    ),
    Floor(
        "training_input",
        "examples a second from disk, by TFX's factory",
        10.3,
        5.0,
        _of_input("cache: disk", "times_tfx"),
    ),
    Floor(
        "training_input",
        "examples in memory a CPU second, by TFX's factory with a cache and a full shuffle",
        52,
        25,
        _of_rival("unbatch(), cache()"),
    ),
    Floor(
        "training_input",
        "examples in memory a CPU second, by tf.data over row numbers",
        2.3,
        1.2,
        _of_rival("tf.gather of each column"),
    ),
    Floor("training_input", "examples from columns a CPU second, by TFX's factory", 18, 8.0, _of_rival("tf_dataset_f")),
    Floor(
        "training_input",
        "examples a second from memory, by NumPy's gather",
        0.83,
        0.4,
        _of_input("cache: memory", "of_numpy"),
    ),
    *(
        Floor(
            "embedding_tables",
            f"CPU milliseconds of a step with 58 million weights, {other} by rows",
            measured,
            least,
            _of_tables(other),
        )
        for other, measured, least in (("whole", 42, 18), ("keras", 9.0, 4))
    ),
    Floor("predict", "predictions a CPU second, ours by BulkInferrer", 12.2, 6.5, _of_rows(CPU, OURS, STOCK)),
    Floor(
        "predict",
        "predictions a CPU second, ours from CSV by BulkInferrer from examples",
        26,
        13.0,
        _of_rows(CPU, {"engine": "csv"}, STOCK),
    ),
    *(
        Floor(
            "predict",
            f"predictions a CPU second from CSV to {name}, by the rows of ingest",
            measured,
            least,
            _of_rows(CPU, {"engine": engine}, {"engine": "ingest"}),
        )
        for engine, name, measured, least in (("csv", "Parquet", 0.94, 0.55), ("lines", "JSON lines", 0.75, 0.42))
    ),
    *(
        Floor(
            "predict_tables",
            f"predictions of {table} a CPU second, by the rows of ingest",
            measured,
            least,
            _of_rows(CPU, {"table": table, "engine": "csv"}, {"table": table, "engine": "ingest"}),
        )
        for table, measured, least in (("numbers", 0.67, 0.35), ("clicks", 0.53, 0.28))
    ),
    Floor("criteo", "CPU seconds of click logs, polars by all three", 0.40, 0.24, _of_clicks),
)
