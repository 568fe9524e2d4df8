"""What the first rows of the data say of splits, before anything runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from messages import says
from trips_folder import CONFIG
from validated import ROWS, reported, rows

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.loading.loader import load
from headrace.pipeline.api import load_checked


@pytest.mark.parametrize("setting", ["", "  split_key: zone\n", "  splits: {train: 98, eval: 1, test: 1}\n"])
def test_a_split_that_gets_no_rows_is_reported_as_by_the_run(setting: str) -> None:
    rows(*(f"{row}.5,{row % 2},{row // 30}" for row in ROWS), header="fare,tip,zone")
    problems = reported(CONFIG.replace("label:", f"{setting}label:", 1))
    assert [problem.split(": data.splits: ")[1] for problem in problems] == refusal_of_a_run()
    assert bool(problems) == bool(setting)


def refusal_of_a_run() -> list[str]:
    """What ExampleGen says of the same data."""
    config = load("c.yaml")
    try:
        ingest(config.data, find_spans(config.data), Path("out"), lambda _work: serial_map)
    except DataError as error:
        return [str(error)]
    return []


@pytest.mark.parametrize(
    ("folds", "setting", "words"),
    [
        (["train", "eval", "test"], "", ""),
        (
            ["train", "valid", "test"],
            "",
            "c.yaml:4: data.split_column: column 'fold': 'valid', which is not…",
        ),
        (["train", "valid", "test"], "  split_values: {eval: [valid]}\n", ""),
        (["0", "1", "2"], "  split_values: {train: [0], eval: [1], test: [2]}\n", ""),
        (["train", "eval"], "", "data.splits: split 'test' is empty, …60 rows…No row names it"),
    ],
)
def test_a_column_that_names_no_split_is_reported_as_by_the_run(folds: list[str], setting: str, words: str) -> None:
    rows(*(f"{row}.5,{row // 3 % 2},{folds[row % len(folds)]}" for row in ROWS), header="fare,tip,fold")
    problems = reported(CONFIG.replace("label:", f"  split_column: fold\n{setting}label:", 1))
    assert len(problems) == bool(words)
    for problem in problems:
        assert says(problem, f"…{words}")


@pytest.mark.parametrize(
    ("days", "words"),
    [
        ([f"2026-01-{1 + day:02}" for day in range(30)], ""),
        (["2026-01-01", "02.01.2026"], "data.split_by: column 'day': '02.01.2026' is not a date"),
        (["2026-01-01", ""], "data.split_by: column 'day': a row has no value"),
        (["2026-01-01", "2026-01-02"], "data.splits: split 'eval' is empty…stay together, "),
        ([f"{day}.5" for day in range(20)], ""),
    ],
)
def test_a_column_that_cannot_be_ordered_in_time_is_reported_as_by_the_run(days: list[str], words: str) -> None:
    rows(*(f"{row}.5,{row // 3 % 2},{days[row % len(days)]}" for row in ROWS), header="fare,tip,day")
    problems = reported(CONFIG.replace("label:", "  split_by: day\nlabel:", 1))
    assert len(problems) == bool(words)
    for problem in problems:
        assert says(problem, f"…{words}")


def of_splits(paths: str, more: str = "") -> str:
    return CONFIG.replace("path: trips.csv}", f"path: {paths}}}{more}")


def split_file(name: str, *tips: str, header: str = "fare,tip") -> None:
    lines = [f"{number}.5,{tip}" if tip else f"{number}.5" for number, tip in enumerate(tips)]
    Path(name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def test_the_first_rows_of_each_split_with_its_own_file_are_checked() -> None:
    split_file("train.csv", *"01" * 20)
    split_file("test.csv", *"01" * 10)
    paths = "{train: train.csv, test: test.csv}"
    assert reported(of_splits(paths)) == []
    split_file("test.csv", *"02" * 10)
    (problem,) = reported(of_splits(paths))
    assert problem.startswith("c.yaml:4: label.kind: in the data of test: ")


def test_a_test_file_without_the_label_is_for_predictions() -> None:
    split_file("train.csv", *"01" * 20)
    split_file("test.csv", *[""] * 10, header="fare")
    (problem,) = reported(of_splits("{train: train.csv, test: test.csv}"))
    assert problem.startswith(f"c.yaml:3: data.source.path: {Path.cwd()}/test.csv: column 'tip': ")
    assert "headrace predict" in problem
    Path("test.csv").write_text("fare,tip\n" + "1.5,\n" * 10, encoding="utf-8")
    (problem,) = reported(of_splits("{train: train.csv, test: test.csv}"))
    assert problem.startswith("c.yaml:4: label.key: in the data of test: the label is missing in 10 ")
    assert "headrace predict" in problem


def test_a_column_that_a_split_lacks_matters_if_it_is_read() -> None:
    Path("train.csv").write_text("fare,tip,casual\n" + "1.5,0,9\n2.5,1,9\n" * 10, encoding="utf-8")
    split_file("test.csv", *"01" * 10)
    paths = "{train: train.csv, test: test.csv}"
    (problem,) = reported(of_splits(paths))
    assert "test.csv: column 'casual': " in problem
    assert reported(of_splits(paths, "\n  columns: used")) == []


def test_stratified_classes_are_checked() -> None:
    split_file("trips.csv", *"01" * 20)
    assert reported(of_splits("trips.csv", "\n  stratify: true")) == []
    (problem,) = reported(of_splits("trips.csv", "\n  stratify: fare"))
    assert problem.startswith("c.yaml:4: data.stratify: column 'fare': 0.5 has a fraction")
    (problem,) = reported(of_splits("trips.csv", "\n  stratify: tpi"))
    assert problem.startswith("c.yaml:4: data.stratify: ")
    assert 'did you mean "tip"?' in problem


def test_a_class_with_too_few_rows_for_all_splits_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    split_file("trips.csv", *"0" * 30, "1", "1")
    Path("c.yaml").write_text(of_splits("trips.csv", "\n  stratify: true"), encoding="utf-8")
    with caplog.at_level(logging.INFO):
        load_checked("c.yaml", None, (), data=True)
    assert "data.stratify: too few rows for each split" in caplog.text
    assert "'1' (2 rows, none in" in caplog.text


def test_groups_are_divided_as_by_the_run_and_odd_shares_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    groups = ["", *["big"] * 40, *[f"small {row}" for row in range(19)]]
    rows(*(f"{row}.5,{row % 2},{group},s" for row, group in zip(ROWS, groups, strict=True)), header="fare,tip,who,shop")
    Path("c.yaml").write_text(CONFIG.replace("label:", "  split_key: [shop, who]\nlabel:", 1), encoding="utf-8")
    with caplog.at_level(logging.INFO):
        load_checked("c.yaml", None, (), data=True)
    config = load("c.yaml")
    result = ingest(config.data, find_spans(config.data), Path("out"), lambda _work: serial_map)
    assert len(result.gaps) == 2
    for line in result.gaps:
        assert f"data.split_key: {line}" in caplog.text
    assert "1 of 60 rows have no value in 'shop' and 'who'" in caplog.text
    assert "of 20 groups the largest in train has 66.7%" in caplog.text
    (problem,) = reported(CONFIG.replace("label:", "  split_key: [shop, whoo]\nlabel:", 1))
    assert problem.startswith('c.yaml:4: data.split_key[1]: "whoo" is not a column')
