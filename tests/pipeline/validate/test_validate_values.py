"""Values and types that a run would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trips_folder import CONFIG
from validated import reported, source

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.loading.loader import load_with_locations

ONE, SEVERAL = {"fare": [1.5], "hour": 3, "tip": 0}, {"fare": [2.5, 3.5], "hour": 3, "tip": 1}


def with_lists(kind: str, rows: list[dict[str, object]]) -> str:
    """A config over these rows, forty times, in a file of that kind."""
    tips = [{} if isinstance(row.get("tip"), list) else {"tip": number % 2} for number, row in enumerate(rows * 40)]
    rows = [{**row, **tip, "n": number} for number, (row, tip) in enumerate(zip(rows * 40, tips, strict=True))]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), "trips.parquet")
    else:
        Path("trips.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return CONFIG.replace("kind: csv, path: trips.csv", f"kind: {kind}, path: trips.{kind}")


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_lists_under_a_number_are_reported_at_the_feature_with_the_ways_out(kind: str) -> None:
    (problem,) = reported(with_lists(kind, [ONE, SEVERAL]))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds lists ')
    assert "multivalued" in problem
    assert "column: custom" in problem


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_lists_of_texts_under_a_number_are_reported_once_with_the_feature_that_reads_them(kind: str) -> None:
    (problem,) = reported(with_lists(kind, [{"fare": ["a", "b"]}, {"fare": ["a"]}, {"fare": ["c"]}]))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds lists of texts ')
    assert "{column: vocabulary, top_k: 1000, multivalued: true}" in problem


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_lists_in_the_label_are_reported_there(kind: str) -> None:
    (problem,) = reported(with_lists(kind, [{"fare": 1.5, "tip": [0, 1]}, {"fare": 2.5, "tip": [1]}]))
    assert problem.startswith('c.yaml:4: label.key: column "tip" holds lists ')


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([ONE, ONE], "numeric"),
        ([{"fare": [1]}, {"fare": [2, 3]}], "hashed, hash_buckets: 5, multivalued: true"),
        ([{"fare": None}, {"fare": []}, {"fare": [1.5]}], "numeric"),
    ],
    ids=["lists of one", "a feature of lists", "empty lists"],
)
def test_lists_that_lose_nothing_are_not_a_problem(kind: str, rows: list[dict[str, object]], column: str) -> None:
    assert reported(with_lists(kind, rows).replace("numeric", column)) == []


def test_lists_are_let_through_where_the_gate_only_warns() -> None:
    assert reported(with_lists("jsonl", [ONE, SEVERAL]).replace("label:", "  on_anomaly: warn\nlabel:", 1)) == []


def test_many_absent_columns_are_in_one_message_at_the_first() -> None:
    features = "".join(f"  fare{number}: {{column: numeric}}\n" for number in range(150))
    (problem,) = reported(CONFIG.replace("  fare: {column: numeric}\n", features))
    assert problem.startswith('c.yaml:6: features.fare0: "fare0", "fare1", ')
    assert '"fare11" and 138 more are not columns of the data' in problem
    assert 'did you mean "fare"?' in problem


def refusal_of_a_run() -> str:
    """What ExampleGen says of the same data."""
    config = load_with_locations("c.yaml").config
    with pytest.raises(DataError) as caught:
        ingest(config.data, find_spans(config.data), Path("out"), lambda _work: serial_map)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "parquet"])
def test_a_number_beyond_float32_is_reported_in_the_words_of_the_run(kind: str) -> None:
    text = source(kind, [1.5, 2.5, 1e39, 3.5] * 100)
    (problem,) = reported(text)
    assert problem == f"c.yaml:3: data.source.path: {refusal_of_a_run()}"
    assert "1e+39" in problem
    assert reported(source(kind, [1.5, 2.5, 1e39, 3.5] * 100, on_bad_record="skip")) == []


@pytest.mark.parametrize(
    ("fares", "types", "place"),
    [
        ([1.5, "abc"], {"fare": "float"}, "fares.csv:3: column 'fare': 'abc' is not a float"),
        ([1, 1.5], {"fare": "int"}, "fares.csv:3: column 'fare': '1.5' is not an int"),
        ([1.5, "2,7"], {}, "fares.csv:3: the row has 3 fields"),
    ],
)
def test_a_record_that_a_run_refuses_is_reported_with_its_line(fares: list[object], types: object, place: str) -> None:
    text = source("csv", fares, types=types)
    (problem,) = reported(text)
    assert problem == f"c.yaml:3: data.source.path: {refusal_of_a_run()}"
    assert place in problem


@pytest.mark.parametrize("feature", ["{column: numeric}", "{column: bucketized, buckets: 3}"])
@pytest.mark.parametrize(
    ("kind", "fares", "place"),
    [
        ("csv", [1.5, "N/A", 2.5], "fares.csv:3: column 'fare': 'N/A' is not a float"),
        ("csv", ["007", "008"], "set `data.types.fare: float`"),
        ("jsonl", ["1.5", "x"], "fares.jsonl:1: column 'fare'"),
        ("json", ["1.5", "x"], "fares.json:2: column 'fare'"),
        ("parquet", ["1.5", "x"], "row 1 of row group 0"),
        ("parquet", ["1.5", "2.5"], "set `data.types.fare: float`"),
    ],
)
def test_text_where_a_feature_needs_numbers_is_reported_at_the_feature_with_its_first_value(
    kind: str, fares: list[object], place: str, feature: str
) -> None:
    (problem,) = reported(source(kind, fares).replace("{column: numeric}", feature))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds text')
    assert place in problem


def test_text_as_the_label_of_a_regression_is_reported_at_the_label() -> None:
    text = source("csv", [1.5, "x"]).replace("{key: tip, kind: binary}", "{key: fare, kind: regression}")
    (problem,) = reported(text.replace("  fare: {column: numeric}", "  tip: {column: numeric}"))
    assert problem.startswith('c.yaml:4: label.key: column "fare" holds text, ')
    assert "fares.csv:3" in problem


def test_infinite_numbers_are_reported_unless_they_only_warn() -> None:
    (problem,) = reported(source("csv", [1.5, "1e999", "2.5"]))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds inf')
    assert reported(source("csv", [1.5, "1e999", "2.5"], on_anomaly="warn")) == []


def test_a_column_of_numbers_that_may_become_text_further_on_is_not_refused() -> None:
    """Two spans: the newest holds a number beyond float32 in a column that no feature reads, the other one texts."""
    for day, note in (("2026-01-01", "x"), ("2026-01-02", "1e39")):
        Path(f"{day}.csv").write_text(f"fare,note,tip\n1.5,{note},0\n", encoding="utf-8")
    config = CONFIG.replace("trips.csv", "'{YYYY}-{MM}-{DD}.csv'")
    assert reported(config.replace("label:", "  window: 2\nlabel:")) == []
    (problem,) = reported(config)
    assert "'note'" in problem


def test_columns_that_are_not_read_are_not_looked_at() -> None:
    rows = "".join(f"{row}.5,1e39,{row % 2}\n" for row in range(40))
    Path("trips.csv").write_text(f"fare,note,tip\n{rows}", encoding="utf-8")
    assert "'note'" in reported(CONFIG)[0]
    assert reported(CONFIG.replace("label:", "  columns: used\nlabel:")) == []


@pytest.mark.slow
def test_a_mistake_beyond_the_first_megabytes_is_left_to_the_run() -> None:
    assert reported(source("csv", [*range(600_000), "abc"])) == []
    (problem,) = reported(source("csv", [*range(60_000), "abc"]))
    assert "fares.csv:60002" in problem


@pytest.mark.parametrize("where", ["another file", "the end of the file"])
def test_json_lines_that_contradict_the_first_ones_are_found(where: str) -> None:
    value, other = (json.dumps({"fare": fare, "tip": 1}) + "\n" for fare in (1.5, {"net": 1.5}))
    rows = value + value.replace("1}", "0}")
    if where == "another file":
        for number in range(30):
            Path(f"fares-{number:02}.jsonl").write_text(rows if number < 29 else other, encoding="utf-8")
    else:
        Path("fares-00.jsonl").write_text(rows * 100_000 + other, encoding="utf-8")
    (problem,) = reported(CONFIG.replace("{kind: csv, path: trips.csv}", "{kind: jsonl, path: 'fares-*.jsonl'}"))
    file, line = ("29", 1) if where == "another file" else ("00", 200_001)
    assert f"fares-{file}.jsonl:{line}: column 'fare': is an object here" in problem
