"""Connections to a database. Errors become DataErrors, and no message contains the password."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from headrace.common.errors import DataError, UnreachableError
from headrace.components.sources.base import seconds_left
from headrace.configs.schema.sources import SqlSource

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

PACKAGES = {
    "MySQLdb": "mysqlclient",
    "psycopg": "'headrace[sql]'",
    "psycopg2": "psycopg2-binary",
}
"""The packages of drivers that have another name than their module."""

READ_ONLY = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""Makes a PostgreSQL transaction see the same data from its first statement to its last."""

TIMEOUTS = {
    **dict.fromkeys(("psycopg", "psycopg2"), ("connect_timeout",)),
    **dict.fromkeys(("mysqldb", "pymysql"), ("connect_timeout", "read_timeout")),
    "pysqlite": ("timeout",),
}
"""The arguments of drivers that limit, in whole seconds, how long they wait for the database or for its lock."""
CANCEL_AGAIN = 0.2
"""Seconds until a statement that still runs, or the next one, is cancelled again."""


@contextmanager
def connected(source: SqlSource) -> Iterator[Connection]:
    """A read-only transaction, which sees the same data from its first statement to its last if the database is
    PostgreSQL. Errors of the database inside the block become DataErrors, and UnreachableErrors if they are not about
    what it was asked, or about who asks.
    """
    kind: type[DataError] = UnreachableError
    what, late = "cannot connect to the database", Event()
    engine = _engine(source)
    from sqlalchemy import exc

    try:
        connection = engine.connect()
        what, kind = "the database reports an error", DataError
        try:
            with _cancelled(connection, seconds_left(), late):
                if connection.dialect.name == "postgresql":
                    connection.exec_driver_sql(READ_ONLY)
                yield connection
        finally:
            with suppress(exc.SQLAlchemyError):  # there is nothing to commit
                connection.close()
    except exc.SQLAlchemyError as error:
        if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
            what, kind = "the connection to the database was lost", UnreachableError
        if late.is_set():
            what, kind = "the database took too long to answer", UnreachableError
        kind = UnreachableError if _is_busy(error) else DataError if _is_refusal(error) else kind
        raise kind(f"{what}: {_message(source, error)}", file=label(source)) from None
    finally:
        engine.dispose()


@contextmanager
def _cancelled(connection: Connection, seconds: float | None, late: Event) -> Iterator[None]:
    """Cancel what runs in the block after so many seconds, if the driver can do that, and set `late`."""
    driver: Any = connection.connection.driver_connection
    cancel = getattr(driver, "cancel", None) or getattr(driver, "interrupt", None)
    if seconds is None or cancel is None:
        yield
        return
    done = Event()

    def wait(timeout: float) -> None:
        while not done.wait(timeout):
            late.set()
            timeout = CANCEL_AGAIN
            with suppress(Exception):  # of any driver: the connection may be closed by now
                cancel()

    Thread(target=wait, args=(seconds,), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _is_refusal(error: Exception) -> bool:
    """Whether the database was reached, but not with these credentials or under this name."""
    said = str(getattr(error, "orig", None) or error).lower()
    return any(
        words in said for words in ("authentication failed", "access denied", "does not exist", "unknown database")
    )


def _is_busy(error: Exception) -> bool:
    """Whether the database refuses now what it may accept later: it is locked, full, starting or shutting down."""
    cause = getattr(error, "orig", None)
    state = str(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")
    return state[:2] in {"53", "57"} or getattr(cause, "sqlite_errorname", "") in {"SQLITE_BUSY", "SQLITE_LOCKED"}


def label(source: SqlSource) -> str:
    """The name of the data in messages: the URL, without parameters that may be secret, and the table."""
    base = source.url.partition("?")[0]
    return f"{base} {source.table}" if source.table is not None else f"{base} (query)"


def _engine(source: SqlSource) -> Engine:
    try:
        import sqlalchemy
    except ImportError as error:
        raise DataError(
            "`kind: sql` needs the package SQLAlchemy, which is not installed", hint="pip install 'headrace[sql]'"
        ) from error
    url = _url(source)
    try:
        return sqlalchemy.create_engine(
            url,
            poolclass=sqlalchemy.NullPool,
            pool_reset_on_return=None,
            hide_parameters=True,
            connect_args=_timeouts(url, seconds_left()),
        )
    except sqlalchemy.exc.NoSuchModuleError:
        raise DataError(
            f"SQLAlchemy does not know the database {url.drivername!r}",
            file=label(source),
            hint="Check the spelling, or install the package that provides it",
        ) from None
    except ImportError as error:
        driver = error.name or "of this database"
        hint = f"pip install {PACKAGES.get(driver, driver)}"
        if driver == "psycopg2":
            hint += "; or write postgresql+psycopg:// to use the driver that headrace[sql] installs"
        raise DataError(f"the driver {driver} is not installed", file=label(source), hint=hint) from None


def _timeouts(url: URL, seconds: float | None) -> dict[str, int]:
    """Arguments of the driver, without those that the URL sets itself."""
    if seconds is None:
        return {}
    names = TIMEOUTS.get(url.get_driver_name(), ())
    return {name: max(math.ceil(seconds), 2) for name in names if name not in url.query}  # libpq takes 1 for 2


def _url(source: SqlSource) -> URL:
    from sqlalchemy import exc, make_url

    try:
        url = make_url(source.url)
    except (exc.ArgumentError, ValueError):
        raise DataError(f"`{source.section}.url` is not a URL that SQLAlchemy can read") from None
    _check_file(source, url)
    password = _password(source)
    return url if password is None else url.set(password=password)


def _check_file(source: SqlSource, url: URL) -> None:
    """Raise DataError if the file of an SQLite database is missing, as SQLite would create an empty one."""
    path = url.database or ""
    if url.get_backend_name() != "sqlite" or path.startswith("file:"):
        return
    if path in {"", ":memory:"}:
        raise DataError("a database in memory is empty in each run", file=label(source), hint="Name a database file")
    if not Path(path).is_file():
        raise DataError(f"there is no database file {path!r}", file=label(source))


def _password(source: SqlSource) -> str | None:
    if source.password_env is None:
        return None
    password = os.environ.get(source.password_env)
    if not password:
        raise DataError(
            f"the environment variable {source.password_env} is not set",
            file=label(source),
            hint=f"`{source.section}.password_env` names the variable that contains the password of the database",
        )
    return password


def _message(source: SqlSource, error: Exception) -> str:
    """The error message of the database on one line, with the password masked."""
    cause = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()] or [type(cause).__name__]
    message = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    password = os.environ.get(source.password_env or "")
    return message.replace(password, "***") if password else message
