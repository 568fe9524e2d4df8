"""Reading databases: a real PostgreSQL and SQLite, compared with what their own drivers read."""

import contextlib
import datetime as dt
import sqlite3
from functools import partial
from pathlib import Path

import apache_beam as beam
import postgres
import psycopg
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from databases import KEYED, ROWS, config, read, source_of, sqlite_of_trips, written

from headrace.common.errors import DataError
from headrace.components.example_gen.beam_map import BeamMap, local_threads
from headrace.components.example_gen.span_store import SpanStore
from headrace.components.sources import open_source, serial_map
from headrace.components.sources.base import HasBooleans
from headrace.components.spans.find import find_spans
from headrace.components.spans.source_state import source_state
from headrace.configs.schema.sources import SqlSource


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    return sqlite_of_trips(tmp_path)


def test_a_postgresql_table_reads_as_its_own_driver_reads_it(server: postgres.Server) -> None:
    with psycopg.connect(server.conninfo) as connection:
        expected = connection.execute("select * from trips order by id").fetchall()
    kinds, rows = read(source_of(server, table="trips", key="id"))
    assert [*kinds.values()] == [
        *("int", "string", "float", "int", "string", "string"),
        *("int list", "string list", "bytes", "string", "float", "float"),
    ]
    assert len(rows) == ROWS
    for found, (key, name, fare, paid, day, at, stops, tags, raw, extra, ratio, nothing) in zip(
        rows, expected, strict=True
    ):
        assert found[:4] == (key, name, float(fare), int(paid))
        assert dt.date.fromisoformat(found[4]) == day
        assert dt.datetime.fromisoformat(found[5]) == at
        assert found[6:9] == (stops, tags, raw)
        assert found[9] == f'{{"n": {extra["n"]}}}'
        assert found[10:] == (ratio, nothing)


def test_the_columns_of_booleans_are_known(server: postgres.Server) -> None:
    for source in (source_of(server, table="trips"), source_of(server, query="select paid, id > 5 as late from trips")):
        opened = open_source(source)
        assert isinstance(opened, HasBooleans)
        assert opened.booleans() == ({"paid"} if source.table else {"paid", "late"})


def test_parallel_ranges_read_what_one_reader_reads(server: postgres.Server) -> None:
    query = (
        "select * from trips where \"Odd \"\"Name; --\" like 'x%:y%' and stops::text <> '12:30 :x' order by id -- all"
    )
    _, one = read(source_of(server, query=f"{query}\n;"))
    opened = open_source(source_of(server, query=query, key="id", ranges=7))
    counted = [part.rows for part in opened.parts(serial_map)]
    assert read(source_of(server, query=query, key="id", ranges=7))[1] == one
    assert len(counted) == 7
    assert sum(counted) == len(one) == ROWS - ROWS // 7
    assert max(counted) < 3 * min(counted), "the keys are squares, and the ranges still of about the same size"


@pytest.mark.parametrize(
    ("mode", "workers"), [("multi_threading", 2), pytest.param("multi_processing", 1, marks=pytest.mark.slow)]
)
def test_shards_are_the_same_bytes_by_any_workers(
    server: postgres.Server, tmp_path: Path, mode: str, workers: int
) -> None:
    """The process imports what it needs, which takes seconds; test_beam_direct.py has two at once, forked."""

    def parallel_map(work: Path) -> BeamMap:
        options = ["--runner=FnApiRunner", f"--direct_num_workers={workers}", f"--direct_running_mode={mode}"]
        make = partial(beam.Pipeline, options=PipelineOptions(options))
        return BeamMap(make, work, local_threads(make))

    source = source_of(server, table="trips", key="id", ranges=4)
    assert written(source, tmp_path / "a") == written(source, tmp_path / "b", parallel_map)


def test_rows_come_through_a_cursor_on_the_server_a_few_at_a_time(server: postgres.Server) -> None:
    opened = open_source(source_of(server, table="trips", key="id", ranges=1))
    (part,) = opened.parts(serial_map)
    batches = opened.batches(part, {"id": "int"})
    assert next(batches).num_rows < ROWS / 10
    with psycopg.connect(server.conninfo) as connection:
        asked = connection.execute("select query from pg_stat_activity where state = 'idle in transaction'").fetchall()
    assert any(query.startswith("FETCH FORWARD") for (query,) in asked)
    assert sum(batch.num_rows for batch in batches) < ROWS


def test_rows_without_a_key_are_read_too(server: postgres.Server) -> None:
    kinds, rows = read(source_of(server, table="other.keyed", key="k"))
    assert kinds == {"k": "int", "v": "string"}
    assert sorted(rows, key=str) == sorted([(1, "a"), (None, "b"), (1, "c"), (9, "d"), (None, "e")], key=str)


def test_all_readers_see_the_moment_of_the_first_look(server: postgres.Server) -> None:
    source = source_of(server, query="select k, v from other.keyed", key="k")
    opened = open_source(source)
    parts = opened.parts(serial_map)
    with psycopg.connect(server.conninfo) as connection:
        connection.execute("update other.keyed set v = 'new', k = 5")
        connection.commit()
        try:
            rows = [
                row for part in parts for batch in opened.batches(part, {"v": "string"}) for row in batch.to_pylist()
            ]
        finally:
            connection.execute(f"delete from other.keyed; {KEYED}")  # as it was, for whichever test comes next
    assert sorted(row["v"] for row in rows) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("key", [None, "id"])
def test_a_sqlite_table_reads_as_its_own_driver_reads_it(sqlite: Path, key: str | None) -> None:
    with contextlib.closing(sqlite3.connect(sqlite)) as connection:
        expected = connection.execute("select * from trips order by id").fetchall()
    kinds, rows = read(SqlSource(kind="sql", url=f"sqlite:///{sqlite}", table="trips", key=key))
    assert [*kinds.values()] == ["int", "string", "float", "int", "bytes", "missing"]
    assert rows == expected


def test_a_sqlite_that_changes_between_counting_and_reading_stops_the_run(sqlite: Path) -> None:
    opened = open_source(SqlSource(kind="sql", url=f"sqlite:///{sqlite}", table="trips", key="id"))
    parts = opened.parts(serial_map)
    with contextlib.closing(sqlite3.connect(sqlite)) as connection:
        connection.execute("insert into trips (id) values (100000)")
        connection.commit()
    with pytest.raises(DataError, match=r"changed while .*: [0-9]+ rows .*, but [0-9]+"):
        list(opened.batches(parts[-1], {"id": "int"}))


def test_a_value_that_changes_is_seen_by_the_fingerprint_query(sqlite: Path) -> None:
    changed = "select sum(fare) from trips"
    opened = open_source(SqlSource(kind="sql", url=f"sqlite:///{sqlite}", table="trips", fingerprint_query=changed))
    (part,) = opened.parts(serial_map)
    assert opened.scan(part, {}).rows
    with contextlib.closing(sqlite3.connect(sqlite)) as connection:
        connection.execute("update trips set fare = fare + 1 where id = 3")
        connection.commit()
    with pytest.raises(DataError, match="the data changed while it was read\n"):
        list(opened.batches(part, {"id": "int"}))


def test_the_fingerprint_is_what_its_query_gives(sqlite: Path) -> None:
    source = SqlSource(kind="sql", url=f"sqlite:///{sqlite}", table="trips")
    assert find_spans(config(source)).fingerprint != find_spans(config(source)).fingerprint
    source = source.model_copy(update={"fingerprint_query": "select count(*), max(fare) from trips;"})
    before = find_spans(config(source)).fingerprint
    assert before == find_spans(config(source)).fingerprint
    with contextlib.closing(sqlite3.connect(sqlite)) as connection:
        connection.execute("delete from trips where id = 3")
        connection.commit()
    assert find_spans(config(source)).fingerprint != before


def test_data_that_is_read_again_in_each_run_is_not_said_to_have_changed(sqlite: Path, tmp_path: Path) -> None:
    source = SqlSource(kind="sql", url=f"sqlite:///{sqlite}", table="trips")
    store = SpanStore(tmp_path / "store")
    store.remember(source_state(source) or ())
    assert list(store.changed(source_state(source) or ())) == []
    reported = source.model_copy(update={"fingerprint_query": "select 1"})
    store.remember(source_state(reported) or ())
    changed = reported.model_copy(update={"fingerprint_query": "select 2"})
    assert len(list(store.changed(source_state(changed) or ()))) == 1
