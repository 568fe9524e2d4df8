"""Databases."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from headrace.configs.passwords import hides
from headrace.configs.section import Name, Section


class SqlSource(Section):
    """A table or a query of any database that SQLAlchemy speaks to. Needs `pip install headrace[sql]`, and for other
    databases than PostgreSQL and SQLite their driver.

    Integers and booleans (as 0 and 1) are int; floats float; decimals as in all sources (see `data.types`); dates and
    times string (`2024-01-31`, `2024-01-31 12:30:00`, with a time zone in UTC: `2024-01-31 11:30:00Z`); binary values
    bytes; arrays multi-valued; JSON is string; NULL is a missing value. PostgreSQL tells the types of the columns; with
    other databases they are told from the values, which takes a pass over the data. A value that is not of its column's
    type stops the run, so `on_bad_record: skip` is refused.

    PostgreSQL shows all readers the same snapshot of the data, so a run sees it as it was at one moment. With other
    databases each reader has a transaction of its own. There a run stops with an error when it finds another number of
    rows than it had counted, or when `fingerprint_query` gives something else at the end of a range; without that
    query, a value that is changed in the meantime goes unseen, so read when nothing writes.

    `{SPAN}` and dates stand for parts of paths, so they have no meaning here: put the limits into the query.
    """

    kind: Literal["sql"]
    """`sql`."""
    url: Name
    """SQLAlchemy's URL of the database, such as `postgresql+psycopg://reader@db.example/shop` or
    `sqlite:////data/shop.db`, without a password."""
    password_env: Name | None = None
    """The environment variable that holds the password; null: none is needed."""
    table: Name | None = None
    """The table (or view) to read, perhaps with its schema and a dot before it. Give this or `query`."""
    query: Name | None = None
    """The SELECT to read. With `key` it runs once for each range, inside of another SELECT."""
    key: Name | None = None
    """A column of integers to cut the rows by, so that ranges of it are read in parallel, each in the order of the
    key: best a primary key, or one with an index. If several rows may have the same value in it, or without it, the
    bytes of the shards depend on the order in which the database gives the rows. null: one reader."""
    ranges: Annotated[int, Field(gt=0, le=64)] = 8
    """Ranges of `key`, of about the same number of rows."""
    fingerprint_query: Name | None = None
    """A SELECT of a few values that change whenever the data does, such as
    `select count(*), max(changed_at) from trips`; null: the data is read again in each run."""

    @field_validator("url")
    @classmethod
    def _without_password(cls, url: str) -> str:
        if not re.match(r"[\w+]+://", url):
            raise ValueError("does not start as a URL of SQLAlchemy does: `dialect://` or `dialect+driver://`")
        if hides(url):
            raise ValueError(
                "holds a password, which would be kept in logs and artifacts; put the password into an environment"
                " variable, and the name of that into `password_env`"
            )
        return url

    @model_validator(mode="after")
    def _one_thing_to_read(self) -> SqlSource:
        if (self.table is None) == (self.query is None):
            raise ValueError("give either `table` or `query`")
        return self
