"""Databases that break off, refuse or do not exist, and passwords that are not repeated."""

from pathlib import Path

import postgres
import psycopg
import pytest
from databases import ROWS, source_of, written
from pydantic import ValidationError

from headrace.common.errors import DataError, UnreachableError
from headrace.components.sources import open_source, serial_map
from headrace.configs.loading.overlays import parse_setting
from headrace.configs.schema.sources import SqlSource


def test_a_backend_killed_half_way_leaves_a_clear_error(server: postgres.Server) -> None:
    opened = open_source(source_of(server, table="trips", key="id", ranges=1))
    (part,) = opened.parts(serial_map)
    reading = opened.batches(part, {"id": "int"})
    assert next(reading).num_rows
    with psycopg.connect(server.conninfo) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
    with pytest.raises(DataError, match="the connection to the database was lost"):
        list(reading)


def test_a_connection_lost_while_writing_leaves_nothing(server: postgres.Server, tmp_path: Path) -> None:
    dies = f"case when id > {(ROWS - 100) ** 2} then pg_terminate_backend(pg_backend_pid()) end"
    with pytest.raises(DataError, match="terminating connection"):
        written(source_of(server, query=f"select id, {dies} as x from trips order by id"), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"query": "selec 1"}, "syntax error"),
        ({"query": "select nope from trips"}, 'column "nope" does not exist'),
        ({"query": "select 1 as a, 2 as a"}, "two columns are named 'a'"),
        ({"query": "delete from trips returning id"}, "the database reports"),
        ({"table": "nowhere"}, 'relation "nowhere" does not exist'),
        ({"table": "trips", "key": "nope"}, "`data.source.key` is 'nope', which is not a column"),
        ({"table": "trips", "key": "fare"}, "keys must be integers"),
        ({"table": "bare"}, "the file has no rows"),
        ({"query": "select array[1, null] as a"}, "column 'a': an array contains NULL"),
        ({"query": "select array[[1], [2]] as a"}, "column 'a': an array has multiple dimensions"),
        ({"query": "select 'infinity'::date as a"}, "the database reports"),
    ],
)
def test_what_postgresql_cannot_give_is_reported(
    server: postgres.Server, tmp_path: Path, more: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError) as reported:
        written(source_of(server, **more), tmp_path / "out")
    assert message in str(reported.value)
    assert postgres.PASSWORD not in str(reported.value)


def test_no_server_a_wrong_password_and_no_password_are_reported(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(server, table="trips")
    gone = source.model_copy(update={"url": "postgresql+psycopg://reader@127.0.0.1:1/postgres"})
    with pytest.raises(UnreachableError, match=r"cannot connect to the database: .*refused"):
        open_source(gone).columns()
    monkeypatch.setenv("DB_PASSWORD", "not-this-one")
    with pytest.raises(DataError, match="password authentication failed") as reported:
        open_source(source).columns()
    assert "not-this-one" not in str(reported.value)
    assert not isinstance(reported.value, UnreachableError)  # which a check before a run would only note
    monkeypatch.delenv("DB_PASSWORD")
    with pytest.raises(DataError, match="the environment variable DB_PASSWORD is not set") as reported:
        open_source(source).columns()
    assert not isinstance(reported.value, UnreachableError)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:////nowhere/shop.db", "no database file"),
        ("sqlite://", "in memory"),
        ("nodb://host/x", "not know the database 'nodb'"),
        ("oracle+oracledb://reader@host/x", "pip install oracledb"),
        ("mysql://reader@host/x", "pip install mysqlclient"),
        ("sqlite://host:port/x", "not a URL"),
    ],
)
def test_what_is_not_a_database_here_is_reported(url: str, message: str) -> None:
    with pytest.raises(DataError) as reported:
        open_source(SqlSource(kind="sql", url=url, table="t")).columns()
    assert message in str(reported.value)
    assert not Path("/nowhere").exists()


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
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
    with pytest.raises(ValidationError) as reported:
        SqlSource(kind="sql", url=url, table="t")
    (error,) = reported.value.errors(include_input=False)
    assert "password_env" in error["msg"]
    assert "pa55" not in error["msg"]
    tree, mistakes = parse_setting(f"data.source.url={url}", layer=1)
    assert mistakes == []
    assert tree is not None
    assert "pa55" not in str(tree.location)
    assert "***" in str(tree.location)
