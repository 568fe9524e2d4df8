"""Databases."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.section import Name, Section


class SqlSource(Section):
    """A query or a table of any database that SQLAlchemy speaks to. Needs `pip install headrace[sql]`, and the
    database's driver.
    """

    kind: Literal["sql"]
    """`sql`."""
    url: Name
    """SQLAlchemy's URL of the database, such as `postgresql+psycopg://reader@db.example/shop`, without a password."""
    password_env: Name | None = None
    """The environment variable that holds the password; null: none is needed."""
    table: Name | None = None
    """The table (or view) to read, perhaps with its schema before a dot. Give this or `query`."""
    query: Name | None = None
    """The SELECT to read, without a semicolon."""
    key: Name | None = None
    """A column of integers to cut the rows by, so that ranges of it are read in parallel; null: one reader."""
    ranges: Annotated[int, Field(gt=0)] = 8
    """Ranges of `key`."""
    fingerprint_query: Name | None = None
    """A SELECT of a few values that change whenever the data does, such as `select max(changed_at) from trips`; null:
    the data is read again in each run."""

    @model_validator(mode="after")
    def _one_thing_to_read(self) -> SqlSource:
        if (self.table is None) == (self.query is None):
            raise ValueError("give either `table` or `query`")
        return self
