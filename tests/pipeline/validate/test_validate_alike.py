"""Mistakes that several columns share: each is one message, with all of their names and lines."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from messages import says
from trips_folder import CONFIG

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load
from headrace.pipeline.api import load_checked

ROWS = range(60)
Cell = Callable[[int, int], str]


def letters(row: int, _place: int) -> str:
    return "abc"[row % 3]


def fractions(row: int, _place: int) -> str:
    return f"{row}.5"


def written(number: int, cell: Cell, feature: str, data: str = "", more: str = "") -> str:
    """A config with so many features, in lines of their own, over columns with these values in `trips.csv`.

    feature, data, more: the text for one feature, for `data:`, and for the end of the config; `{}` is its number, and
    each line of the latter two with it is repeated.
    """
    names = [f"col{place}" for place in range(number)]
    rows = [
        [*(cell(row, place) for place in range(number)), str(row // 3 % 2), f"{row}.5", str(row % 5)] for row in ROWS
    ]
    Path("trips.csv").write_text(
        "\n".join(map(",".join, [[*names, "tip", "fare", "zone"], *rows, []])), encoding="utf-8"
    )

    def each(text: str) -> str:
        lines = text.splitlines()
        return "".join(
            line.replace("{}", str(place)) + "\n" for line in lines for place in range(number if "{}" in line else 1)
        )

    features = each(f"  col{{}}: {{{feature}}}") + "  fare: {column: numeric}\n"
    return CONFIG.replace("  fare: {column: numeric}\n", features).replace("label:", f"{each(data)}label:", 1) + each(
        more
    )


def said(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """All that `headrace validate` says."""
    Path("c.yaml").write_text(text, encoding="utf-8")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="headrace"):
        try:
            load_checked("c.yaml", None, (), data=True)
        except ConfigError as error:
            return [*caplog.messages, *map(str, error.problems)]
    return list(caplog.messages)


MISTAKES: dict[str, tuple[Cell, str, str, str, str]] = {
    "texts": (letters, "column: numeric", "", "", "hold text"),
    "strays": (lambda row, _: "x" if row == 7 else str(row), "column: numeric", "", "", "hold text"),
    "fractions": (fractions, "column: identity, num_buckets: 99", "", "", "hold numbers with fractions"),
    "floats": (lambda row, _: f"{row}.0", "column: vocabulary", "", "", "set `int` for those of them in `data.types`"),
    "out of range": (lambda row, _: str(row % 12), "column: identity, num_buckets: 9", "", "", "`num_buckets: 12`"),
    "empty": (lambda *_: "", "column: numeric", "", "", "have no value"),
    "constant": (lambda _, place: str(place), "column: numeric", "", "", "first 60 rows, each its own: 0, 1"),
    "ids": (lambda row, _: f"id{row}", "column: vocabulary", "", "", "name the rows"),
    "values": (letters, "column: vocabulary, values: [x, y]", "", "", "have none of the listed values"),
    "integers": (lambda row, _: str(row % 3), "column: vocabulary, values: [x]", "", "", "hold integers"),
    "leaks": (
        lambda row, _: "ab"[row // 3 % 2],
        "column: vocabulary",
        "",
        "",
        'to be the label "tip" again: "col0" has',
    ),
    "infinite": (lambda row, _: "inf" if row == 3 else f"{row}.5", "column: numeric", "", "", "hold inf"),
    "digits": (lambda row, _: str(1_700_000_000 + row / 8), "column: numeric", "", "", "lose digits"),
    "hours": (lambda row, _: f"2026-11-{row % 28 + 1:02}", "column: datetime, part: hour", "", "", "without hours"),
    "dates": (lambda row, _: f"{row % 28 + 1:02}.11.2026", "column: datetime, part: weekday", "", "", "%d.%m.%Y"),
    "lists": (lambda row, _: f"{row} 2", "column: vector, size: 2", "", "", "separator"),
    "unknown": (letters, "column: hashed, hash_buckets: 9, key: col{}x", "", "", "are not columns"),
    "setting": (fractions, "column: numeric, normalise: log", "", "", 'did you mean "normalize"? The same goes for'),
    "kind": (fractions, "column: numric", "", "", 'did you mean "numeric"? The same goes for'),
    "value": (letters, "column: hashed, hash_buckets: many", "", "", "the same goes for"),
    "separated": (letters, "column: vocabulary, multivalued: true", "", "", "the same goes for"),
    "declared": (letters, "column: identity, num_buckets: 3", "  types:\n    col{}: string", "", "the same goes for"),
    "csv lists": (letters, "column: vocabulary", "  types:\n    col{}: int list", "", "the same goes for"),
    "crossed": (fractions, "column: numeric", "", "  x{}: {column: crossed, keys: [col{}, zone], hash_buckets: 9}", ""),
    "named": (fractions, "column: numeric", "", '  "a b{}": {column: numeric, key: col{}}', "the same goes for"),
    "slices": (fractions, "column: numeric", "", "evaluate:\n  slices:\n    - col{}", "becomes a slice"),
    "no slices": (fractions, "column: numeric", "", "evaluate:\n  slices:\n    - gone{}", "are not columns"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_several_columns_is_one_message_with_their_names_and_lines(
    mistake: str, caplog: pytest.LogCaptureFixture
) -> None:
    cell, feature, data, more, words = MISTAKES[mistake]
    for number, lines in ((1, ""), (2, "line {1}"), (3, "lines {1} and {2}"), (40, "lines {1} to {39}")):
        found = said(written(number, cell, feature, data, more), caplog)
        (message,) = found
        assert "(also in " in message or number == 1
        first = int(message.removeprefix("note: ").split(":")[1])
        places = range(first, first + number)
        assert number == 1 or message.endswith(f" (also in {lines.format(*places)})")
        assert number == 1 or words in message
        for place in range(1, min(number, 12)):
            assert any(f"{name}{place}" in message for name in ("col", "gone", "x", "a b"))


def test_columns_that_are_not_of_their_types_share_a_message(caplog: pytest.LogCaptureFixture) -> None:
    (problem,) = said(written(5, letters, "column: vocabulary", "  types:\n    fare: int\n    col{}: int"), caplog)
    assert all(f"trips.csv:2: column 'col{place}': 'a' is not an int" in problem for place in range(5))
    assert "column 'fare': '0.5' is not an int" in problem
    assert problem.count("Correct the value") == problem.count("`data.on_bad_record: skip`") == 1
    (problem,) = said(written(30, letters, "column: vocabulary", "  types:\n    col{}: int"), caplog)
    assert problem.endswith("there may be others")


def test_ways_out_that_differ_are_all_told(caplog: pytest.LogCaptureFixture) -> None:
    (problem,) = said(written(3, lambda row, place: "pqrstu"[place * 2 + row % 2], "column: numeric"), caplog)
    for name, values in (("col0", "p, q"), ("col1", "r, s"), ("col2", "t, u")):
        assert f'for "{name}", use {{column: vocabulary, values: [{values}]}}' in problem
    (note,) = said(written(3, lambda row, at: str(row % (8 + at)), "column: identity, num_buckets: 7"), caplog)
    assert 'for "col0", set `num_buckets: 8`; for "col1", set `num_buckets: 9`; for "col2", set' in note


def test_keys_with_one_mistake_are_all_named() -> None:
    text = CONFIG + "".join(
        f"  {name}: {{column: crossed, keys: [{keys}], hash_buckets: 9}}\n"
        for name, keys in (("x1", "zone, zone"), ("x2", "kind, kind"))
    )
    Path("c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load("c.yaml")
    (problem,) = map(str, caught.value.problems)
    assert says(problem, '…"zone" is listed twice…"x2" ("kind")')


def test_values_of_settings_with_one_mistake_are_all_told() -> None:
    text = CONFIG + "".join(
        f"  {name}: {{column: numeric, normalize: {how}}}\n" for name, how in zip("abc", "xyx", strict=True)
    )
    Path("c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load("c.yaml")
    (problem,) = map(str, caught.value.problems)
    assert 'found the string "x"' in problem
    assert 'the same goes for "b" ("y"), "c" (also in lines' in problem
    Path("c.yaml").write_text(text.replace("normalize: y", "normalize: 2.5"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load("c.yaml")
    (problem,) = map(str, caught.value.problems)
    assert 'the same goes for "b" (2.5), "c" (also in lines' in problem


def test_features_over_one_column_with_one_mistake_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    twice = "  again{}: {column: numeric, key: col{}}"
    first, second = said(written(3, letters, "column: numeric", more=twice), caplog)
    assert first.startswith('c.yaml:6: features.col0: columns "col0", "col1", "col2" hold text')
    assert second.startswith('c.yaml:10: features.again0: columns "col0", "col1", "col2" hold text')


def test_a_note_of_several_columns_is_told_if_one_of_them_has_a_mistake(caplog: pytest.LogCaptureFixture) -> None:
    text = written(3, lambda *_: "1", "column: vocabulary, values: [1]")
    assert len(said(text, caplog)) == 1
    note, problem = said(text.replace("values: [1]", "values: [x]", 1), caplog)
    assert 'columns "col0", "col1", "col2" have the same value' in note
    assert problem.startswith("c.yaml:6: features.col0.values: ")


def test_tasks_without_labels_share_a_message(caplog: pytest.LogCaptureFixture) -> None:
    text = written(3, lambda row, place: "" if row <= place else str(row % 2), "column: numeric")
    (problem,) = said(with_tasks(text, 3), caplog)
    assert problem.startswith("c.yaml:7: label.tasks.col0")
    assert "missing in 1 of the first 60 rows" in problem
    assert "; likewise label.tasks.col1.key (2 rows), label.tasks.col2.key (3 rows)" in problem
    assert problem.endswith("(also in lines 8 and 9)")


def test_tasks_with_other_classes_have_their_own_ways_out(caplog: pytest.LogCaptureFixture) -> None:
    found = said(with_tasks(written(2, lambda row, place: str(5 + 2 * place + row % 2), "column: numeric"), 2), caplog)
    assert len(found) == 2
    assert says(found[0], "c.yaml:7: label.tasks.col0.kind: …set `classes: [5, 6]`")
    assert says(found[1], "c.yaml:8: label.tasks.col1.kind: …set `classes: [7, 8]`")


def with_tasks(text: str, number: int) -> str:
    """The config with so many columns as binary tasks in lines of their own, from line 7 on, in place of features."""
    tasks = "".join(f"    col{place}: {{kind: binary}}\n" for place in range(number))
    head, _, rest = text.partition("label:")
    features = "  fare: {column: numeric}\n" + rest.partition("  fare: {column: numeric}\n")[2]
    return f"{head}label:\n  kind: multitask\n  tasks:\n{tasks}features:\n{features}"
