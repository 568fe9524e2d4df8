"""How many of the first rows are looked at, before anything runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trips_folder import CONFIG, headrace
from validated import noted, reported

Row = dict[str, object]

FARES = "".join(f"{row}.5,{row // 3 % 2}\n" for row in range(80))
CLASSES = CONFIG.replace("kind: binary}", "kind: binary, classes: ['0', '1']}")
BAD = 8000
"""The number of the row, from 0, whose label is none of the classes."""


def wide(number: int, bad: int = BAD) -> list[Row]:
    """Rows of about 800 bytes, so that 2 MB of them are 2,600."""
    note = "words that no feature reads " * 28
    label = {bad: "2"}
    return [
        {"fare": row + 0.5, "note": f"{row}{note}", "tip": label.get(row, str(row // 3 % 2))} for row in range(number)
    ]


def as_csv(rows: list[Row], path: str) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)


def as_jsonl(rows: list[Row], path: str) -> None:
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def as_json(rows: list[Row], path: str) -> None:
    Path(path).write_text(json.dumps(rows), encoding="utf-8")


def as_parquet(rows: list[Row], path: str) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1500)


def as_datasets(rows: list[Row], path: str) -> None:
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1500)


def as_avro(rows: list[Row], path: str) -> None:
    fields = [{"name": "fare", "type": "double"}, {"name": "note", "type": "string"}, {"name": "tip", "type": "string"}]
    with Path(path).open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, rows)


KINDS = {
    "csv": (as_csv, "csv"),
    "jsonl": (as_jsonl, "jsonl"),
    "json": (as_json, "json"),
    "parquet": (as_parquet, "parquet"),
    "datasets": (as_datasets, "arrow"),
    "avro": (as_avro, "avro"),
}


@pytest.mark.parametrize(("kind", "write", "ending"), [(kind, *how) for kind, how in KINDS.items()])
def test_ten_thousand_wide_rows_are_looked_at(kind: str, write: Callable[[list[Row], str], None], ending: str) -> None:
    config = CLASSES.replace("csv, path: trips.csv", f"{kind}, path: wide.{ending}")
    write(wide(12_000), f"wide.{ending}")
    (problem,) = reported(config)
    assert problem.startswith("c.yaml:4: label.classes: the data has 2, but the classes are 0, 1")
    write(wide(13_000, bad=12_900), f"wide.{ending}")
    assert reported(config) == []


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_rows_are_those_of_several_files(kind: str) -> None:
    rows, config = wide(9000), CLASSES.replace("csv, path: trips.csv", f"{kind}, path: 'day-*.{kind}'")
    for number in range(7):
        KINDS[kind][0](rows[number * 1500 : (number + 1) * 1500] or rows[:1], f"day-{number}.{kind}")
    (problem,) = reported(config)
    assert problem.startswith("c.yaml:4: label.classes: the data has 2, but the classes are 0, 1")


def test_a_file_with_other_columns_than_the_first_is_found(caplog: pytest.LogCaptureFixture) -> None:
    config = CONFIG.replace("trips.csv", "'day-*.csv'")
    for number, header in enumerate(("fare,tip", "fare,tip", "price,tip")):
        Path(f"day-{number}.csv").write_text(f"{header}\n" + FARES, encoding="utf-8")
    (problem,) = reported(config)
    assert "day-2.csv" in problem
    Path("day-2.csv").write_text("fare,tip\n" + FARES, encoding="utf-8")
    assert noted(config, caplog) == []


@pytest.mark.parametrize(
    ("rows", "bytes_of_a_row", "seen"),
    [
        (10_000, 400, "looked at all 10,000 rows"),
        (20_000, 400, "looked at the first 10,4?? rows; a run checks the others"),
        (400, 250_000, "looked at the first 14? rows; a run checks the others"),
    ],
)
def test_how_many_rows_were_looked_at_is_said(here: Path, rows: int, bytes_of_a_row: int, seen: str) -> None:
    text = "x" * (bytes_of_a_row - 10)
    lines = "".join(f"{row + 100_000}.5,{row // 3 % 2},{text}\n" for row in range(rows))
    (here / "trips.csv").write_text(f"fare,tip,note\n{lines}", encoding="utf-8")
    (here / "c.yaml").write_text(CONFIG, encoding="utf-8")
    done = headrace(here, "validate", "c.yaml")
    first, second, *_ = done.stdout.splitlines()
    assert first == "c.yaml: the config is valid and fits the data (1 feature, label tip)"
    assert fnmatch(second, f"rows: {seen}")


def test_rows_of_spans_and_splits_are_named(here: Path) -> None:
    for day in (1, 2):
        rows = "".join(f"{row}.5,{row // 3 % 2}\n" for row in range(100 * day))
        (here / f"2026-01-0{day}.csv").write_text(f"fare,tip\n{rows}", encoding="utf-8")
    (here / "c.yaml").write_text(CONFIG.replace("trips.csv}", "'{YYYY}-{MM}-{DD}.csv'}\n  window: 2"), encoding="utf-8")
    lines = headrace(here, "validate", "c.yaml").stdout.splitlines()
    assert lines[1] == ("rows: looked at all 200 rows of 2026-01-02, the newest of 2 spans; a run checks the others")
    own = "{train: 2026-01-01.csv, eval: 2026-01-02.csv}"
    (here / "c.yaml").write_text(CONFIG.replace("trips.csv", own), encoding="utf-8")
    lines = headrace(here, "validate", "c.yaml").stdout.splitlines()
    assert lines[1] == "rows: looked at all 100 rows of train, all 200 rows of eval"
