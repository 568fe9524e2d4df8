"""Mistakes of the config and of the data, reported at once."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import says
from trips_folder import CONFIG, headrace
from validated import noted, source

from headrace.common.errors import ConfigError
from headrace.pipeline.verbs.options import GivenConfig

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "source", "kind", "fare", "column", "keys"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def both(text: str, *overrides: str) -> list[str]:
    """All that `headrace validate` says."""
    Path("c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        GivenConfig(Path("c.yaml"), None, overrides).load(data=True)
    return [str(problem) for problem in caught.value.problems]


def test_mistakes_of_the_config_and_of_the_data_are_reported_at_once() -> None:
    text = CONFIG.replace("fare: {column: numeric}", "fair: {column: numeric, normalise: log}")
    data, form, rule, slices = both(text + "train: {epochs: many}\nevaluate: {slices: [zone]}\n")
    assert form.startswith("c.yaml:6: ")
    assert "normalise" in form
    assert rule.startswith("c.yaml:7: ")
    assert data.startswith('c.yaml:6: features.fair: "fair" ')
    assert data.endswith('; did you mean "fare"?')
    assert slices.startswith("c.yaml:8: evaluate.slices[0]")


def test_values_that_a_run_refuses_are_reported_along_with_mistakes_in_the_config() -> None:
    data, form = both(source("csv", [1.5, "abc"]) + "train: {epochs: 0}\n")
    assert "train.epochs" in form
    assert "fares.csv:3: column 'fare': 'abc' is not a float" in data


def test_mistakes_across_sections_do_not_hide_those_of_the_data() -> None:
    data, rule = both(CONFIG.replace("key: tip", "key: tips") + "evaluate: {metrics: [accuracy]}\n")
    assert "evaluate.metrics" in rule
    assert "label.key" in data


def test_a_feature_of_no_kind_is_reported_once_and_what_crosses_it_is_not() -> None:
    crossed = "  area: {column: numric}\n  both: {column: crossed, keys: [area, hour], hash_buckets: 9}\n"
    (problem,) = both(CONFIG + crossed)
    assert problem.startswith("c.yaml:7: ")


@pytest.mark.parametrize(
    "text",
    [
        CONFIG.replace("path: trips.csv", "path: trips.csv, delimiter: 7"),
        CONFIG.replace("kind: csv", "kind: cvs"),
        CONFIG.replace("  fare: {column: numeric}\n", "").replace("features:", "features: {}"),
        CONFIG + "traine: {epochs: 1}\n",
        "- a list\n",
        "a: [\n",
    ],
)
def test_a_mistake_that_leaves_it_open_what_is_read_is_reported_alone(text: str) -> None:
    """The data would be read otherwise than it is meant."""
    assert len(both(text.replace("fare:", "fair:") if "traine" not in text else text)) == 1


def columns_with_dates() -> None:
    rows = "".join(f"{row}.5,{row % 28 + 1}.11.2026,{'abc'[row % 3]},{row % 2}\n" for row in range(80))
    Path("trips.csv").write_text(f"fare,day,zone,tip\n{rows}", encoding="utf-8")


def places(text: str) -> list[str]:
    """The settings that `headrace validate` names, in the order of the file."""
    return [each.split(": ")[1] for each in both(text)]


FAIR = "  fair: {column: numeric}\n"
DAY = "  day: {column: datetime, part: weekday}\n"
WRONG = ["features.fair", "features.day"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("name: trips", "name: Trips", ["pipeline.name", *WRONG]),
        ("key: tip, ", "", ["label.key", *WRONG]),
        ("kind: binary", "kind: binry", ["label.kind", *WRONG]),
        ("kind: binary", "kind: multiclass", ["label", *WRONG]),
        ("key: tip, kind: binary", "key: tipp, kind: binry", ["label.key", "label.kind", *WRONG]),
        ("label:", "lable:", ["lable", *WRONG]),
        ("\nlabel", "\n  shufle_seed: 1\nlabel", ["data.shufle_seed", *WRONG]),
        ("\nlabel", "\n  foo: 1\n  split_key: zne\nlabel", ["data.foo", "data.split_key", *WRONG]),
        ("\nlabel", "\n  splits: {train: 1}\nlabel", ["data.splits", *WRONG]),
        ("\nlabel", "\n  types: {zone: txt}\nlabel", ["data.types.zone", *WRONG]),
        ("\nlabel", "\n  types: {zone: int}\nlabel", ["data.source.path", *WRONG]),
        ("\nlabel", "\n  types: 3\nlabel", ["data.types", "features.fair"]),
        ("\nlabel", "\n  delimiter: ;\nlabel", ["data.delimiter"]),
        ("part: weekday", "part: weekday, fromat: '%d.%m.%Y'", ["features.fair", "features.day.fromat"]),
        ("  fare: {column: numeric}\n", "  fare: &a {column: numeric}\n  fare: *a\n", ["features.fare", *WRONG]),
        ("  fare: {column: numeric}\n", "", WRONG),
    ],
)
@pytest.mark.parametrize("auto", ["", '  "z*": auto\n'])
def test_a_mistake_hides_those_of_the_data_that_do_not_follow_from_it(
    before: str, after: str, expected: list[str], auto: str
) -> None:
    columns_with_dates()
    assert places((CONFIG + FAIR + DAY + auto).replace(before, after, 1)) == expected


def test_what_selections_stand_for_is_checked_beside_mistakes_in_them() -> None:
    columns_with_dates()
    text = CONFIG.replace(
        "fare: {column: numeric}", '"f*": {column: numeric, normalise: log}\n  "d*": {column: numeric}'
    )
    assert places(text + '  "q*": {column: numeric}\ntrain: {epochs: x}\n') == [
        "features.f*.normalise",
        "features.day",
        "features.q*",
        "train.epochs",
    ]
    assert places(text.replace("binary", "auto").replace("tip", "nope") + "train: {epochs: x}\n") == [
        "label.key",
        "features.f*.normalise",
        "train.epochs",
    ]


def test_columns_with_one_mistake_share_a_message(caplog: pytest.LogCaptureFixture) -> None:
    rows = "".join(f"{row % 28 + 1}.11.2026;1 2 3;{row}.25;{row % 2}\n" for row in range(80))
    numbers = range(4)
    header = [f"{name}{number}" for name in ("day", "list", "size") for number in numbers]
    cells = [line.split(";") for line in rows.splitlines()]
    lines = [",".join([one for one in row[:3] for _ in numbers] + row[3:]) for row in cells]
    Path("trips.csv").write_text("\n".join([",".join([*header, "tip"]), *lines, ""]), encoding="utf-8")
    lists = "".join(f"  list{number}: {{column: vector, size: 3}}\n" for number in numbers)
    features = CONFIG.replace("  fare: {column: numeric}\n", "")
    for count in (2, 4):
        dates = "".join(f"  day{number}: {{column: datetime, part: weekday}}\n" for number in range(count))
        found = both(features + dates + lists)
        about_days, about_lists = ([one for one in found if word in one] for word in ("%d.%m.%Y", "separator"))
        assert [len(about_days), len(about_lists)] == [1, 1]
        assert 'columns "list0", "list1", "list2", "list3" hold texts such as \'1 2 3\'' in about_lists[0]
    assert 'columns "day0", "day1", "day2", "day3" hold values such as \'1.11.2026\'' in about_days[0]
    twice = "".join(f"  {part}: {{column: datetime, key: day0, part: {part}}}\n" for part in ("month", "year"))
    assert [one.split(": ")[1] for one in both(features + twice)] == ["features.month.key", "features.year.key"]
    sizes = "  size0: {column: numeric}\nevaluate: {slices: [size0, size1, size2, size3]}\n"
    (note,) = [one for one in noted(features + sizes, caplog) if "becomes a slice" in one]
    assert 'evaluate.slices[0]: columns "size0", "size1", "size2", "size3" have many values, the first 80' in note


MISFITS = "  day: {column: numeric}\n  nope: {column: numeric}\n"


@pytest.mark.parametrize(
    ("header", "row", "encoding", "expected"),
    [
        ("fare,day,Größe,tip", "", "cp1252", ["data.source.path"]),
        ("fare,day,day,tip", "", "utf-8", ["data.source.path"]),
        ("fare,day,,tip", "", "utf-8", ["data.source.path"]),
        ("tip,fare,day,Größe,Größe", "", "cp1252", ["data.source.path", "data.source.path"]),
        ("fare;day;zone;tip", "", "utf-8", ["data.source.delimiter"]),
        ("fare,day,zone,tip", "1.5,2", "utf-8", ["data.source.path"]),
        ("fare,day,zone,tip", "1.5,2026-11-01,zürich,1", "cp1252", ["data.source.path"]),
    ],
)
@pytest.mark.parametrize("auto", ["", '  "*": auto\n', '  "z*": auto\n'])
def test_what_keeps_rows_from_being_read_hides_no_other_mistake(
    header: str, row: str, encoding: str, expected: list[str], auto: str
) -> None:
    columns = header.replace(";", ",").split(",")
    cells = [{"fare": f"{n}.5", "day": f"2026-11-{n % 28 + 1:02}", "tip": f"{n % 2}"} for n in range(80)]
    rows = [",".join(given.get(name, "abc"[n % 3]) for name in columns) for n, given in enumerate(cells)]
    text = "\n".join([header, *rows[:9], *([row] if row else []), *rows[9:], ""])
    text = text if ";" not in header else text.replace(",", ";")
    Path("trips.csv").write_text(text, encoding=encoding)
    unmatched = [] if not auto.startswith('  "z') or "zone" in header else ["features.z*"]
    assert places(CONFIG + MISFITS + auto) == [*expected, "features.day", "features.nope", *unmatched]
    assert not Path("pipelines").exists()  # what was found in such data is not stored


def test_a_label_that_is_missing_is_reported_beside_a_header_that_cannot_be_read() -> None:
    """With `auto` too, which cannot find anything then."""
    Path("trips.csv").write_text(
        "fare,day,day,tip\n" + "".join(f"{row}.5,{row % 7},a{row % 3},{row % 2}\n" for row in range(80)),
        encoding="utf-8",
    )
    text = CONFIG.replace("key: tip", "key: tipp")
    for auto in ("", '  "*": auto\n'):
        assert places(text + auto + "  nope: {column: numeric}\n") == ["data.source.path", "label.key", "features.nope"]


@pytest.mark.parametrize("auto", ["", '  "*": auto\n'])
def test_all_rows_that_cannot_be_read_are_named_in_one_message(auto: str) -> None:
    lines = [f"{row}.5,{'abc'[row % 3]},{row % 2}" for row in range(200)]
    for line, bad in {5: "1", 9: "1", 30: "1,2,3,4", **dict.fromkeys(range(50, 58), "1")}.items():
        lines[line - 2] = bad
    Path("trips.csv").write_text("\n".join(["fare,zone,tip", *lines, ""]), encoding="utf-8")
    (message,) = both(CONFIG + auto)
    assert says(message, "…:5: the row has 1 field, …3 columns; …'zone': '1'\n")
    assert "  10 other records cannot be read:\n" in message
    assert "trips.csv:9, 50, 51, 52, 53, 54, 55, 56, 57: the row has 1 field" in message
    assert "trips.csv:30: the row has 4 fields" in message
    assert "delimiter" in message.split("\n")[1]
    assert message.split("\n")[2].endswith("`data.on_bad_record: skip`")
    assert message.count("\n") == 5


@pytest.mark.parametrize("every", [2, 4])
def test_a_bad_row_hides_no_column_whose_declared_type_many_values_are_not_of(every: int) -> None:
    lines = [f"{row}.5,{'x' if row % every == 0 else row},{row % 2}" for row in range(80)]
    lines[0] = "1"
    Path("trips.csv").write_text("\n".join(["fare,zone,tip", *lines, ""]), encoding="utf-8")
    text = CONFIG.replace("path: trips.csv}", "path: trips.csv}\n  types: {zone: int}")
    found = both(text + "  no: {column: numeric}\n")
    assert [("trips.csv:2: " in each, f"trips.csv:{every + 2}: " in each, "features.no" in each) for each in found] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert "`data.types.zone`" in found[1]


def test_more_bad_rows_than_a_message_lists_are_counted() -> None:
    lines = [f"{row}.5,x,{row % 2}" for row in range(400)]
    lines[::20] = ["1"] * 20
    Path("trips.csv").write_text("\n".join(["fare,zone,tip", *lines, ""]), encoding="utf-8")
    (message,) = both(CONFIG)
    assert "19 other records" in message
    assert message.endswith("\n  and 9 more")


@pytest.mark.parametrize(
    ("kind", "types", "place"),
    [
        ("csv", {}, "fares.csv:4: "),
        ("csv", {"fare": "float"}, "fares.csv:4: "),
        ("jsonl", {"fare": "float"}, "fares.jsonl:3: "),
        ("json", {"fare": "float"}, "fares.json:10: "),
        ("parquet", {}, "row 2 of row group 0"),
        ("parquet", {"fare": "float"}, "row 2 of row group 0"),
    ],
)
def test_all_values_that_are_not_numbers_are_named(kind: str, types: dict[str, str], place: str) -> None:
    texts: list[object] = ["0.5", "n/a", "n/a", "?", *(f"{row}.5" for row in range(36))]
    text = source(kind, texts if "json" not in kind else [0.5, *texts[1:4]], types=types)
    message = both(text)[0]
    assert "2 other records cannot be read:" in message
    assert place in message
    assert "?" in message.splitlines()[-1]


def test_a_column_of_numbers_and_texts_hides_no_mistake_whatever_type_is_declared() -> None:
    rows = [json.dumps({"fare": "?" if n == 40 else 1.5, "day": "mon", "tip": n % 2}) for n in range(80)]
    Path("trips.jsonl").write_text("\n".join(rows), encoding="utf-8")
    text = CONFIG.replace("kind: csv, path: trips.csv}", "kind: jsonl, path: trips.jsonl}\n  types: {fare: float}")
    number, day = both(text + "  day: {column: numeric}\n")
    assert "trips.jsonl:41: column 'fare': \"?\" is not a float" in number
    assert "features.day" in day


@pytest.mark.parametrize("auto", ["", '  "*": auto\n'])
def test_a_file_that_is_read_as_another_kind_is_one_mistake_however_many_lines_it_has(auto: str) -> None:
    rows = [{"fare": row + 0.5, "zone": "abc"[row % 3], "tip": row % 2} for row in range(40)]
    Path("trips.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (message,) = both(CONFIG.replace("kind: csv, path: trips.csv", "kind: jsonl, path: trips.json") + auto)
    assert "kind: json" in message
    assert "other record" not in message


def test_values_of_a_column_of_another_type_are_not_listed() -> None:
    columns_with_dates()
    (message,) = both(CONFIG.replace("label:", "  types: {zone: int}\nlabel:"))
    assert "other record" not in message


def test_a_column_of_lists_of_lists_hides_no_mistake_of_others() -> None:
    features = (
        CONFIG.replace("kind: csv, path: trips.csv", "kind: jsonl, path: trips.jsonl") + "  day: {column: numeric}\n"
    )
    rows = [json.dumps({"fare": n + 0.5, "day": "mon", "maps": [[n]], "tip": n % 2}) for n in range(80)]
    Path("trips.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert places(features) == ["data.source.path", "features.day"]


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("odd", [{"size": "12 m"}, {"size": {"value": 1}}, {"size": ["a", 1]}, {"user": 5}])
def test_records_that_contradict_others_hide_no_other_mistake(odd: dict[str, object], *, auto: bool) -> None:
    """Neither other records that cannot be read, nor what is wrong with other columns."""
    features = "  size: {column: numeric}\n  day: {column: numeric}\n" + ('  "*": auto\n' if auto else "")
    text = CONFIG.replace("kind: csv, path: trips.csv", "kind: jsonl, path: trips.jsonl") + features
    row: dict[str, object] = {"user": {"age": 3}, "fare": 1.5, "day": "mon", "size": 2}
    rows = [json.dumps({**row, "tip": n % 2, **(odd if n == 40 else {})}) for n in range(80)]
    Path("trips.jsonl").write_text("\n".join([*rows[:20], "oops", *rows[20:]]), encoding="utf-8")
    found = both(text)
    assert "features.day" in [each.split(": ")[1] for each in found]
    assert any("trips.jsonl:21: is not one JSON object" in each for each in found)
    assert any("trips.jsonl:42" in each for each in found), "the record that contradicts the others"


def test_a_column_of_lists_of_lists_hides_no_row_where_bad_ones_are_skipped() -> None:
    source = "on_bad_record: skip\n  max_bad_fraction: 0.1\n  source: {kind: jsonl, path: trips.jsonl}"
    text = CONFIG.replace("source: {kind: csv, path: trips.csv}", source) + '  "*": auto\n  day: {column: numeric}\n'
    rows = [
        json.dumps({"fare": n + 0.5, "day": "mon", "zone": "abc"[n % 3], "maps": [[n]], "tip": n % 2})
        for n in range(80)
    ]
    Path("trips.jsonl").write_text("\n".join([*rows[:20], "oops", *rows[20:]]), encoding="utf-8")
    assert places(text) == ["features.day"]


def test_names_in_an_encoding_that_was_only_guessed_are_not_held_against_the_config() -> None:
    """These letters are Cyrillic: in the encoding that is tried they are others."""
    rows = "".join(f"{row}.5,{row % 2}\n" for row in range(80))
    Path("trips.csv").write_text(f"fare,Чаевые\n{rows}", encoding="cp1251")
    for auto in ("", '  "*": auto\n', '  "Ч*": auto\n'):
        assert places(CONFIG.replace("key: tip", "key: Чаевые") + auto) == ["data.source.path"]
    rows = "".join(f"{row}.5,{row % 2},{row % 3}\n" for row in range(80))
    Path("trips.csv").write_text(f"fare,tip,Чаевые\n{rows}", encoding="cp1251")
    assert places(CONFIG + '  "Ч*": auto\n') == ["data.source.path"]


@pytest.mark.parametrize("auto", ["", '  "*": auto\n'])
def test_splits_in_two_encodings_are_reported_by_the_header_that_cannot_be_read(auto: str) -> None:
    paths = {split: f"{split}.csv" for split in ("train", "eval", "test")}
    for split, path in paths.items():
        rows = "".join(f"{row}.5,{row % 7},{row % 2}\n" for row in range(80))
        Path(path).write_text(f"fare,größe,tip\n{rows}", encoding="cp1252" if split == "eval" else "utf-8")
    features = "  size: {column: numeric, key: größe}\n"
    (message,) = both(CONFIG.replace("path: trips.csv", f"path: {json.dumps(paths)}") + features + auto)
    assert "eval.csv:1: the header is not UTF-8" in message


def test_columns_that_are_not_of_their_types_are_all_reported() -> None:
    columns_with_dates()
    types = "  types: {zone: int, day: float}\nlabel:"
    (problem,) = both(CONFIG.replace("label:", types))
    assert "trips.csv:2: column 'zone': 'a' is not an int" in problem
    assert "trips.csv:2: column 'day': '1.11.2026' is not a float" in problem
    assert says(problem, '…`data.types.zone: string`…; the same goes for "day"\n')
    assert problem.count("Correct the value") == 1


def test_a_number_of_tokens_is_no_secret() -> None:
    (problem,) = both(CONFIG + "  zone: {column: text, key: hour, max_tokens: 0}\n")
    assert "found the number 0; allowed: integer, at least 1" in problem


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["pipeline", "data", "label", "features", "train", "x"]), JSON, max_size=5))
def test_whatever_is_written_a_config_s_mistakes_are_reported_and_nothing_fails(values: dict[str, object]) -> None:
    assert both(json.dumps({"pipeline": {"name": "x"}, "label": {"key": "tip", "kind": "binary"}} | values))


def test_notes_are_shown_along_with_mistakes_and_before_them(caplog: pytest.LogCaptureFixture) -> None:
    rows = "".join(f"{row}.5,{row // 3 % 2},same,{row}\n" for row in range(150))
    Path("trips.csv").write_text(f"fare,tip,zone,id\n{rows}", encoding="utf-8")
    features = "  zone: {column: numeric}\n  id: {column: identity, num_buckets: 3}\n"
    with caplog.at_level(logging.WARNING, logger="headrace"):
        (mistake,) = both(CONFIG + features + "evaluate: {slices: [id]}\n")
    assert mistake.startswith('c.yaml:7: features.zone: column "zone" holds text')
    assert [note.partition(": column")[0] for note in caplog.messages] == [
        "note: c.yaml:8: features.id",
        "note: c.yaml:9: evaluate.slices[0]",
    ]


def test_notes_and_then_mistakes_are_what_a_reader_sees(here: Path) -> None:
    config = CONFIG.replace("kind: binary}", "kind: binary, classes: ['1', '2']}")
    (here / "c.yaml").write_text(f"{config}evaluate: {{slices: [fare]}}\n", encoding="utf-8")
    rows = "".join(f"{row}.5,{row // 3 % 2}\n" for row in range(150))
    (here / "trips.csv").write_text(f"fare,tip\n{rows}", encoding="utf-8")
    done = headrace(here, "validate", "c.yaml")
    first, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert first.startswith("note: c.yaml:7: evaluate.slices[0]: ")
    assert "c.yaml:4: label.classes: the data has 0" in last
