"""What the first rows of the data say of labels and weights, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import says
from trips_folder import CONFIG, headrace
from validated import ROWS, reported, rows


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
            "missing in 20 of…or `none`",
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
        assert says(problem, f"…{words}")


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["one two", "three"], ""),
        (["1", "2"], "holds numbers, "),
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
        (["1", "", "0.5"], "missing in 20 of the first 60 rows, …row 2; …from 0 up"),
        (["1", "2", "-2"], "negative in 20 of the first 60 rows, …row 3; "),
        (["low", "high"], "column \"weight\" holds text such as 'high', …`weight`"),
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
        assert says(problem, "…" + words.replace("first 60", "first 61"))


def test_a_weight_that_is_not_a_column_is_reported_with_the_nearest() -> None:
    rows(*(f"{row}.5,{row % 2}" for row in ROWS))
    (problem,) = reported(CONFIG.replace("kind: binary", "kind: binary, weight: far"))
    assert problem.startswith('c.yaml:4: label.weight: "far" ')
    assert problem.endswith('did you mean "fare"?')


@pytest.mark.parametrize(("paid", "words"), [("", "none of the 60 examples…remove the task"), ("1", "")])
def test_a_masked_label_without_any_value_is_reported_as_by_the_run(paid: str, words: str) -> None:
    rows(*(f"{row}.5,{row % 2},{paid if row % 2 else paid and 0}" for row in ROWS), header="fare,tip,paid")
    tasks = "tip: {kind: binary}, paid: {kind: binary, missing: mask}"
    problems = reported(CONFIG.replace("{key: tip, kind: binary}", f"{{kind: multitask, tasks: {{{tasks}}}}}"))
    assert len(problems) == bool(words)
    for problem in problems:
        assert says(problem, f"c.yaml:4: label.tasks.paid.key: …{words}")


def test_labels_are_let_through_where_they_only_warn_or_are_computed() -> None:
    rows(*(f"{row}.5,{row % 3}" for row in ROWS))
    assert len(reported(CONFIG)) == 1
    assert reported(CONFIG.replace("label:", "  on_anomaly: warn\nlabel:", 1)) == []


def test_a_third_value_in_one_row_is_noted_by_init_and_of_an_inferred_label(here: Path) -> None:
    tips = ["maybe" if row == 800 else "yes" if row // 3 % 2 else "no" for row in range(1000)]
    lines = "".join(f"{row}.5,{tip}\n" for row, tip in enumerate(tips))
    (here / "trips.csv").write_text(f"fare,tip\n{lines}", encoding="utf-8")
    found = (
        '"maybe" is in 1 of 1,000 rows, row 801; without it the label would be binary; correct a mistake in the data'
    )
    done = headrace(here, "init", "trips.csv", "--label", "tip", "-o", "mine.yaml")
    assert f"note: label tip: {found}" in done.stderr
    assert "tip is multiclass" in done.stdout
    config = CONFIG.replace("kind: binary", "kind: auto")
    (here / "c.yaml").write_text(config, encoding="utf-8")
    done = headrace(here, "validate", "c.yaml")
    assert done.stderr.startswith(f"note: c.yaml:4: label.kind: {found}")
    assert done.stderr.rstrip().endswith("name it in `data.source.null_values` and set its `missing: drop`")
    (here / "c.yaml").write_text(config.replace("trips.csv", "trips.csv, null_values: [maybe]"), encoding="utf-8")
    done = headrace(here, "validate", "c.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "label: {key: tip, kind: binary" in done.stdout
    assert "missing: drop" in done.stdout
