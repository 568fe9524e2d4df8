"""Tables and queries of databases.

A run reads ranges of the key, or all rows at once. How many rows each range has is counted first; a reader that finds
another number stops the run. PostgreSQL's readers share a snapshot, which a connection holds as long as the source is
there.
"""

from __future__ import annotations

import json
import re
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.components.example_gen.database.connect import READ_ONLY, connected, label
from headrace.components.example_gen.database.values import column_of, kind_of_postgres, kind_of_values
from headrace.components.example_gen.names import first_repeated
from headrace.components.example_gen.parts import room
from headrace.components.example_gen.sources.base import Reading, Spread, Survey
from headrace.components.example_gen.storage import UNKNOWN, FileState
from headrace.components.example_gen.types import Kind, widest
from headrace.configs.errors import DataError
from headrace.configs.sources import SqlSource

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, FromClause, Select, TextClause

BATCH = 1 << 21
"""Bytes of values in a batch."""
FEWEST, MOST = 16, 1 << 14
"""Rows in a batch."""
SAMPLE = 1000
"""Rows of a part from which its size is judged."""
BINS = 1024
"""Steps in which the keys are counted, to cut them into ranges of about the same number of rows."""


@dataclass(frozen=True)
class Range:
    """Rows with low <= key < high. None: no limit; `null`: those without a key instead. `rows`: as counted; `mark`:
    what the fingerprint query gave then, where there is no snapshot.
    """

    rows: int
    low: int | None = None
    high: int | None = None
    null: bool = False
    snapshot: str | None = None
    mark: str | None = None


@dataclass(frozen=True)
class SqlRows:
    """The rows of one config."""

    source: SqlSource
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: SqlSource, files: Sequence[str] | None, reading: Reading) -> SqlRows:  # noqa: ARG003
        """Nothing is opened yet."""
        return cls(source, reading)

    @classmethod
    def state(cls, source: SqlSource) -> list[FileState]:
        """What `fingerprint_query` gives; without it, never twice the same."""
        if source.fingerprint_query is None:
            return [FileState(label(source), UNKNOWN, uuid.uuid4().hex)]
        with connected(source) as connection:
            return [FileState(label(source), 0, _fingerprint(connection, source.fingerprint_query))]

    def __getstate__(self) -> dict[str, Any]:
        """Without the ranges: only the first of all sources holds their snapshot."""
        return {name: value for name, value in self.__dict__.items() if name not in {"_ranges", "_rows"}}

    def columns(self) -> list[str]:
        """Asks the database, by a query for no rows."""
        return self.reading.chosen(list(self._types))

    def parts(self, spread: Spread) -> list[Range]:  # noqa: ARG002 - the database counts
        """The ranges, as they were when they were first asked for."""
        return self._ranges

    def survey(self, part: Range, declared: Mapping[str, Kind]) -> Survey:
        """From the types of the columns where the database tells them, else from all the values."""
        kinds = {name: declared.get(name) or self._types[name] for name in self.columns()}
        unknown = [name for name, kind in kinds.items() if kind is None]
        found: dict[str, Kind] = dict.fromkeys(unknown, "missing")
        rows = size = 0
        for values in self._read(part):
            rows += len(next(iter(values.values())))
            size += _size(values)
            for name in unknown:
                found[name] = widest([found[name], kind_of_values(values[name])])
            if not unknown and rows >= SAMPLE:
                break
        known = {name: kinds[name] or found[name] for name in kinds}
        return Survey({label(self.source): part.rows}, size * part.rows // max(rows, 1), known)

    def batches(self, part: Range, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """As many rows at a time as make two megabytes."""
        return (self._batch(values, kinds) for values in self._read(part))

    @cached_property
    def _types(self) -> dict[str, Kind | None]:
        """The columns, with their kinds where the database tells them for certain."""
        from sqlalchemy import literal_column, select

        with connected(self.source) as connection:
            star: ColumnElement[Any] = literal_column("*")
            result: Any = connection.execute(select(star).select_from(self._rows).limit(0))
            names = [str(name) for name in result.keys()]  # noqa: SIM118 - no dict
            kinds = [_kind(connection, description) for description in result.cursor.description]
        twice = first_repeated(names)
        if twice is not None:
            raise DataError(f"two columns are called {twice!r}", file=label(self.source), hint="Give them names by AS")
        if self.source.key is not None and self.source.key not in names:
            raise DataError(
                f"`data.source.key` is {self.source.key!r}, which is no column",
                file=label(self.source),
                hint=f"The columns are {', '.join(names)}",
            )
        return dict(zip(names, kinds, strict=True))

    @cached_property
    def _ranges(self) -> list[Range]:
        """Counted, in one transaction; on PostgreSQL it stays open and shows the others what it sees."""
        with ExitStack() as stack:
            connection = stack.enter_context(connected(self.source))
            snapshot = _shared_snapshot(connection)
            query = None if snapshot else self.source.fingerprint_query
            mark = _fingerprint(connection, query) if query else None
            ranges = [replace(part, snapshot=snapshot, mark=mark) for part in self._counted(connection)]
            if snapshot is not None:
                weakref.finalize(self, stack.pop_all().close)
        return ranges

    def _counted(self, connection: Connection) -> Iterator[Range]:
        from sqlalchemy import BigInteger, cast, column, func, select

        if self.source.key is None:
            rows = connection.execute(select(func.count()).select_from(self._rows)).scalar_one()
            yield Range(rows)
            return
        key: ColumnElement[Any] = column(self.source.key)
        extremes = select(func.min(key), func.max(key), func.count(), func.count(key)).select_from(self._rows)
        low, high, rows, keyed = connection.execute(extremes).one()
        if keyed:
            for limit in (low, high):
                if type(limit) is not int or not -(2**62) < limit < 2**62:
                    raise DataError(
                        f"`data.source.key` has the value {limit!r}, which is no integer to cut by (within 2^62)",
                        file=label(self.source),
                        column=self.source.key,
                    )
            width = (high - low) // BINS + 1
            place = ((cast(key, BigInteger) - low) // width).label("place")
            bins = connection.execute(
                select(place, func.count()).select_from(self._rows).where(key >= low).group_by(place)
            )
            counts = sorted((int(number), int(count)) for number, count in bins)
            yield from _even(counts, low, width, self.source.ranges)
        if rows > keyed or not rows:
            yield Range(rows - keyed, null=True)

    @cached_property
    def _rows(self) -> FromClause:
        """What stands behind FROM."""
        from sqlalchemy import table

        if self.source.table is not None:
            schema, _, name = self.source.table.rpartition(".")
            return table(name, schema=schema or None)
        return _statement(self.source.query or "").columns().subquery("rows_read")

    def _select(self, part: Range) -> Select[*tuple[Any, ...]]:
        from sqlalchemy import column, select

        chosen: Any = select(*[column(name) for name in self.columns()]).select_from(self._rows)
        if self.source.key is None:
            return chosen
        key: ColumnElement[Any] = column(self.source.key)
        if part.null:
            return chosen.where(key.is_(None))
        if part.low is not None:
            chosen = chosen.where(key >= part.low)
        if part.high is not None:
            chosen = chosen.where(key < part.high)
        return chosen.where(key.is_not(None)).order_by(key)

    def _read(self, part: Range) -> Iterator[dict[str, Sequence[Any]]]:
        """The values, column by column, of some rows at a time."""
        names = self.columns()
        many, seen = FEWEST, 0
        with connected(self.source) as connection:
            _see(connection, part.snapshot)
            result = connection.execution_options(stream_results=True).execute(self._select(part))
            while rows := result.fetchmany(many):
                seen += len(rows)
                values: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=True))
                yield values
                many = min(max(room(BATCH, len(names)) * len(rows) // max(_size(values), 1), FEWEST), MOST, 8 * many)
            mark = part.mark and _fingerprint(connection, self.source.fingerprint_query or "")
        if seen != part.rows or mark != part.mark:
            counted = f": {seen:,} rows came where {part.rows:,} had been counted" if seen != part.rows else ""
            raise DataError(
                f"the data changes while it is read{counted}",
                file=label(self.source),
                hint="Run again when nothing writes to it",
            )

    def _batch(self, values: Mapping[str, Sequence[Any]], kinds: Mapping[str, Kind]) -> pa.RecordBatch:
        try:
            arrays = [column_of(values[name], kinds[name], name) for name in kinds]
        except DataError as error:
            raise DataError(error.what, file=label(self.source), column=error.column, hint=error.hint) from None
        return pa.RecordBatch.from_arrays(arrays, names=list(kinds))


def _statement(query: str) -> TextClause:
    """The query as it is: without a semicolon, with colons that are no parameters, and an end to a last comment."""
    from sqlalchemy import text

    return text(re.sub(r"(?<!:):(?=\w)", r"\:", query.strip().rstrip("; \n") + "\n"))


def _even(counts: Sequence[tuple[int, int]], low: int, width: int, ranges: int) -> Iterator[Range]:
    """Ranges of about the same number of rows, each of some of the bins (number, rows)."""
    total = sum(rows for _, rows in counts)
    start, held, done, wanted = None, 0, 0, 1
    for place, (_, rows) in enumerate(counts):
        held, done = held + rows, done + rows
        if done * ranges >= total * wanted:
            end = low + width * counts[place + 1][0] if done < total else None
            yield Range(held, start, end)
            start, held, wanted = end, 0, done * ranges // total + 1


def _fingerprint(connection: Connection, query: str) -> str:
    rows = connection.execute(_statement(query)).fetchmany(1000)
    return json.dumps([list(row) for row in rows], default=str)


def _size(values: Mapping[str, Sequence[Any]]) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else 8 for own in values.values() for value in own)


def _shared_snapshot(connection: Connection) -> str | None:
    """The name under which other connections see what this one sees; None where the database has no such thing."""
    from sqlalchemy import exc

    if connection.dialect.name != "postgresql":
        return None
    try:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        return str(connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())
    except exc.DBAPIError:
        connection.rollback()
        connection.exec_driver_sql(READ_ONLY)
        return None


def _kind(connection: Connection, description: Sequence[Any]) -> Kind | None:
    """`description`: of a column, as PEP 249 has it."""
    _, code, _, _, digits, behind, _ = description
    return kind_of_postgres(code, digits, behind) if connection.dialect.name == "postgresql" else None


def _see(connection: Connection, snapshot: str | None) -> None:
    if snapshot is not None:
        connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
