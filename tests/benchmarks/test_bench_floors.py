"""The floors of ratios, on figures as the benchmarks give them and on those that docs/benchmarks.md reports."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import ingest_parquet
from benchmarks.document import Machine, updated
from benchmarks.floors import FLOORS, judged, without_ratio
from benchmarks.headlines import measured
from benchmarks.ingest_wide import WIDE

IN_MEMORY = "examples in memory a CPU second, by TFX's factory with a cache and a full shuffle"
ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "benchmarks.md").read_text()


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the rows with figures below a heading of a page."""
    part = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")
    ]
    return [row for row in cells if any(letter.isdigit() for letter in row[1])]


def rows(ours: float, stock: float, **more: Any) -> list[dict[str, Any]]:
    given = {"ours": ours, "stock": stock}
    return [{"engine": engine, "rows_per_cpu_second": rate, **more} for engine, rate in given.items()]


def nights(window: int, uncached: float, one: float) -> list[dict[str, Any]]:
    given = {"uncached": uncached, "next": one}
    steps = {"ExampleGen": 0.5, "StatisticsGen": 0.25, "analysis": 0.25}
    return [
        {"window": window, "night": night, **{name: share * total for name, share in steps.items()}}
        for night, total in given.items()
    ]


FIGURES: dict[str, Any] = {
    "whole_run": {
        "ours": {"first": {"cpu_seconds": 10.0}, "second": {"cpu_seconds": 4.0}},
        "stock": {"first": {"cpu_seconds": 30.0}, "second": {"cpu_seconds": 6.0}},
    },
    "ingest": [
        *rows(300.0, 10.0, copies=4, wall_seconds=9.0),
        *rows(100.0, 10.0, copies=16, wall_seconds=9.0),
        {"engine": "ours", "copies": 64, "rows_per_cpu_second": 1.0, "wall_seconds": 3.0},
        {"engine": "two", "copies": 64, "rows_per_cpu_second": 1.0, "wall_seconds": 2.0},
    ],
    "ingest_parquet": rows(500.0, 10.0),
    "ingest_wide": [
        {"case": case, "engine": engine, "columns": columns, "values_per_cpu_second": rate}
        for case, columns in [*((name, 20_000) for name in WIDE), *((name, 2_000) for name in WIDE), ("CSV of ids", 4)]
        for engine, rate in [("ours", 600.0 if columns == 20_000 else 800.0), ("polars", 1600.0), ("stock", 25.0)]
    ],
    "statistics_gen": [*rows(10.0, 5.0, table="taxi"), *rows(25.0, 5.0, table="wide")],
    "images_texts": [
        {"kind": "images", "engine": engine, "items_per_cpu_second": rate}
        for engine, rate in (("transform", 100.0), ("epoch", 4000.0), ("pillow", 200.0))
    ],
    "evaluator": [
        *rows(70.0, 2.0, copies=1),
        *rows(60.0, 2.0, copies=8),
        {"engine": "ours", "copies": 64, "rows_per_cpu_second": 48.0},
    ],
    "predict": [
        *rows(80.0, 10.0),
        *(
            {"engine": engine, "rows_per_cpu_second": rate}
            for engine, rate in (("csv", 160.0), ("lines", 150.0), ("ingest", 300.0))
        ),
    ],
    "predict_tables": [
        {"table": table, "engine": engine, "rows_per_cpu_second": rate}
        for table, engine, rate in (
            ("numbers", "csv", 1.0),
            ("numbers", "ingest", 2.0),
            ("clicks", "csv", 1.0),
            ("clicks", "ingest", 4.0),
        )
    ],
    "embedding_tables": {
        "speed": [
            {"engine": engine, "weights": weights, "cpu_ms": cpu_ms * weights}
            for engine, cpu_ms in (("rows", 1.0), ("whole", 50.0), ("keras", 10.0))
            for weights in (1, 2)
        ]
    },
    "criteo": [
        {"step": step, "cpu_seconds": seconds}
        for step, seconds in (("ingest", 5.0), ("statistics", 4.0), ("transform", 11.0), ("polars", 5.0))
    ],
    "nightly": {
        "nights": [*nights(7, 4.0, 2.0), *nights(30, 30.0, 10.0)],
        "analyses": [{"window": 30, "stock, next night": 8.0, "ours, next night": 2.0}],
    },
    "training_input": {
        "pipelines": [
            {"pipeline": "+ pack columns (ours, cache: none)", "times_tfx": 2.0, "of_numpy": 0.1},
            {"pipeline": "+ parsed examples on disk (ours, cache: disk)", "times_tfx": 4.0, "of_numpy": 0.1},
            {"pipeline": "+ parsed examples in memory (ours, cache: memory)", "times_tfx": 90.0, "of_numpy": 0.3},
        ],
        "like_for_like": [
            {
                "pipeline": "TFX's factory, unbatch(), cache(), full shuffle",
                "ours_by_it": 40.0,
                "examples_per_cpu_second": 5.0,
            },
            {"pipeline": "tf.data over permuted row numbers, tf.gather of each column", "ours_by_it": 2.0},
            {"pipeline": "TFX tf_dataset_factory", "ours_by_it": 3.5, "examples_per_cpu_second": 7.0},
        ],
    },
}
RUNS = {
    "ours": {"first": {"cpu_seconds": 10.0, "wall_seconds": 9.0}, "second": {"cpu_seconds": 1.0, "wall_seconds": 0.5}},
    "stock": {
        "first": {"cpu_seconds": 30.0, "wall_seconds": 36.0},
        "second": {"cpu_seconds": 6.0, "wall_seconds": 8.0},
    },
}
WIDE_RATIOS = [32.0, 0.375, 32.0, 0.375, 0.375, 32.0, 32.0, 0.5, *[0.75] * 4]
RATIOS = [
    3.0,
    1.5,
    30.0,
    10.0,
    1.5,
    50.0,
    *WIDE_RATIOS,
    2.0,
    5.0,
    0.5,
    20.0,
    35.0,
    30.0,
    0.8,
    2.0,
    3.0,
    4.0,
    2.0,
    4.0,
    40.0,
    2.0,
    3.5,
    0.3,
    50.0,
    10.0,
    8.0,
    16.0,
    160 / 300,
    0.5,
    0.5,
    0.25,
    0.25,
]


def test_ratios_are_those_of_the_figures_and_hold_where_they_are_not_below() -> None:
    found = judged(FIGURES)
    assert [one.floor for one in found] == list(FLOORS)
    assert [one.found for one in found] == pytest.approx(RATIOS)
    assert [one.holds for one in found] == [ratio >= floor.least for ratio, floor in zip(RATIOS, FLOORS, strict=True)]


def test_a_ratio_at_its_floor_holds_and_one_that_is_not_a_number_does_not() -> None:
    floor = next(floor for floor in FLOORS if floor.benchmark == "statistics_gen")
    assert [one.holds for one in judged({"statistics_gen": rows(floor.least, 1.0, table="taxi")})] == [True]
    assert [one.holds for one in judged({"statistics_gen": rows(float("nan"), 1.0, table="taxi")})] == [False]


def test_what_a_quick_run_leaves_out_is_not_judged() -> None:
    quick = {"ingest": rows(300.0, 10.0, copies=4), "nightly": {"nights": nights(7, 4.0, 2.0), "analyses": []}}
    assert [one.found for one in judged(quick)] == [30.0, 2.0]


def test_a_full_run_in_which_a_floor_finds_no_figures_fails() -> None:
    assert not without_ratio(FIGURES)
    renamed = {"ingest": rows(300.0, 10.0, copies=4)}
    assert [floor.benchmark for floor in without_ratio(renamed)] == ["ingest", "ingest"]
    with pytest.raises(SystemExit, match=r"16 times the data.*64 times the data"):
        command.check(renamed, quick=False)
    command.check(renamed, quick=True)


def test_floors_are_well_below_what_was_measured() -> None:
    for floor in FLOORS:
        assert 0.35 * floor.measured < floor.least < 0.75 * floor.measured, floor.what


def test_floors_are_well_below_what_the_document_reports() -> None:
    floors = {(floor.benchmark, floor.what): floor.least for floor in FLOORS}
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in DOCUMENT.splitlines() if "| `" in line]
    ratios = {what: float(ratio or other) for what, _, _, ratio, _, other, *_ in lines if ratio or other}
    (sizes,) = re.findall(r"Headrace by stock, gzip: (.*)\.", DOCUMENT)
    csv = {int(copies): float(ratio) for ratio, copies in re.findall(r"([\d.]+) \((\d+) x\)", sizes)}
    reported = {
        ("ingest_parquet", "rows a CPU second, ours by stock"): ratios["Parquet to shards (20 MB), rows per CPU s"],
        ("statistics_gen", "rows of the taxi table a CPU second, ours by stock"): ratios["statistics, rows per CPU s"],
        ("training_input", IN_MEMORY): ratios["training input in memory, fully shuffled, examples per CPU s"],
        ("predict", "predictions a CPU second, ours by BulkInferrer"): ratios[
            "predictions, TFRecords to TFRecords, rows per CPU s"
        ],
        ("criteo", "CPU seconds of click logs, polars by all three"): ratios[
            "click logs, CSV to transformed examples, CPU s"
        ],
        ("ingest", "rows of CSV a CPU second at 4 times the data, ours by stock"): csv[4],
        ("ingest", "rows of CSV a CPU second at 16 times the data, ours by stock"): csv[16],
    }
    for place, ratio in reported.items():
        assert 0.25 * ratio < floors[place] < 0.8 * ratio, place


def test_what_was_measured_replaces_its_part_of_the_page_and_the_rest_stays() -> None:
    machine = Machine("Intel 8080", 1, 24.0, 3.0)
    found = rows(500.0, 20.0, file_mb=1.0, cpu_seconds=1.0, wall_seconds=1.0, peak_mb=1.0, rows=1)
    page = updated(DOCUMENT, machine, {"ingest_parquet": found}, [ingest_parquet.section(found)])
    letter = chr(ord(max(re.findall(r"(?m)^- \*\*([A-Z])\*\*: ", DOCUMENT))) + 1)
    line = f"| Parquet to shards (20 MB), rows per CPU s | 500 | 20.0 | 25 |  |  | `ingest_parquet` | {letter}, busy |"
    assert line in page.splitlines()
    assert "Headrace by stock: 25.\n" in page
    assert "Headrace by stock: 54.\n" not in page
    assert f"- **{letter}**: Intel 8080, 1 core, 24 GB" in page.partition("## Machines")[2]
    before, after = (Counter(text.splitlines()) for text in (DOCUMENT, page))
    own = (DOCUMENT.partition("## Ingest of Parquet")[2].partition("\n## ")[0]).splitlines()
    assert (before - after).total() <= len(own) + 1
    assert updated(page, machine, {"ingest_parquet": found}, [ingest_parquet.section(found)]) == page


def test_a_page_is_begun_with_what_was_measured() -> None:
    found = rows(500.0, 20.0, file_mb=1.0, cpu_seconds=1.0, wall_seconds=1.0, peak_mb=1.0, rows=1)
    machine = Machine("Intel 8080", 2, 24.0, 0.1)
    page = updated("# Benchmarks\n\n", machine, {"ingest_parquet": found}, [ingest_parquet.section(found)])
    assert re.findall("(?m)^## .*$", page) == ["## Headlines", "## Ingest of Parquet", "## Machines"]
    assert page.count("| `ingest_parquet` | A |") == 1


@pytest.mark.parametrize(
    ("page", "heading", "rows"), [("README.md", "Performance", 6), ("docs/comparison.md", "Speed", 10)]
)
def test_other_pages_repeat_figures_of_the_headlines(page: str, heading: str, rows: int) -> None:
    headlines = {
        (cells[1], cells[column], cells[column + 1]) for cells in table(DOCUMENT, "Headlines") for column in (2, 4)
    }
    repeated = {
        (cells[1].removesuffix(" s"), cells[2].removesuffix(" s"), cells[3])
        for cells in table((ROOT / page).read_text(), heading)
    }
    assert len(repeated) == rows
    assert repeated <= headlines


def test_headlines_are_those_of_the_figures() -> None:
    lines = {line[0]: line for line in measured({**FIGURES, "whole_run": RUNS}, "A")}
    assert lines["first run of the taxi example, CPU s"][1:4] == ["10.0", "30.0", "3.0"]
    assert lines["the same, nothing changed, wall s"][1:4] == ["0.5", "8.0", "16"]
    assert lines["statistics, rows per CPU s"][1:4] == ["10.0", "5.0", "2.0"]
    assert lines["CSV of 20,000 columns, values per CPU s"][1:6] == ["600", "25.0", "24", "polars 1,600", "0.38"]
    assert lines["click logs, CSV to transformed examples, CPU s"][1:6] == ["20.0", "", "", "polars 5.0", "0.25"]
    assert lines["step with 58 million embedding weights, CPU ms"][1:6] == ["2.0", "", "", "Keras 20.0", "10"]


@pytest.mark.parametrize(("ours", "code"), [(40.0, 0), (20.0, 1)])
def test_the_command_ends_as_the_floors_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ours: float, code: int
) -> None:
    figures = rows(ours * 10, 10.0, file_mb=1.0, cpu_seconds=1.0, wall_seconds=1.0, peak_mb=1.0, rows=1)
    outcome = figures, ingest_parquet.section(figures)
    monkeypatch.setitem(command.BENCHMARKS, "ingest_parquet", lambda _: outcome)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "ingest_parquet", "--check"])
    ended = 0
    try:
        command.main()
    except SystemExit as end:
        ended = 1 if isinstance(end.code, str) else int(end.code or 0)
    assert ended == code
    said = "at least" if code == 0 else "BELOW"
    assert f"ingest_parquet: rows a CPU second, ours by stock: {ours:.2f}, {said} 25 " in capsys.readouterr().out
