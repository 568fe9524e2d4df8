"""Reading databases: a real PostgreSQL and SQLite, compared with what their own drivers read."""

import contextlib
import datetime as dt
import decimal
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apache_beam as beam
import postgres
import psycopg
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.example_gen.database.values import column_of, kind_of_values
from components.example_gen.find import find_spans
from components.example_gen.ingest import ingest
from components.example_gen.manifest import Manifest, Span
from components.example_gen.sources import Spread, Survey, in_place, open_source, state_of
from components.example_gen.span_store import SpanStore
from components.example_gen.spread import BeamSpread, threads_of
from configs.data import DataConfig
from configs.errors import DataError
from configs.overlay import setting
from configs.sources import SqlSource

ROWS = 5000
MADE = f"""
create table trips (
    id bigint primary key, "Odd ""Name; --" text, fare numeric(10, 3), paid boolean, day date, at timestamptz,
    stops int[], tags text[], raw bytea, extra jsonb, ratio float4, nothing float8);
insert into trips select i * i - 1000, case when i % 7 > 0 then 'x%:y ' || i end, i / 8.0, i % 2 = 0,
    date '2024-02-27' + i, timestamptz '2024-03-31 00:30:00+00' + i * interval '1 minute', array[i, i + 1],
    case when i % 3 = 0 then array['a', 'ü'] when i % 3 = 1 then array[]::text[] end,
    decode(lpad(to_hex(i), 8, '0'), 'hex'), jsonb_build_object('n', i), i / 4.0, null
from generate_series(1, {ROWS}) i;
create schema other; create table other.keyed (k int, v text);
insert into other.keyed values (1, 'a'), (null, 'b'), (1, 'c'), (9, 'd'), (null, 'e');
create table bare (v text);
"""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    if postgres.binaries() is None:
        pytest.skip("no PostgreSQL server under /usr/lib/postgresql: apt-get install postgresql")
    with postgres.server() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DB_PASSWORD", postgres.PASSWORD)
        with psycopg.connect(made.conninfo) as connection:
            connection.execute(MADE)
        yield made


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute('create table trips (id integer primary key, "na me" text, fare, flag bool, raw blob, n)')
        connection.executemany(
            "insert into trips values (?, ?, ?, ?, ?, ?)",
            [
                (i * 3, f"n{i}" if i % 5 else None, i / 4 if i % 2 else i, i % 2, bytes([i % 256]), None)
                for i in range(ROWS)
            ],
        )
        connection.commit()
    return path


def source_of(server: postgres.Server, **more: object) -> SqlSource:
    return SqlSource(kind="sql", url=server.url, password_env="DB_PASSWORD", **more)


def read(source: SqlSource, declared: dict | None = None) -> tuple[dict[str, str], list[tuple]]:
    opened = open_source(source)
    survey = sum((opened.survey(part, declared or {}) for part in opened.parts(in_place)), Survey())
    kinds = {**survey.kinds, **(declared or {})}
    rows = []
    for part in opened.parts(in_place):
        for batch in pickle.loads(pickle.dumps(opened)).batches(part, kinds):
            assert batch.schema.names == opened.columns()
            rows += [tuple(row.values()) for row in batch.to_pylist()]
    assert sum(survey.rows.values()) == len(rows)
    return dict(kinds), rows


def config(source: SqlSource, **more: object) -> DataConfig:
    return DataConfig.model_validate({"source": source.model_dump(), "splits": {"train": 2, "eval": 1}, **more})


def written(
    source: SqlSource, output: Path, make_spread: Callable[[Path], Spread] = lambda _work: in_place
) -> dict[str, bytes]:
    ingest(config(source), Manifest((Span(0, tuple(state_of(source) or ())),)), output, make_spread)
    return {path.name: path.read_bytes() for path in sorted(output.rglob("*.gz"))}


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


def test_parallel_ranges_read_what_one_reader_reads(server: postgres.Server) -> None:
    query = (
        "select * from trips where \"Odd \"\"Name; --\" like 'x%:y%' and stops::text <> '12:30 :x' order by id -- all"
    )
    _, one = read(source_of(server, query=f"{query}\n;"))
    opened = open_source(source_of(server, query=query, key="id", ranges=7))
    counted = [part.rows for part in opened.parts(in_place)]
    assert read(source_of(server, query=query, key="id", ranges=7))[1] == one
    assert len(counted) == 7
    assert sum(counted) == len(one) == ROWS - ROWS // 7
    assert max(counted) < 3 * min(counted), "the keys are squares, and the ranges still of about the same size"


@pytest.mark.parametrize("mode", ["multi_threading", pytest.param("multi_processing", marks=pytest.mark.slow)])
def test_shards_are_the_same_bytes_by_any_workers(server: postgres.Server, tmp_path: Path, mode: str) -> None:
    def spread(work: Path) -> BeamSpread:
        options = ["--runner=FnApiRunner", "--direct_num_workers=2", f"--direct_running_mode={mode}"]
        make = partial(beam.Pipeline, options=PipelineOptions(options))
        return BeamSpread(make, work, threads_of(make))

    source = source_of(server, table="trips", key="id", ranges=4)
    assert written(source, tmp_path / "a") == written(source, tmp_path / "b", spread)


def test_rows_without_a_key_are_read_too(server: postgres.Server) -> None:
    kinds, rows = read(source_of(server, table="other.keyed", key="k"))
    assert kinds == {"k": "int", "v": "string"}
    assert sorted(rows, key=str) == sorted([(1, "a"), (None, "b"), (1, "c"), (9, "d"), (None, "e")], key=str)


def test_all_readers_see_the_moment_of_the_first_look(server: postgres.Server) -> None:
    source = source_of(server, query="select k, v from other.keyed", key="k")
    opened = open_source(source)
    parts = opened.parts(in_place)
    with psycopg.connect(server.conninfo) as connection:
        connection.execute("update other.keyed set v = 'new', k = 5")
        connection.commit()
        try:
            rows = [
                row for part in parts for batch in opened.batches(part, {"v": "string"}) for row in batch.to_pylist()
            ]
        finally:
            connection.execute("update other.keyed set v = 'a'")
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
    parts = opened.parts(in_place)
    with contextlib.closing(sqlite3.connect(sqlite)) as connection:
        connection.execute("insert into trips (id) values (100000)")
        connection.commit()
    with pytest.raises(
        DataError, match=r"the data changes while it is read: [0-9]+ rows came where [0-9]+ had been counted"
    ):
        list(opened.batches(parts[-1], {"id": "int"}))


def test_a_value_that_changes_is_seen_by_the_fingerprint_query(sqlite: Path) -> None:
    changed = "select sum(fare) from trips"
    opened = open_source(SqlSource(kind="sql", url=f"sqlite:///{sqlite}", table="trips", fingerprint_query=changed))
    (part,) = opened.parts(in_place)
    assert opened.survey(part, {}).rows
    with contextlib.closing(sqlite3.connect(sqlite)) as connection:
        connection.execute("update trips set fare = fare + 1 where id = 3")
        connection.commit()
    with pytest.raises(DataError, match="the data changes while it is read\n"):
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
    store.remember(state_of(source) or ())
    assert list(store.changed(state_of(source) or ())) == []
    told = source.model_copy(update={"fingerprint_query": "select 1"})
    store.remember(state_of(told) or ())
    changed = told.model_copy(update={"fingerprint_query": "select 2"})
    assert len(list(store.changed(state_of(changed) or ()))) == 1


def test_a_backend_killed_half_way_leaves_a_clear_error(server: postgres.Server) -> None:
    opened = open_source(source_of(server, table="trips", key="id", ranges=1))
    (part,) = opened.parts(in_place)
    reading = opened.batches(part, {"id": "int"})
    assert next(reading).num_rows
    with psycopg.connect(server.conninfo) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    with pytest.raises(DataError, match="the connection to the database broke off"):
        list(reading)


def test_a_connection_lost_while_writing_leaves_nothing(server: postgres.Server, tmp_path: Path) -> None:
    dies = f"case when id > {(ROWS - 100) ** 2} then pg_terminate_backend(pg_backend_pid()) end"
    with pytest.raises(DataError, match="broke off: terminating connection"):
        written(source_of(server, query=f"select id, {dies} as x from trips order by id"), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"query": "selec 1"}, "syntax error"),
        ({"query": "select nope from trips"}, 'column "nope" does not exist'),
        ({"query": "select 1 as a, 2 as a"}, "two columns are called 'a'"),
        ({"query": "delete from trips returning id"}, "the database refuses"),
        ({"table": "nowhere"}, 'relation "nowhere" does not exist'),
        ({"table": "trips", "key": "nope"}, "`data.source.key` is 'nope', which is no column"),
        ({"table": "trips", "key": "fare"}, "is no integer to cut by"),
        ({"table": "bare"}, "the file has no rows"),
        ({"query": "select array[1, null] as a"}, "column 'a': NULL inside of an array"),
        ({"query": "select array[[1], [2]] as a"}, "column 'a': an array has several dimensions"),
        ({"query": "select 'infinity'::date as a"}, "the database refuses"),
    ],
)
def test_what_postgresql_cannot_give_is_told(
    server: postgres.Server, tmp_path: Path, more: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError) as told:
        written(source_of(server, **more), tmp_path / "out")
    assert message in str(told.value)
    assert postgres.PASSWORD not in str(told.value)


def test_no_server_a_wrong_password_and_no_password_are_told(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(server, table="trips")
    gone = source.model_copy(update={"url": "postgresql+psycopg://reader@127.0.0.1:1/postgres"})
    with pytest.raises(DataError, match=r"no connection to the database: .*refused"):
        open_source(gone).columns()
    monkeypatch.setenv("DB_PASSWORD", "not-this-one")
    with pytest.raises(DataError, match="password authentication failed") as told:
        open_source(source).columns()
    assert "not-this-one" not in str(told.value)
    monkeypatch.delenv("DB_PASSWORD")
    with pytest.raises(DataError, match="the environment variable DB_PASSWORD is not set"):
        open_source(source).columns()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:////nowhere/shop.db", "no database file"),
        ("sqlite://", "in memory"),
        ("nodb://host/x", "knows no database 'nodb'"),
        ("oracle+oracledb://reader@host/x", "pip install oracledb"),
        ("mysql://reader@host/x", "pip install mysqlclient"),
        ("sqlite://host:port/x", "not a URL"),
    ],
)
def test_what_is_no_database_here_is_told(url: str, message: str) -> None:
    with pytest.raises(DataError) as told:
        open_source(SqlSource(kind="sql", url=url, table="t")).columns()
    assert message in str(told.value)
    assert not Path("/nowhere").exists()


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are notes " * 100)
    with pytest.raises(DataError, match="not a database"):
        open_source(SqlSource(kind="sql", url=f"sqlite:///{path}", table="t")).columns()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://reader:pa55@host/db",
        "postgresql://reader:pa55@55@host/db",
        "postgresql:///db?host=/tmp&password=pa55",
        "mysql://host/db?passwd=pa55",
        "mssql+pyodbc:///?odbc_connect=UID%3Dreader%3BPWD%3Dpa55",
    ],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValidationError) as told:
        SqlSource(kind="sql", url=url, table="t")
    (error,) = told.value.errors(include_input=False)
    assert "password_env" in error["msg"]
    assert "pa55" not in error["msg"]
    tree, mistakes = setting(f"data.source.url={url}", layer=1)
    assert mistakes == []
    assert "pa55" not in str(tree.place)
    assert "***" in str(tree.place)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.dates(),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**12), max_value=10**12),
    st.datetimes(), st.lists(st.integers(-9, 9) | st.text(), max_size=3),
)  # fmt: skip


@given(st.lists(VALUES, max_size=8))
def test_any_values_fit_the_kind_that_is_found_for_them(values: list[object]) -> None:
    kind = kind_of_values(values)
    column = column_of(values, kind, "x")
    assert len(column) == len(values)
    missing = [None, []] if kind == "missing" else [None]
    assert [value is None for value in column.to_pylist()] == [value in missing for value in values]


@pytest.mark.parametrize(
    ("values", "kind", "column"),
    [
        ([True, None, 2], "int", [1, None, 2]),
        ([1, decimal.Decimal("0.5")], "float", [1.0, 0.5]),
        ([2**63], "string", [str(2**63)]),
        ([dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)], "string", ["2024-02-29", "2024-02-29 12:00:00"]),
        ([b"\xff", "ü"], "bytes", [b"\xff", "ü".encode()]),
        ([[1], [], None, (2.5,)], "float list", [[1.0], [], None, [2.5]]),
        ([None], "missing", [None]),
    ],
)
def test_values_become_columns(values: list, kind: str, column: list) -> None:
    assert kind_of_values(values) == kind
    assert column_of(values, kind, "x").to_pylist() == column


@pytest.mark.parametrize(
    ("value", "kind"), [(1.5, "int"), ("x", "float"), (2**63, "int"), (b"1", "int"), (b"\xff", "string")]
)
def test_a_value_that_is_not_of_its_declared_type_is_told(value: object, kind: str) -> None:
    with pytest.raises(DataError, match="column 'x'"):
        column_of([None, value], kind, "x")
    assert column_of([None], kind, "x").equals(pa.array([None], column_of([], kind, "x").type))
