"""Every kind of source is looked at before a run, and each mistake is found there that a run would find."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from postgres import PASSWORD, binaries, server
from source_kinds import DATABASES, FILES, WITH_LISTS, Row, write, write_postgresql, write_sqlite

from headrace.common.errors import ConfigError
from headrace.pipeline.api import load_checked
from headrace.pipeline.verbs.local import validate

Given = Callable[[str, Sequence[Row]], dict[str, Any]]
KINDS = (*FILES, *DATABASES)


def trips(count: int, *, lists: bool = False) -> list[Row]:
    """Rows whose columns are fit for `GOOD`, and for mistakes."""
    return [
        {
            "fare": number + 0.25,
            "day": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}",
            "note": ("cash", "card", "both")[number % 3],
            "tip": number // 2 % 2,
            "fold": ("train", "train", "eval")[number % 3],
            **({"stops": [number, number + 1, number + 2]} if lists else {}),
        }
        for number in range(count)
    ]


GOOD = {
    "pipeline": {"name": "trips"},
    "label": {"key": "tip", "kind": "binary"},
    "features": {"fare": {"column": "numeric"}, "note": {"column": "vocabulary"}},
}
MISTAKES: dict[str, Any] = {
    "pipeline": {"name": "trips"},
    "label": {"key": "tip", "kind": "binary", "classes": ["no", "yes"]},
    "features": {
        "fare": {"column": "numeric"},
        "note": {"column": "numeric"},
        "day": {"column": "numeric"},
        "stops": {"column": "numeric"},
    },
    "evaluate": {"slices": ["fare"]},
}


@pytest.fixture(scope="module")
def postgresql() -> Any:
    if binaries() is None:
        pytest.skip("no PostgreSQL server under /usr/lib/postgresql: apt-get install postgresql")
    with server() as made:
        yield made


@pytest.fixture
def given(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    """Writes rows in a kind of source; returns `data.source`."""
    monkeypatch.chdir(tmp_path)

    def given(kind: str, rows: Sequence[Row], files: int = 1) -> dict[str, Any]:
        if kind == "postgresql":
            monkeypatch.setenv("DB_PASSWORD", PASSWORD)
            return write_postgresql(rows, request.getfixturevalue("postgresql"), "trips")
        return write_sqlite(rows, tmp_path / "trips.db") if kind == "sqlite" else write(kind, rows, Path("data"), files)

    return given


def problems(config: dict[str, Any], source: dict[str, Any], **data: Any) -> list[str]:
    """The messages of a check without their locations."""
    try:
        load_checked({**config, "data": {"source": source, **data}}, None, (), data=True)
    except ConfigError as error:
        return [problem.what for problem in error.problems]
    return []


@pytest.mark.parametrize("kind", KINDS)
def test_all_mistakes_of_a_config_are_found_at_once(kind: str, given: Given, caplog: pytest.LogCaptureFixture) -> None:
    rows = trips(60, lists=kind in WITH_LISTS)
    features = {name: one for name, one in MISTAKES["features"].items() if name in rows[0]}
    found = problems({**MISTAKES, "features": features}, given(kind, rows), split_column="fold")
    expected = {
        "data.splits: ": "split 'test' is empty",
        "label.classes: ": "the data has 0, 1, but the classes are no, yes",
        "features.note: ": 'column "note" holds text such as ',
        "features.day: ": 'column "day" holds dates such as 2026-01-01',
    }
    if kind in WITH_LISTS:
        expected["features.stops: "] = 'column "stops" holds lists of up to 3 values'
    assert len(found) == len(expected), found
    for where, what in expected.items():
        assert any(one.startswith(where) and what in one for one in found), (where, found)
    assert "60 different numbers with fractions in its first 60 rows" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_of_measurements_is_not_binary(kind: str, given: Given) -> None:
    config = {**GOOD, "label": {"key": "fare", "kind": "binary"}, "features": {"note": {"column": "vocabulary"}}}
    (found,) = problems(config, given(kind, trips(60)))
    assert "label.kind: the label has 60 different numbers, from 0.25 to 59.25" in found


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_config_is_silent(kind: str, given: Given, caplog: pytest.LogCaptureFixture) -> None:
    source = given(kind, trips(60))
    loaded = load_checked({**GOOD, "data": {"source": source}}, None, (), data=True)
    assert caplog.messages == []
    assert (loaded.rows_seen.by_split, loaded.rows_seen.whole) == ({"": 60}, frozenset({""}))


@pytest.mark.parametrize("kind", ["avro", "excel", "datasets", "tfrecord", "tfds"])
def test_eight_files_are_looked_at(kind: str, given: Any) -> None:
    rows = trips(90)
    rows[79] = {**rows[79], "tip": 7}  # in the last row of the eighth file
    (found,) = problems(GOOD, given(kind, rows, 9))
    assert "the data has 7, but the classes are 0, 1" in found
    rows[79], rows[80] = {**rows[79], "tip": 1}, {**rows[80], "tip": 7}
    assert problems(GOOD, given(kind, rows, 9)) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "tfrecord", "tfds", "arrays"])
def test_the_first_ten_thousand_rows_are_looked_at(kind: str, given: Given) -> None:
    loaded = load_checked({**GOOD, "data": {"source": given(kind, trips(25_000))}}, None, (), data=True)
    (rows,) = loaded.rows_seen.by_split.values()
    assert rows == 10_000 if kind in DATABASES else 10_000 <= rows < 25_000
    assert loaded.rows_seen.whole == frozenset()


@pytest.mark.parametrize("query", ["selec 1", "select nope from trips"])
@pytest.mark.parametrize("kind", DATABASES)
def test_a_wrong_query_is_the_mistake_that_a_run_reports(kind: str, query: str, given: Given) -> None:
    source = given(kind, trips(3))
    del source["table"]
    (found,) = problems(GOOD, {**source, "query": query})
    assert found.startswith("data.source: ")
    assert "the database reports an error: " in found


@pytest.mark.slow
def test_a_database_that_cannot_be_reached_is_noted(
    given: Given, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipeline.validate.PATIENCE", 1.0)
    source = given("postgresql", trips(3))
    with socket.socket() as silent:  # which takes connections, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for port, why in ((silent.getsockname()[1], "timeout"), (1, "refused")):
            url = f"postgresql+psycopg://reader@127.0.0.1:{port}/postgres"
            caplog.clear()
            start = time.monotonic()
            loaded = load_checked({**GOOD, "data": {"source": {**source, "url": url}}}, None, (), data=True)
            assert time.monotonic() - start < 20
            (note,) = caplog.messages
            assert "data.source: the data was not looked at: " in note
            assert "cannot connect to the database" in note
            assert why in note
            assert loaded.rows_seen.by_split == {}


@pytest.mark.slow
def test_a_query_that_takes_long_is_cancelled(
    given: Given, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipeline.validate.PATIENCE", 3.0)
    endless = "with recursive n(fare) as (select 1 union all select fare + 1 from n) select count(*) as fare from n"
    for kind in DATABASES:
        source = given(kind, trips(3))
        del source["table"]
        config = {**GOOD, "label": {"key": "tip", "kind": "binary"}, "features": {"fare": {"column": "numeric"}}}
        caplog.clear()
        query = f"select fare, 1 as tip from ({endless}) as rows_of_it"
        assert problems(config, {**source, "query": query}) == []
        (note,) = caplog.messages
        assert "not looked at: " in note
        assert "the database took too long to answer" in note


@pytest.mark.slow
def test_a_locked_database_is_noted(
    given: Given, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipeline.validate.PATIENCE", 0.5)
    source = given("sqlite", trips(3))
    with contextlib.closing(sqlite3.connect("trips.db")) as connection:
        connection.execute("begin exclusive")
        assert problems(GOOD, source) == []
    (note,) = caplog.messages
    assert "the data was not looked at: " in note
    assert "locked" in note


def test_each_split_of_a_database_is_looked_at(given: Given) -> None:
    source = given("sqlite", trips(60))
    del source["table"]
    columns = "select fare, note, tip"
    query = {"train": f"{columns} from trips where fare < 40", "eval": f"{columns} + 5 as tip from trips"}
    (found,) = problems(GOOD, {**source, "query": query})
    assert "label.kind: in the data of eval: the data has 5, 6, " in found


def test_validate_says_what_it_looked_at(given: Given) -> None:
    config = {**GOOD, "data": {"source": given("sqlite", trips(60))}}
    Path("c.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = CliRunner().invoke(validate, ["c.yaml"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "rows: looked at all 60 rows\n" in done.stdout
