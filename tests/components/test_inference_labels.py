"""What a label is taken for: its kind, classes and threshold; and what cannot be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from column_facts import facts

from headrace.common.errors import DataError
from headrace.components.inference.labels import choose_label, likely_labels
from headrace.components.inference.strays import stray_values


@pytest.mark.parametrize(
    ("values", "kind", "settings", "type_"),
    [
        ([0, 1, 1], "int", {"kind": "binary"}, None),
        ([1.0, 2.0], "float", {"kind": "binary", "classes": [1, 2]}, None),
        ([0.0, 1.0], "float", {"kind": "binary"}, None),
        ([-0.0, 1.0], "float", {"kind": "binary"}, None),
        ([0.5, 1.5], "float", {"kind": "regression"}, None),
        (["stayed", "left"], "string", {"kind": "binary", "classes": ["left", "stayed"]}, None),
        (["ja", "ja", "nein"], "string", {"kind": "binary", "classes": ["nein", "ja"]}, None),
        (["Oui ", "Oui ", "Non"], "string", {"kind": "binary", "classes": ["Non", "Oui "]}, None),
        (["no", "si", "si"], "string", {"kind": "binary", "classes": ["no", "si"]}, None),
        (["não", "sim", "sim"], "string", {"kind": "binary", "classes": ["não", "sim"]}, None),
        (["ja", "ja", "vielleicht"], "string", {"kind": "binary", "classes": ["ja", "vielleicht"]}, None),
        (["Yes", "No"], "string", {"kind": "binary", "classes": ["No", "Yes"]}, None),
        (["a", "b", "c"], "string", {"kind": "multiclass", "classes": ["a", "b", "c"]}, None),
        ([0, 1, 2], "int", {"kind": "multiclass", "classes": 3}, None),
        ([1.0, 2.0, 3.0, None], "float", {"kind": "multiclass", "classes": [1, 2, 3]}, None),
        ([1.0, 2.0, 3.5], "float", {"kind": "regression"}, None),
        ([100.0, 250.0, 400.0], "float", {"kind": "regression"}, None),
        ([3, 4, 8], "int", {"kind": "multiclass", "classes": [3, 4, 8]}, None),
        ([["b", "a"], ["a"], []], "string list", {"kind": "multilabel", "classes": ["a", "b"]}, None),
        ([[2], [0, 1]], "int list", {"kind": "multilabel", "classes": 3}, None),
        (
            ["x|y", "x", "y|z", "z|x|y", "z|y"],
            "string",
            {"kind": "multilabel", "classes": ["x", "y", "z"], "separator": "|"},
            None,
        ),
        ([0.1 * n for n in range(40)], "float", {"kind": "regression"}, None),
        ([*range(40)], "int", {"kind": "regression"}, None),
    ],
)
def test_a_label_has_the_kind_and_classes_of_its_values(values: Any, kind: Any, settings: Any, type_: Any) -> None:
    found = choose_label(facts(values * 20, kind))
    assert (found.settings, found.type) == (settings, type_)


@pytest.mark.parametrize(
    ("values", "spelled", "settings"),
    [
        ([0.5, 1.5], {0.5: ["0.50"], 1.5: ["1.50"]}, {"kind": "binary", "classes": ["0.50", "1.50"]}),
        ([0.5, 1.5], {0.5: ["0.5", ".5"], 1.5: ["1.5"]}, {"kind": "regression"}),
        (
            [2.0**24 + 1, 2.0**24],
            {2.0**24: ["16777216.0"], 2.0**24 + 1: ["16777217.0"]},
            {"kind": "binary", "classes": ["16777216.0", "16777217.0"]},
        ),
    ],
)
def test_two_fractions_are_classes_as_the_texts_of_the_data(values: Any, spelled: Any, settings: Any) -> None:
    found = choose_label(facts(values * 20, "float"), lambda: spelled)
    assert found.settings == settings
    assert found.type == ("string" if settings["kind"] == "binary" else None)


def test_the_classes_of_lists_are_counted_by_rows() -> None:
    found = choose_label(facts([["b", "a"], ["a"], []] * 20, "string list"))
    assert found.comment == "2 classes, 1.5 in a row; the most frequent is a (40 rows)"
    texts = choose_label(facts(["x|y", "x", "y|z", "z|x|y", "z|y"] * 9, "string"))
    assert texts.comment == "3 classes, 2.0 in a row; the most frequent is y (36 rows)"
    assert found.several
    assert texts.several


def test_thresholds_are_above_what_guessing_reaches() -> None:
    three = choose_label(facts(["a"] * 60 + ["b"] * 30 + ["c"] * 10, "string"))
    assert three.threshold == ("accuracy", {"min": 0.64})  # a tenth of the way from 0.6 to 1
    numbers = [n % 37 + 0.5 for n in range(400)]
    regression = choose_label(facts(numbers, "float"))
    assert regression.threshold == ("r_squared", {"min": 0.1})
    assert {"r_squared", "root_mean_squared_error", "mean_absolute_error"} == {*regression.metrics}
    assert regression.baseline.endswith(f"root mean squared error of {np.std(numbers):.4g}")


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ([None, None], "string", "no values"),
        (["a", "a"], "string", "only one value, a"),
        ([["a"], ["a"]], "string list", "lists have only one value, a"),
        ([[0.5], [1.5]], "float list", "lists of numbers"),
        ([[f"{n}", "x"] for n in range(100)], "string list", "101 different values, and at most 100"),
        ([f"{n}" for n in range(101)], "string", "at most 100 can be classes; .*`label.kind: text`"),
        ([f"{n}" for n in range(40)], "string", "40 different values in 40 rows"),
        ([1.0, float("inf"), 2.0], "float", "infinite"),
    ],
)
def test_a_column_that_cannot_be_predicted_is_refused_with_the_reason(values: Any, kind: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        choose_label(facts(values, kind, "outcome"))


def test_possible_labels_are_listed_with_those_of_few_classes_first() -> None:
    columns = [facts([*range(50)], "int", "row"), facts([0.1 * n for n in range(50)], "float", "price")]
    columns += [facts(["a", "b"] * 25, "string", "kind"), facts([f"n{n}" for n in range(150)], "string", "name")]
    columns += [facts([["a"], ["b"]] * 25, "string list", "tags")]
    assert likely_labels(columns) == ["kind", "price"]


def test_classes_that_differ_in_case_and_white_space_are_told() -> None:
    assert choose_label(facts(["Yes", "yes", "No", "no "] * 9, "string")).alike == ["No", "Yes", "no ", "yes"]
    assert choose_label(facts(["red", "green", "Green"] * 9, "string")).alike == ["Green", "green"]
    assert choose_label(facts(["red", "green", "blue"] * 9, "string")).alike == []
    assert choose_label(facts([0, 1, 2] * 30, "int")).alike == []


@pytest.mark.parametrize(
    ("counts", "strays"),
    [
        ({"no": 5000, "yes": 4999, "maybe": 1}, ["maybe"]),
        ({"no": 5000, "yes": 4990, "maybe": 10}, ["maybe"]),
        ({"no": 5000, "yes": 4989, "maybe": 11}, []),
        ({"no": 5000, "yes": 4990, "maybe": 6, "perhaps": 4}, ["maybe", "perhaps"]),
        ({"no": 5000, "yes": 4990, "maybe": 7, "perhaps": 4}, []),
        ({"no": 60, "yes": 50, "maybe": 2}, ["maybe"]),
        ({"no": 60, "yes": 50, "maybe": 3}, []),
        ({"no": 60, "yes": 49, "maybe": 2}, []),
        ({"a": 500, "b": 300, "c": 200, "d": 1}, ["d"]),
        ({"no": 10_000, "yes": 3}, []),
        ({"no": 10_000, "yes": 2, "maybe": 1}, []),
        ({0: 5000, 1: 4999, 9: 1}, [9]),
        ({0.0: 5000, 1.0: 4999, 0.5: 1}, [0.5]),
    ],
)
def test_classes_that_hardly_any_row_has_are_stray(counts: dict[Any, int], strays: list[Any]) -> None:
    kinds = {str: "string", int: "int", float: "float"}
    kind: Any = kinds[type(next(iter(counts)))]
    assert stray_values(facts([value for value, count in counts.items() for _ in range(count)], kind)) == strays
