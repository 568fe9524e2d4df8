"""Splits of whole spans: the newest are held out, the others train, and each night the limit moves on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from span_runs import DAYS, config, days, generate, rows_of, write

from headrace.common.errors import DataError
from headrace.components.deploy.choices import point
from headrace.components.spans.split_spans import TRAINED_ON, RoleOfSpans
from headrace.components.stored_models.blessed_record import Entry, MadeFor
from headrace.configs.schema.data import DataConfig

DATES = ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05")
ROWS = 40
"""Rows of a day; those of day n start at 1000 n."""


def held_out(**settings: Any) -> DataConfig:
    return config(DAYS, splits={"train": 8, "eval": 1, "test": 1}, **settings)


def rows_of_days(*numbers: int) -> list[int]:
    return [1000 * number + row for number in numbers for row in range(ROWS)]


def test_the_newest_spans_are_held_out_and_move_on_each_night(folder: Path) -> None:
    days(*DATES[:4])
    data = held_out(window="all", split_spans={"eval": 1, "test": 1})
    first = generate(folder, data)
    expected = {"train": rows_of_days(0, 1), "eval": rows_of_days(2), "test": rows_of_days(3)}
    assert {split: sorted(own) for split, own in rows_of(first).items()} == expected
    assert first.get_string_custom_property("plan").endswith("eval is 2026-01-03; test is 2026-01-04")
    write("in/2026-01-05.csv", 4000)
    second = generate(folder, data)
    expected = {"train": rows_of_days(0, 1, 2), "eval": rows_of_days(3), "test": rows_of_days(4)}
    assert {split: sorted(own) for split, own in rows_of(second).items()} == expected
    read = reported_read(second)
    assert "2026-01-01" not in read
    assert "2026-01-02" not in read
    again = generate(folder, data)
    assert rows_of(again) == rows_of(second)
    assert reported_read(again) == "read now: none, all were stored"
    roles = RoleOfSpans.of(again)
    assert list(roles.held_out) == ["2026-01-04", "2026-01-05"]
    assert [number - roles.trained_on[0] for number in roles.trained_on] == [0, 1, 2]


def reported_read(examples: Any) -> str:
    return str(examples.get_string_custom_property("read"))


def test_a_missing_eval_is_cut_from_the_spans_that_train(folder: Path) -> None:
    days(*DATES[:3])
    held = rows_of(generate(folder, held_out(window="all", split_spans={"test": 1})))
    assert sorted(held["test"]) == rows_of_days(2)
    assert sorted(held["train"] + held["eval"]) == rows_of_days(0, 1)
    whole = rows_of(generate(folder, config(DAYS, splits={"train": 8, "eval": 1}, window="all")))
    assert sorted(held["eval"]) == sorted(set(whole["eval"]) & set(rows_of_days(0, 1)))


def test_the_newest_spans_that_exist_count_and_ranges_are_divided_in_the_same_way(folder: Path) -> None:
    days(*DATES)
    Path("in/2026-01-04.csv").unlink()
    data = held_out(spans=("2026-01-01", "2026-01-05"), split_spans={"eval": 2, "test": 1})
    found = {split: sorted(own) for split, own in rows_of(generate(folder, data)).items()}
    assert found == {"train": rows_of_days(0), "eval": rows_of_days(1, 2), "test": rows_of_days(4)}


def test_without_a_span_to_train_on_the_run_stops(folder: Path) -> None:
    days(*DATES[:2])
    with pytest.raises(DataError) as error:
        generate(folder, held_out(window="all", split_spans={"eval": 1, "test": 1}))
    assert "the newest 2 for eval, test" in str(error.value)


def test_rows_of_train_are_stratified_and_held_out_spans_are_whole(folder: Path) -> None:
    days(*DATES[:3])
    data = held_out(window="all", split_spans={"test": 1}, stratify="word")
    held = rows_of(generate(folder, data))
    assert sorted(held["test"]) == rows_of_days(2)
    assert sorted(held["train"] + held["eval"]) == rows_of_days(0, 1)


def test_a_blessed_model_ispointed_at_with_the_spans_that_it_learned_from(tmp_path: Path) -> None:
    from tfx.types import standard_artifacts

    made_for = MadeFor(label="l", columns={}, trained_on=(7, 8))
    assert made_for.fits(MadeFor(label="l", columns={"more": "int"}, trained_on=(9,)))
    baseline = standard_artifacts.Model()
    point(baseline, Entry(uri=str(tmp_path), blessed_at="2026-01-01", made_for=made_for))
    assert json.loads(baseline.get_string_custom_property(TRAINED_ON)) == [7, 8]
    entry = Entry(uri="u", blessed_at="b", made_for=made_for)
    assert Entry.model_validate_json(entry.model_dump_json()) == entry
