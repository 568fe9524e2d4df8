"""What the first rows of the data say of labels, splits, slices, dates and lists, before anything runs."""

from __future__ import annotations

import datetime as dt
import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from validated import CONFIG, reported

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.sources import serial_map
from headrace.components.example_gen.spans.find import find_spans
from headrace.configs.loading.loader import load
from headrace.pipeline.api import load_checked

ROWS = range(60)


def rows(*lines: str, header: str = "fare,tip") -> None:
    Path("trips.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("label", "tips", "place", "words"),
    [
        ("kind: binary", ["no", "yes"], "label.kind", 'has no, yes, …are 0, 1; set `classes: ["no", "yes"]`'),
        ("kind: binary", ["1", "2"], "label.kind", "has 2, …set `classes: [1, 2]`"),
        ("kind: binary", ["0", "1", "2"], "label.kind", "has 2, …set `kind: multiclass` and `classes: [0, 1, 2]`"),
        ("kind: binary", ["0.0", "1.0"], "", ""),
        ("kind: binary", ["0", "1", ""], "label.key", "missing in 20 of the first 60 rows…`label.missing: drop`"),
        ("kind: binary, missing: drop", ["0", "1", ""], "", ""),
        ("kind: binary, missing: drop", ["1", ""], "label.key", "every label is 1, …"),
        ("kind: binary", [f"{n}.25" for n in range(50)], "label.kind", "50 different numbers, from 0.25 to 49.25, …"),
        ("kind: binary", ["1"], "label.key", "every label is 1, …"),
        ("kind: multiclass, classes: 3", ["0", "1", "2", "3"], "label.classes", "has 3, but …are 0, 1, 2; …"),
        ("kind: multiclass, classes: [a, b]", ["a", "b", "c"], "label.classes", "has c, …"),
        ("kind: multiclass, classes: ['1', '2']", ["1", "2"], "", ""),
        ("kind: regression", [f"{n}.25" for n in range(50)], "", ""),
        ("kind: regression", ["7"], "label.key", "every label is 7, …"),
        (
            "kind: multilabel, classes: [a, b], separator: '|'",
            ["a|b", "b", ""],
            "label.key",
            "missing in 20 of…or `none` if they belong to no class",
        ),
        ("kind: multilabel, classes: [a, b], separator: '|', missing: none", ["a | b", "b", ""], "", ""),
        ("kind: multilabel, classes: [a, b], separator: '|', missing: none", ["a", ""], "", ""),
        ("kind: multilabel, classes: [a, b], separator: '|'", ["a|c", "b"], "label.classes", "has c, …are a, b; …"),
        ("kind: multilabel, classes: 3, separator: ';'", ["0;2", "1"], "", ""),
    ],
)
def test_labels_that_do_not_match_are_reported_with_the_setting_that_would(
    label: str, tips: list[str], place: str, words: str
) -> None:
    rows(*(f"{row}.5,{tips[row % len(tips)]}" for row in ROWS))
    problems = reported(CONFIG.replace("kind: binary", label))
    assert len(problems) == bool(place)
    for problem in problems:
        assert problem.startswith(f"c.yaml:4: {place}: ")
        assert all(word in problem for word in words.split("…"))


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["one two", "three"], ""),
        (["1", "2"], "holds numbers, but a text label is a text"),
        (["a", "b", ""], "is missing"),
    ],
)
def test_texts_to_write_are_texts(answers: list[str], words: str) -> None:
    rows(*(f"word,{answers[row % len(answers)]}" for row in ROWS))
    config = CONFIG.replace("kind: binary", "kind: text").replace("numeric", "text")
    problems = reported(f"{config}\nmodel: {{kind: encoder_decoder}}\n")
    assert len(problems) == bool(words)
    assert all(one.startswith("c.yaml:4: label.key: ") and words in one for one in problems)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (["1", "", "0.5"], "the weight is missing in 20 of the first 60 rows, the first of them row 2; …from 0 up"),
        (["1", "2", "-2"], "the weight is negative in 20 of the first 60 rows, the first of them row 3; …"),
        (["low", "high"], 'column "weight" holds text, and a weight needs numbers'),
        (["inf", "1"], 'column "weight" holds inf'),
        (["0", "0.5"], ""),
    ],
)
def test_weights_that_cannot_be_used_are_reported_with_their_row(weights: list[str], words: str) -> None:
    rows(
        *(f"{row}.5,{row // 3 % 2},{weights[row % len(weights)]}" for row in ROWS),
        ",,-9",  # dropped, so its weight does not matter
        header="fare,tip,weight",
    )
    problems = reported(CONFIG.replace("kind: binary", "kind: binary, missing: drop, weight: weight"))
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.startswith("c.yaml:4: label.weight: ")
        assert all(word in problem for word in words.replace("first 60", "first 61").split("…"))


def test_a_weight_that_is_not_a_column_is_reported_with_the_nearest() -> None:
    rows(*(f"{row}.5,{row % 2}" for row in ROWS))
    (problem,) = reported(CONFIG.replace("kind: binary", "kind: binary, weight: far"))
    assert problem.startswith('c.yaml:4: label.weight: "far" is not a column of the data; did you mean "fare"?')


@pytest.mark.parametrize(("paid", "words"), [("", "none of the 60 examples has a value; remove the task"), ("1", "")])
def test_a_masked_label_without_any_value_is_reported_as_by_the_run(paid: str, words: str) -> None:
    rows(*(f"{row}.5,{row % 2},{paid if row % 2 else paid and 0}" for row in ROWS), header="fare,tip,paid")
    tasks = "tip: {kind: binary}, paid: {kind: binary, missing: mask}"
    problems = reported(CONFIG.replace("{key: tip, kind: binary}", f"{{kind: multitask, tasks: {{{tasks}}}}}"))
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.startswith("c.yaml:4: label.tasks.paid.key: ")
        assert words in problem


def test_labels_are_let_through_where_they_only_warn_or_are_computed() -> None:
    rows(*(f"{row}.5,{row % 3}" for row in ROWS))
    assert len(reported(CONFIG)) == 1
    assert reported(CONFIG.replace("label:", "  on_anomaly: warn\nlabel:", 1)) == []


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
            "c.yaml:4: data.split_column: column 'fold': 'valid', which is not the value …",
        ),
        (["train", "valid", "test"], "  split_values: {eval: [valid]}\n", ""),
        (["0", "1", "2"], "  split_values: {train: [0], eval: [1], test: [2]}\n", ""),
        (["train", "eval"], "", "data.splits: split 'test' is empty, out of 60 rows in all…No row names it"),
    ],
)
def test_a_column_that_names_no_split_is_reported_as_by_the_run(folds: list[str], setting: str, words: str) -> None:
    rows(*(f"{row}.5,{row // 3 % 2},{folds[row % len(folds)]}" for row in ROWS), header="fare,tip,fold")
    problems = reported(CONFIG.replace("label:", f"  split_column: fold\n{setting}label:", 1))
    assert len(problems) == bool(words)
    for problem in problems:
        assert all(word in problem for word in words.split("…"))


@pytest.mark.parametrize(
    ("days", "words"),
    [
        ([f"2026-01-{1 + day:02}" for day in range(30)], ""),
        (["2026-01-01", "02.01.2026"], "data.split_by: column 'day': '02.01.2026' is not a date such as"),
        (["2026-01-01", ""], "data.split_by: column 'day': a row has no value"),
        (["2026-01-01", "2026-01-02"], "data.splits: split 'eval' is empty…stay together, and too many have the same"),
        ([f"{day}.5" for day in range(20)], ""),
    ],
)
def test_a_column_that_cannot_be_ordered_in_time_is_reported_as_by_the_run(days: list[str], words: str) -> None:
    rows(*(f"{row}.5,{row // 3 % 2},{days[row % len(days)]}" for row in ROWS), header="fare,tip,day")
    problems = reported(CONFIG.replace("label:", "  split_by: day\nlabel:", 1))
    assert len(problems) == bool(words)
    for problem in problems:
        assert all(word in problem for word in words.split("…"))


def noted(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    Path("c.yaml").write_text(text, encoding="utf-8")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="headrace"):
        load_checked("c.yaml", None, (), data=True)
    return list(caplog.messages)


CODE = CONFIG + "  code: {column: vocabulary, values: [VALUES]}\n"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("'1,200', 7", "column \"code\" holds integers, and none is written '1,200'; write 1200"),
        ("'07'", "is written '07'; write 7"),
        ("'1200', -7", ""),
        ("A", "is written 'A'; remove it, or declare `string`"),
        ("7, 1200, unknown", ""),
        ("7, unknown, '1,200'", "is written '1,200'; write 1200"),
    ],
)
def test_values_that_no_integer_is_written_as_are_refused(values: str, words: str) -> None:
    rows(*(f'{row}.5,{row % 2},"{(row % 2) * 1193 + 7}"' for row in ROWS), header="fare,tip,code")
    problems = reported(CODE.replace("VALUES", values))
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.startswith("c.yaml:7: features.code.values: ")
        assert words in problem


def test_a_value_for_later_data_among_integers_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{row % 2 + 1}" for row in ROWS), header="fare,tip,code")
    (note,) = noted(CODE.replace("VALUES", "'1', '2', unknown"), caplog)
    assert note.startswith("note: c.yaml:7: features.code.values: ")
    assert "none is written 'unknown'" in note


def test_values_that_the_first_rows_do_not_have_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{'xy'[row % 2]} " for row in ROWS), header="fare,tip,code")
    (note,) = noted(CODE.replace("VALUES", "x, y"), caplog)
    assert note.startswith('note: c.yaml:7: features.code.values: none of the values is in column "code"')
    assert "'x ', 'y '" in note
    assert noted(CODE.replace("VALUES", "'x ', z"), caplog) == []
    divided = "column: vocabulary, multivalued: true, separator: '|'"
    assert noted(CODE.replace("column: vocabulary", divided).replace("VALUES", "x"), caplog) == []


def test_integers_that_later_rows_may_turn_into_texts_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{7 if row < 200_000 else 'A'}" for row in range(200_500)), header="fare,tip,code")
    (note,) = noted(CODE.replace("VALUES", "7, A"), caplog)
    assert "none is written 'A'" in note


def test_a_slice_over_nearly_unique_values_is_noted_and_not_refused(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{row % 7}" for row in range(400)), header="fare,tip,day")
    Path("c.yaml").write_text(CONFIG + "evaluate: {slices: [day, fare]}\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING, logger="headrace"):
        load_checked("c.yaml", None, (), data=True)
    (note,) = caplog.messages
    assert note.startswith('note: c.yaml:7: evaluate.slices[1]: column "fare" has 400 different values')


def test_numbers_that_lose_digits_are_noted_until_they_are_float64(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{1_700_000_000 + row / 8},{row % 2},{row / 8}" for row in range(400)), header="fare,tip,day")
    declared = CONFIG.replace("label:", "  types: {fare: float64}\nlabel:", 1)
    for text, notes in ((CONFIG, 1), (declared, 0)):
        Path("c.yaml").write_text(text, encoding="utf-8")
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="headrace"):
            load_checked("c.yaml", None, (), data=True)
        assert len(caplog.messages) == notes
        for note in caplog.messages:
            assert note.startswith("note: c.yaml:6: features.fare: column 'fare' loses digits: 17000000")
            assert "is stored as 1700000000.0, which is 49.9 away" in note
            assert "`data.types.fare: float64`" in note


def test_the_label_of_a_regression_that_loses_digits_is_not_advised_to_be_float64(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows(*(f"{row / 8},{1_700_000_000 + row / 8}" for row in range(400)))
    Path("c.yaml").write_text(CONFIG.replace("kind: binary", "kind: regression"), encoding="utf-8")
    with caplog.at_level(logging.WARNING, logger="headrace"):
        load_checked("c.yaml", None, (), data=True)
    (note,) = caplog.messages
    assert "label.key: column 'tip' loses digits: 17000000" in note
    assert "float64" not in note
    assert "subtract an offset" in note


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_under_a_number_are_called_dates(kind: str) -> None:
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=row) for row in ROWS]
    if kind == "csv":
        rows(*(f"{day},{row % 2}" for row, day in enumerate(days)))
    else:
        pq.write_table(pa.table({"fare": days, "tip": [row % 2 for row in ROWS]}), "trips.parquet")
    (problem,) = reported(CONFIG.replace("kind: csv, path: trips.csv", f"kind: {kind}, path: trips.{kind}"))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds dates such as 2024-01-01, ')


@pytest.mark.parametrize(
    ("feature", "value", "words"),
    [
        ("column: datetime, part: month", "21.11.2026", "`%d.%m.%Y`"),
        ("column: datetime, part: month", "20261121", "`%Y%m%d`"),
        ("column: datetime, part: month", "1795459564", "`epoch_s`"),
        ('column: datetime, part: month, format: "%d/%m/%Y"', "2026-11-21", "`format: %d/%m/%Y`"),
        ("column: boolean", "perhaps", "`column: vocabulary`"),
        ("column: datetime, part: month", "2026-11-21 10:30", ""),
        ('column: datetime, part: month, format: "%d/%m/%Y"', "21/11/2026", ""),
        ("column: datetime, part: month, format: epoch_s", "1795459564", ""),
        ("column: boolean", "Yes", ""),
        ("column: boolean", "0", ""),
    ],
)
def test_dates_and_booleans_that_cannot_be_read_are_reported_with_a_way_out(
    feature: str, value: str, words: str
) -> None:
    rows(*(f"{value if row % 3 else ''},{row % 2}" for row in ROWS))
    problems = [one for one in reported(CONFIG.replace("column: numeric", feature)) if "data.splits" not in one]
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.startswith(f'c.yaml:6: features.fare: column "fare" holds {value!r}, ')
        assert words in problem


def test_lists_of_lists_are_reported_once() -> None:
    pq.write_table(pa.table({"fare": [[[1.0], [2.0]]] * 60, "tip": [row % 2 for row in ROWS]}), "trips.parquet")
    (problem,) = reported(CONFIG.replace("kind: csv, path: trips.csv", "kind: parquet, path: trips.parquet"))
    assert "lists of lists" in problem


@pytest.mark.parametrize(
    ("values", "settings", "place", "words"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], "size: 2", "", ""),
        ([[1.0, 2.0], None, [], [3.0, 4.0]], "size: 2", "", ""),
        ([[], [1.0, 2.0], [3.0, 4.0]], "size: 3", "size", "length 2 in row 2, and `size` is 3; set `size: 2`"),
        ([[1.0, 2.0], [3.0]], "size: 2", "size", "length 1 in row 2, …same length"),
        ([["a"], ["b"]], "size: 1", "", "lists of texts"),
        ([1.5, 2.5], "size: 2", "column", "single numbers, …`column: numeric`"),
        ([1.5, 2.5], "size: 1", "", ""),
        (["[1, 2]", "[3, 4]"], "size: 2", "separator", "'[1, 2]', …`separator: \",\"`"),
        (["a b", "c d"], "size: 2", "separator", "'a b', …set the `separator`"),
        (["1 2", "3  4", "", None], "size: 2, separator: ' '", "", ""),
        (["[1;2]", "(3;nan)"], "size: 2, separator: ;", "", ""),
        (["1;2", "3;4;5"], "size: 2, separator: ;", "size", "length 3 in row 2"),
        (["1;2", "3;x"], "size: 2, separator: ;", "separator", "'x' in the list of row 2"),
    ],
)
def test_lists_that_are_no_vectors_are_reported_with_the_row(
    values: list[object], settings: str, place: str, words: str
) -> None:
    some = [values[row % len(values)] for row in ROWS]
    pq.write_table(pa.table({"fare": some, "tip": [row % 2 for row in ROWS]}), "trips.parquet")
    config = CONFIG.replace("kind: csv, path: trips.csv", "kind: parquet, path: trips.parquet")
    problems = [
        problem
        for problem in reported(config.replace("column: numeric", f"column: vector, {settings}"))
        if "data.splits" not in problem
    ]
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.startswith(f"c.yaml:6: features.fare{place and '.'}{place}: ")
        assert all(word in problem for word in words.split("…"))


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_called_one(indent: int | None) -> None:
    Path("trips.jsonl").write_text(
        json.dumps([{"fare": row, "tip": row % 2} for row in ROWS], indent=indent), encoding="utf-8"
    )
    (problem,) = reported(CONFIG.replace("kind: csv, path: trips.csv", "kind: jsonl, path: trips.jsonl"))
    assert problem.startswith("c.yaml:3: data.source.path: ")
    assert "JSON array" in problem


def test_many_columns_with_one_mistake_are_in_one_message() -> None:
    names = [f"c{number}" for number in range(20)]
    rows(*(",".join([*(["x"] * 20), str(row % 2), str(row)]) for row in ROWS), header=",".join([*names, "tip", "n"]))
    features = "".join(f"  {name}: {{column: numeric}}\n" for name in names)
    (problem,) = reported(CONFIG.replace("  fare: {column: numeric}\n", features))
    assert problem.startswith('c.yaml:6: features.c0: columns "c0", "c1", ')
    assert '"c11" and 8 more hold text, and `column: numeric` needs numbers' in problem


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
    assert problem.startswith("c.yaml:4: label.key: in the data of test: the label is missing in 10 of the first 10")
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
