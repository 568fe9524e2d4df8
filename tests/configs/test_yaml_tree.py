"""The YAML of configs: texts stay texts, places are kept, and what is not YAML is reported in plain words."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from messages import says

from headrace.configs.loading import yaml_reader
from headrace.configs.loading.tree import LocatedProblem, Tree, location_of, plain
from headrace.configs.loading.yaml_reader import read


def values(text: str) -> object:
    tree, mistakes = read(text, "c.yaml", 0)
    assert mistakes == []
    assert tree is not None
    return plain(tree)


def mistakes(text: str) -> list[str]:
    return [str(mistake.problem()) for mistake in read(text, "c.yaml", 0)[1]]


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "Yes",
        "y",
        "12:30",
        "2024-01-31",
        "2024-01-31T00:00:00Z",
        "010",
        "0o17",
        "0x1F",
        "1_000",
        "1e",
        "=",
        ".",
    ],
)
def test_plain_scalars_that_look_like_something_else_stay_texts(text: str) -> None:
    assert values(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("0", 0),
        ("2.50", 2.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
    ],
)
def test_decimal_numbers_are_numbers(text: str, value: float) -> None:
    read_value = values(f"a: {text}")
    assert read_value == {"a": value}
    assert type(read_value["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("False", False), ("null", None), ("~", None), ("", None), ('"null"', "null")]
)
def test_truth_values_and_null(text: str, value: object) -> None:
    assert values(f"a: {text}") == {"a": value}


def test_names_of_settings_are_texts_as_written() -> None:
    assert values("{on: 1, 2019: 2, true: 3, null: 4, 01: 5}") == {"on": 1, "2019": 2, "true": 3, "null": 4, "01": 5}


def test_anchors_and_merge_keys_are_followed() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: *a\nd: {<<: *a, x: 5}\ne: {y: 0, <<: [*a, *b]}"
    assert values(text) == {
        "a": {"x": 1, "y": 2},
        "b": {"y": 3, "z": 4},
        "c": {"x": 1, "y": 2},
        "d": {"x": 5, "y": 2},
        "e": {"x": 1, "y": 0, "z": 4},
    }


def test_places_are_of_the_value_or_the_name() -> None:
    tree, _ = read("a:\n  b:\n    - 1\n    - 2\n  c: >\n    text\n", "c.yaml", 0)
    assert tree is not None
    places = {
        where: location_of(tree, where).line
        for where in [("a",), ("a", "b", 1), ("a", "c"), ("a", "gone"), ("a", "b", 7)]
    }
    assert places == {("a",): 1, ("a", "b", 1): 4, ("a", "c"): 5, ("a", "gone"): 1, ("a", "b", 7): 2}
    assert location_of(tree, ("a", "b"), key=True).line == 2
    assert location_of(tree, ("a", "b")).line == 3


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (
            "a: 1\na: 2\na: 3",
            [
                "c.yaml:2: a: …lines 1 and 2",
                "c.yaml:3: a: …lines 2 and 3",
            ],
        ),
        ("x: {a: 1, a: 2}", ["c.yaml:1: x.a: set twice"]),
        ("x: {a:1, b: 2, c:}", ["c.yaml:1: x: …space after the colon"]),
        ("? [a]\n: 1", ["c.yaml:1: the name of a setting "]),
        ("a: !!set {x}", ["c.yaml:1: a: …tag !!set …remove it"]),
        (
            "a: !!python/name:os.system x",
            ["c.yaml:1: a: …tag !!python/name:os.system …remove it"],
        ),
        ("a: !mine 3", ["c.yaml:1: a: …tag !mine …remove it"]),
        ("a: !!int x", ['c.yaml:1: a: "x" …!!int …remove the tag']),
        ("<<: 3", ["c.yaml:1: <<: takes a mapping"]),
        (
            "a: &a [*a]",
            ["c.yaml:1: …more than 40 deep, …(*name)"],
        ),
        (
            "[" * 5000,
            ["c.yaml: …more than 40 deep, …(*name)"],
        ),
        (
            '"\\ud800": 1',
            ["c.yaml:1: …surrogate pair"],
        ),
    ],
)
def test_what_a_config_cannot_hold_is_reported(text: str, reported: list[str]) -> None:

    found = mistakes(text)
    assert [says(*both) for both in zip(found, reported, strict=True)] == [True] * len(reported), found


@pytest.mark.slow
def test_aliases_that_multiply_are_stopped() -> None:
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    for name, below in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n"
    assert [line.partition(" values")[0] for line in mistakes(bomb)] == ["c.yaml:1: more than 200,000"]


COLON = "not YAML: `name:` is not allowed here"
SINCE = "(it starts on line 1)"
QUOTES = 'quotes around it, as in "*.csv"'


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("a: *.csv", f"1:5: not YAML: …starts with * …{QUOTES}"),
        ("a: {b: |}", "1:8: not YAML: …starts with | …quotes"),
        ("a: %x", "1:4: not YAML: …starts with % …quotes"),
        ("a: @x", "1:4: not YAML: …starts with @ …quotes"),
        ("a:\n\tb: 1", "2:1: not YAML: found a tab"),
        (
            "a: {b: 1\nc: 2",
            f"2:2: not YAML: a {{ is not closed …comma …{SINCE}",
        ),
        ("a: [1, 2\nb: 3", f"2:2: not YAML: a [ is not closed …comma …{SINCE}"),
        ("a: 'x\nb: 2\n", f"3:1: not YAML: a quoted string is not closed …{SINCE}"),
        ("a:\n  b: 1\n c: 2", f"3:2: not YAML: …not indented …{SINCE}"),
        ("a: 1\n  b: 2", f"2:4: {COLON}"),
        (
            "a: 1\n---\nb: 2",
            f"2:1: not YAML: …one document; remove …`---` …{SINCE}",
        ),
        ("a: 'x' y", "1:8: not YAML: a second string "),
        ("a: - b", "1:4: not YAML: a list starts on its own line"),
        (
            "a: *b",
            "1:4: not YAML: *b …&b …not defined…quotes around it",
        ),
        ("a\nb: 1", f"2:2: {COLON}"),
        ('a: "\\d"', "1:6: not YAML: …backslash …write it twice"),
    ],
)
def test_what_is_not_yaml_is_reported_with_line_column_and_cause(text: str, reported: str) -> None:
    (mistake,) = mistakes(text)
    assert says(mistake, f"c.yaml:{reported}")


TEXTS = [
    "a",
    "key",
    "'x'",
    '"y"',
    "1",
    "1e5",
    "~",
    "null",
    "true",
    "é",
    "😀",
    "\\",
    '"',
    "'",
    "=",
    "<<",
    "#c",
    "@",
    "%",
]
MARKS = ["- ", "-", "? ", ": ", ":", "{", "}", "[", "]", ",", "&a ", "*a", "!!str ", "|\n", "> \n", "---", "..."]
BLANKS = [" ", "\n", "\n  ", "\n    ", "\r\n", "\t", "\x85", "\u2028", "\ufeff"]


@pytest.mark.slow
@settings(max_examples=500)
@given(st.lists(st.sampled_from([*TEXTS, *MARKS, *BLANKS]), max_size=14).map("".join))
@example("a: {b: [1, 'x'], c: |\n  text\n}")
@example("section:\nlabel: {key: tip}\n")
@example("- \n- a\n")
@example("\ufeff\ufeffa: 1")
def test_both_parsers_read_the_same_values_at_the_same_locations(text: str) -> None:
    fast, slow = read(text, "c.yaml", 0), read_by_pyyaml(text)
    assert fast == slow or (slow[0] is None and "? " in text)  # YAML 1.2 allows it inside {} and []; PyYAML does not


def read_by_pyyaml(text: str) -> tuple[Tree | None, list[LocatedProblem]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_reader, "_FAST", None)
        return read(text, "c.yaml", 0)


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 5_000 + "a", "{a: " * 5_000 + "1" + "}" * 5_000])
def test_deep_nesting_is_reported_and_exhausts_no_stack(text: str) -> None:
    (mistake,) = mistakes(text)
    assert "nested more than 40 deep" in mistake
