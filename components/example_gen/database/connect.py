"""Connections to a database. What goes wrong becomes a DataError, and no message holds the password."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.configs.errors import DataError
from headrace.configs.sources import SqlSource

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

PACKAGES = {
    "MySQLdb": "mysqlclient",
    "psycopg": "'headrace[sql]'",
    "psycopg2": "psycopg2-binary",
}
"""What to install for a driver whose package has another name."""

READ_ONLY = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""What makes a transaction see the same data from its first statement to its last."""


@contextmanager
def connected(source: SqlSource) -> Iterator[Connection]:
    """A transaction that only reads, and sees the same data from its first statement to its last where the database
    can do that. Errors of the database inside the block become DataErrors.
    """
    what = "no connection to the database"
    engine = _engine(source)
    from sqlalchemy import exc

    try:
        connection = engine.connect()
        what = "the database refuses"
        try:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(READ_ONLY)
            yield connection
        finally:
            with suppress(exc.SQLAlchemyError):  # there is nothing to commit
                connection.close()
    except exc.SQLAlchemyError as error:
        if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
            what = "the connection to the database broke off"
        raise DataError(f"{what}: {_told(source, error)}", file=label(source)) from None
    finally:
        engine.dispose()


def label(source: SqlSource) -> str:
    """The data's name in messages: the URL, without what may be secret in it, and the table."""
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
            url, poolclass=sqlalchemy.NullPool, pool_reset_on_return=None, hide_parameters=True
        )
    except sqlalchemy.exc.NoSuchModuleError:
        raise DataError(
            f"SQLAlchemy knows no database {url.drivername!r}",
            file=label(source),
            hint="Is it spelt right? Otherwise install the package that brings it",
        ) from None
    except ImportError as error:
        driver = error.name or "of this database"
        hint = f"pip install {PACKAGES.get(driver, driver)}"
        if driver == "psycopg2":
            hint += "; or write postgresql+psycopg:// for the driver that comes with headrace[sql]"
        raise DataError(f"the driver {driver} is not installed", file=label(source), hint=hint) from None


def _url(source: SqlSource) -> URL:
    from sqlalchemy import exc, make_url

    try:
        url = make_url(source.url)
    except (exc.ArgumentError, ValueError):
        raise DataError("`data.source.url` is not a URL that SQLAlchemy can read") from None
    _check_file(source, url)
    password = _password(source)
    return url if password is None else url.set(password=password)


def _check_file(source: SqlSource, url: URL) -> None:
    """SQLite would make an empty database where there is none."""
    path = url.database or ""
    if url.get_backend_name() != "sqlite" or path.startswith("file:"):
        return
    if path in {"", ":memory:"}:
        raise DataError("a database in memory is empty for each run", file=label(source), hint="Name a file")
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
            hint="`data.source.password_env` says that the database's password is in it",
        )
    return password


def _told(source: SqlSource, error: Exception) -> str:
    """What the database says, in one line, without the password, whoever put it there."""
    cause = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()] or [type(cause).__name__]
    told = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    password = os.environ.get(source.password_env or "")
    return told.replace(password, "***") if password else told
