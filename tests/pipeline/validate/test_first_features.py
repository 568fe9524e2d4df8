"""Features that cannot use the first rows, and those from which nothing can be learned."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import says
from trips_folder import CONFIG
from validated import ROWS, noted, reported, rows

from headrace.components.inference.dates import constant_part
from headrace.components.inference.facts import facts_of
from headrace.configs.schema.features.calendar import Part

EMPTY = "  void: {column: numeric}\n"


def with_feature(settings: str) -> str:
    return CONFIG.replace("{column: numeric}", f"{{{settings}}}")


@pytest.mark.parametrize(
    ("feature", "place", "way"),
    [
        ("column: identity, num_buckets: 99", "", "takes integers; …bucketized"),
        ("column: vocabulary", "", "takes integers or texts; …bucketized"),
        ("column: hashed, hash_buckets: 9", "", "takes integers or texts; …bucketized"),
        ("column: text", "", "takes integers or texts; …numeric"),
    ],
)
def test_fractions_where_a_feature_takes_categories_are_refused(feature: str, place: str, way: str) -> None:
    rows(*(f"{row}.5,{row % 2},{row % 3}" for row in ROWS), header="fare,tip,tip2")
    (problem,) = reported(with_feature(feature))
    assert problem.startswith(f'c.yaml:6: features.fare{place}: column "fare" holds numbers with fractions')
    assert says(problem, f"…{way}")


def test_fractions_in_a_cross_are_refused_at_their_key() -> None:
    rows(*(f"{row}.5,{row % 2},{row % 3}" for row in ROWS), header="fare,tip,day")
    config = CONFIG.replace("  fare: {column: numeric}", "  x: {column: crossed, keys: [day, fare], hash_buckets: 9}")
    (problem,) = reported(config)
    assert problem.startswith('c.yaml:6: features.x.keys[1]: column "fare" holds numbers with fractions')
    assert "{column: bucketized, key: fare, buckets: 10}" in problem


def test_a_cross_may_have_a_bucketized_feature_over_fractions() -> None:
    rows(*(f"{row}.5,{row % 2},{row % 3}" for row in ROWS), header="fare,tip,tip2")
    config = with_feature("column: bucketized, buckets: 4")
    assert reported(f"{config}  x: {{column: crossed, keys: [fare, tip2], hash_buckets: 9}}\n") == []


def test_whole_numbers_that_are_stored_as_floats_are_told_how_to_become_integers() -> None:
    pq.write_table(pa.table({"fare": [float(row % 5) for row in ROWS], "tip": [0, 1] * 30, "n": ROWS}), "trips.parquet")
    config = with_feature("column: identity, num_buckets: 5").replace(
        "csv, path: trips.csv", "parquet, path: trips.parquet"
    )
    (problem,) = reported(config)
    assert 'column "fare" holds floats such as 0.0, ' in problem
    assert "`data.types.fare: int`" in problem
    assert reported(config.replace("label:", "  types: {fare: int}\nlabel:")) == []


def test_text_where_a_feature_takes_integers_is_refused() -> None:
    rows(*(f"{'abc'[row % 3]},{row % 2},{row}" for row in ROWS), header="fare,tip,n")
    (problem,) = reported(with_feature("column: identity, num_buckets: 3"))
    assert problem.startswith("c.yaml:6: features.fare: column \"fare\" holds texts such as 'a', ")
    assert "vocabulary" in problem


def test_many_columns_of_fractions_are_in_one_message() -> None:
    names = [f"c{number}" for number in range(5)]
    rows(*(",".join([*[f"{row}.5"] * 5, str(row % 2)]) for row in ROWS), header=",".join([*names, "tip"]))
    features = "".join(f"  {name}: {{column: vocabulary}}\n" for name in names)
    (problem,) = reported(CONFIG.replace("  fare: {column: numeric}\n", features))
    assert problem.startswith('c.yaml:6: features.c0: columns "c0", "c1", "c2", "c3", "c4" hold numbers with fractions')


def test_fractions_that_later_rows_may_turn_into_texts_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row % 50}.5,{row % 2}" if row < 600_000 else "A,0" for row in range(600_500)))
    (note,) = noted(with_feature("column: vocabulary"), caplog)
    assert note.startswith('note: c.yaml:6: features.fare: column "fare" holds numbers with fractions')


def test_the_fractions_of_a_typed_file_are_refused_however_long_it_is() -> None:
    count = 300_000
    pq.write_table(pa.table({"fare": [row / 2 for row in range(count)], "tip": [0, 1] * (count // 2)}), "trips.parquet")
    config = with_feature("column: vocabulary").replace(
        "kind: csv, path: trips.csv", "kind: parquet, path: trips.parquet"
    )
    (problem,) = reported(config)
    assert problem.startswith("c.yaml:6: features.fare: ")


def test_a_column_without_values_is_refused_as_the_gate_would(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2}," for row in ROWS), header="fare,tip,void")
    (problem,) = reported(CONFIG + EMPTY)
    assert problem.startswith('c.yaml:7: features.void: column "void" has no value ')
    warned = CONFIG.replace("label:", "  on_anomaly: warn\nlabel:") + EMPTY
    assert reported(warned) == []
    (note,) = noted(warned, caplog)
    assert note.startswith('note: c.yaml:8: features.void: column "void" has no value')


def test_a_column_without_values_in_the_first_rows_of_many_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{'' if row < 200_000 else row}" for row in range(200_500)), header="fare,tip,void")
    (note,) = noted(CONFIG + EMPTY, caplog)
    assert note.startswith('note: c.yaml:7: features.void: column "void" has no value ')


@pytest.mark.parametrize(
    ("feature", "values", "words"),
    [
        ("column: numeric", "7", "the same value in all of the first 60 rows, 7"),
        ("column: vocabulary", "x", "the same value in all of the first 60 rows, x"),
        ("column: numeric", "7, , 7", ""),
        ("column: vocabulary", "C{row}", "60 different values in 60 rows, such as C0"),
        ("column: hashed, hash_buckets: 9", "C{row}", "60 different values in 60 rows"),
        ("column: vocabulary", "{row}", "60 different values in 60 rows, such as 0"),
        ("column: vocabulary", "a, b, C{row}, D{row}", ""),
        ("column: vocabulary, values: [C0, C1]", "C{row}", ""),
        ("column: identity, num_buckets: 3", "0, 1, 2, 3, 4", "has 3, 4, 24 times in the first 60…`num_buckets: 5`"),
        ("column: identity, num_buckets: 5", "0, 1, 2, 3, 4", ""),
        ("column: identity, num_buckets: 5", "-1, 0, 1, 2, 3", "has -1, 12 times …use `column: vocabulary`"),
        (
            "column: identity, num_buckets: 9",
            "0, 500, 700",
            "has 500, 700, 40 …`num_buckets: 701`, or use `column: voc",
        ),
        ("column: datetime, part: hour", "2026-11-02, 2026-12-03", "without hours, such as 2026-11-02, …`part: hour`"),
        ("column: datetime, part: hour", "2026-11-02 00:00, 2026-11-03 00:00", "without hours"),
        ("column: datetime, part: hour", "2026-11-02 07:00, 2026-11-03 07:10", "the same hour"),
        ("column: datetime, part: hour", "2026-11-02 07:00, 2026-11-02 08:00", ""),
        ("column: datetime, part: hour", "2026-11-02T07:00Z, 2026-11-02T07:00-08:00", ""),
        ("column: datetime, part: year", "2026-11-02, 2026-12-03", "such as 2026-11-02, all with the same year"),
        ("column: datetime, part: weekday", "2026-11-01, 2026-12-01", ""),
        ("column: datetime, part: hour, format: epoch_days", "20000, 20001", "without hours"),
        ("column: datetime, part: hour, format: epoch_s", "1795459564, 1795479564", ""),
    ],
)
def test_what_has_nothing_to_learn_from_is_noted_with_the_reason(
    feature: str, values: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """values: of the rows in turn."""
    given = [value.strip() for value in values.split(",")]
    rows(*(f"{given[row % len(given)].format(row=row)},{row // 7 % 2},{row}" for row in ROWS), header="fare,tip,n")
    notes = noted(with_feature(feature), caplog)
    assert len(notes) == bool(words)
    for note in notes:
        assert note.startswith("note: c.yaml:6: features.fare: ")
        assert '"fare"' in note
        assert says(note, f"…{words}")


@pytest.mark.slow
def test_ids_are_told_from_values_that_come_again_further_on(caplog: pytest.LogCaptureFixture) -> None:
    """Of many rows, the first ones may have mostly different values although all of them come again."""
    rows(*(f"U{row},{row % 2}" for row in range(300_000)))
    (note,) = noted(with_feature("column: vocabulary"), caplog)
    assert "different values" in note
    rows(*(f"U{max(row, 1000)},{row % 2}" for row in range(300_000)))
    assert noted(with_feature("column: vocabulary"), caplog) == []


def test_many_constant_columns_are_in_one_note(caplog: pytest.LogCaptureFixture) -> None:
    names = [f"c{number}" for number in range(20)]
    rows(*(",".join([*["7"] * 20, str(row % 2), str(row)]) for row in ROWS), header=",".join([*names, "tip", "n"]))
    features = "".join(f"  {name}: {{column: numeric}}\n" for name in names)
    (note,) = noted(CONFIG.replace("  fare: {column: numeric}\n", features), caplog)
    assert note.startswith('note: c.yaml:6: features.c0: columns "c0", "c1", ')
    assert '"c11" and 8 more have the same value ' in note


def test_json_lines_of_lists_are_checked_too(caplog: pytest.LogCaptureFixture) -> None:
    lines = (json.dumps({"fare": [row % 3, row % 7], "tip": row % 2, "n": row}) for row in ROWS)
    Path("trips.jsonl").write_text("\n".join(lines), encoding="utf-8")
    config = CONFIG.replace("kind: csv, path: trips.csv", "kind: jsonl, path: trips.jsonl")
    (note,) = noted(config.replace("numeric", "identity, num_buckets: 3, multivalued: true"), caplog)
    assert 'column "fare" has 3, 4, 5 and 6, ' in note or 'column "fare" has 3, 4, 5, 6, ' in note
    assert "set `num_buckets: 7`" in note


@given(
    st.lists(st.datetimes(dt.datetime(1000, 1, 1)), min_size=1, max_size=8),
    st.sampled_from(["year", "month", "day", "hour"]),
)
def test_a_part_is_called_constant_just_if_it_is(times: list[dt.datetime], part: Part) -> None:
    texts = pa.chunked_array([[when.strftime("%d.%m.") + f"{when.year:04} {when:%H:%M}" for when in times]])
    found = constant_part(facts_of("day", "string", texts), part, "%d.%m.%Y %H:%M")
    values = {getattr(when, part) for when in times}
    assert (found is not None) == (len(values) == 1)
    if found is not None:
        assert int(found or 0) == values.pop()
