"""Database tables and queries as a source.

A run reads ranges of the key, or all rows at once. The rows of each range are counted first; a reader that finds
another number stops the run. PostgreSQL readers share a snapshot, which one connection holds open for as long as the
source exists.
"""

from __future__ import annotations

import json
import re
import uuid
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import UNKNOWN, FileState
from headrace.components.examples.parts import room
from headrace.components.sources.base import (
    HEAD_ROWS,
    Head,
    ParallelMap,
    ReadOptions,
    ScanResult,
    first_pieces,
    undivided,
)
from headrace.components.sources.sql.connect import READ_ONLY, connected, label
from headrace.components.sources.sql.values import BOOLEAN, column_of, kind_of_postgres, kind_of_values
from headrace.components.sources.types import Kind, first_duplicate, widest
from headrace.configs.schema.sources import SqlSource

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, FromClause, Select, TextClause

BATCH = 1 << 21
"""Bytes of values in a batch."""
MIN_ROWS, MAX_ROWS = 16, 1 << 14
"""Rows in a batch."""
SAMPLE = 1000
"""Rows of a part from which its size is estimated."""
BINS = 1024
"""Bins in which the keys are counted, to cut them into ranges with about the same number of rows."""


@dataclass(frozen=True)
class KeyRange:
    """Rows with low <= key < high; None: no limit.

    rows: their number; null: these are the rows without a key instead; mark: without a snapshot, the result of the
    fingerprint query at the time of counting.
    """

    rows: int
    low: int | None = None
    high: int | None = None
    null: bool = False
    snapshot: str | None = None
    mark: str | None = None


@dataclass(frozen=True)
class FetchedRows:
    """Rows in memory. rows: their number; values: those of each column."""

    rows: int
    values: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class SqlRows:
    source: SqlSource
    options: ReadOptions = field(default_factory=ReadOptions)

    @classmethod
    def open(cls, source: SqlSource, files: Sequence[str] | None, options: ReadOptions) -> SqlRows:
        """Open nothing yet."""
        return cls(source, options)

    @classmethod
    def state(cls, source: SqlSource) -> list[FileState]:
        """The result of `fingerprint_query`; without one, a state that never repeats."""
        if source.fingerprint_query is None:
            return [FileState(label(source), UNKNOWN, uuid.uuid4().hex)]
        with connected(source) as connection:
            return [FileState(label(source), 0, _fingerprint(connection, source.fingerprint_query))]

    def __getstate__(self) -> dict[str, Any]:
        """The state without the ranges: only the source that counted them keeps their snapshot open."""
        return {name: value for name, value in self.__dict__.items() if name not in {"_ranges", "_rows"}}

    def columns(self) -> list[str]:
        """The columns, which a query for no rows finds."""
        return self.options.select(list(self._types))

    def booleans(self) -> frozenset[str]:
        """The columns of the type boolean, as PostgreSQL reports it, and other databases of a table."""
        return self._booleans

    def parts(self, parallel_map: ParallelMap) -> list[KeyRange]:
        """The ranges of the key, whose rows the database counted once."""
        return self._ranges

    def head(self) -> Head:
        """The first rows that the database returns, in any order. Only reported types settle the kinds."""
        names, key = self.columns(), self.source.key
        selected = self._columns(dict.fromkeys([*names, *([key] if key else [])])).limit(HEAD_ROWS + 1)
        with connected(self.source) as connection, closing(self._fetched(connection, selected)) as fetched:
            found, everything = first_pieces((values, _rows_in(values), _size(values)) for values in fetched)
        values = {name: [*chain.from_iterable(each[name] for each in found)][:HEAD_ROWS] for name in names}
        for limit in (value for each in found for value in each.get(key or "", ()) if value is not None):
            self._check_key(limit)
        rows = sum(map(_rows_in, found))
        whole = everything and rows <= HEAD_ROWS
        settled = whole or all(self._types[name] is not None for name in names)
        return Head(self, FetchedRows(min(rows, HEAD_ROWS), values), whole=whole, settled=settled)

    def scan(self, part: KeyRange | FetchedRows, declared: Mapping[str, Kind]) -> ScanResult:
        """Use the types of the columns if the database reports them, else read all values."""
        kinds = {name: declared.get(name) or self._types[name] for name in self.columns()}
        unknown = [name for name, kind in kinds.items() if kind is None]
        inferred: dict[str, Kind] = dict.fromkeys(unknown, "missing")
        rows = size = 0
        for values in self._read(part):
            rows += _rows_in(values)
            size += _size(values)
            for name in unknown:
                inferred[name] = widest([inferred[name], kind_of_values(values[name])])
            if not unknown and rows >= SAMPLE:
                break
        known = {name: kinds[name] or inferred[name] for name in kinds}
        return ScanResult({label(self.source): part.rows}, size * part.rows // max(rows, 1), known)

    def batches(self, part: KeyRange | FetchedRows, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Batches of about BATCH bytes."""
        return (self._batch(values, kinds) for values in self._read(part))

    @cached_property
    def _types(self) -> dict[str, Kind | None]:
        """The columns, with their kinds if the database reports types that decide them."""
        from sqlalchemy import literal_column, select

        with connected(self.source) as connection:
            star: ColumnElement[Any] = literal_column("*")
            result: Any = connection.execute(select(star).select_from(self._rows).limit(0))
            names = [str(name) for name in result.keys()]  # noqa: SIM118 - not a dict
            kinds = [_kind(connection, description) for description in result.cursor.description]
        repeated = first_duplicate(names)
        if repeated is not None:
            raise DataError(f"two columns are named {repeated!r}", file=label(self.source), hint="Rename one with AS")
        if self.source.key is not None and self.source.key not in names:
            raise DataError(
                f"`{self.source.section}.key` is {self.source.key!r}, which is not a column",
                file=label(self.source),
                hint=f"The columns are {', '.join(names)}",
            )
        return dict(zip(names, kinds, strict=True))

    @cached_property
    def _booleans(self) -> frozenset[str]:
        from sqlalchemy import Boolean, inspect

        with connected(self.source) as connection:
            if connection.dialect.name == "postgresql":
                result: Any = connection.execute(self._columns(self.columns()).limit(0))
                return frozenset(one[0] for one in result.cursor.description if one[1] == BOOLEAN)
            if (named := undivided(self.source.table)) is None:
                return frozenset()
            schema, _, name = named.rpartition(".")
            columns = inspect(connection).get_columns(name, schema or None)
            return frozenset(str(one["name"]) for one in columns if isinstance(one["type"], Boolean))

    @cached_property
    def _ranges(self) -> list[KeyRange]:
        """The ranges, counted in one transaction. On PostgreSQL it stays open and shares its snapshot with readers."""
        with ExitStack() as stack:
            connection = stack.enter_context(connected(self.source))
            snapshot = _shared_snapshot(connection)
            query = None if snapshot else self.source.fingerprint_query
            mark = _fingerprint(connection, query) if query else None
            ranges = [replace(part, snapshot=snapshot, mark=mark) for part in self._count(connection)]
            if snapshot is not None:
                weakref.finalize(self, stack.pop_all().close)
        return ranges

    def _count(self, connection: Connection) -> Iterator[KeyRange]:
        from sqlalchemy import BigInteger, cast, column, func, select

        if self.source.key is None:
            rows = connection.execute(select(func.count()).select_from(self._rows)).scalar_one()
            yield KeyRange(rows)
            return
        key: ColumnElement[Any] = column(self.source.key)
        extremes = select(func.min(key), func.max(key), func.count(), func.count(key)).select_from(self._rows)
        low, high, rows, keyed = connection.execute(extremes).one()
        if keyed:
            self._check_key(low)
            self._check_key(high)
            width = (high - low) // BINS + 1
            bin_number = ((cast(key, BigInteger) - low) // width).label("bin_number")
            bins = connection.execute(
                select(bin_number, func.count()).select_from(self._rows).where(key >= low).group_by(bin_number)
            )
            counts = sorted((int(number), int(count)) for number, count in bins)
            yield from _even_ranges(counts, low, width, self.source.ranges)
        if rows > keyed or not rows:
            yield KeyRange(rows - keyed, null=True)

    def _check_key(self, value: Any) -> None:
        if type(value) is not int or not -(2**62) < value < 2**62:
            raise DataError(
                f"`{self.source.section}.key` has the value {value!r}, but keys must be integers within ±2^62",
                file=label(self.source),
                column=self.source.key,
            )

    @cached_property
    def _rows(self) -> FromClause:
        from sqlalchemy import table

        if (named := undivided(self.source.table)) is not None:
            schema, _, name = named.rpartition(".")
            return table(name, schema=schema or None)
        return _statement(undivided(self.source.query) or "").columns().subquery("rows_read")

    def _columns(self, names: Iterable[str]) -> Select[*tuple[Any, ...]]:
        from sqlalchemy import column, select

        return select(*[column(name) for name in names]).select_from(self._rows)

    def _select(self, part: KeyRange) -> Select[*tuple[Any, ...]]:
        from sqlalchemy import column

        rows = self._columns(self.columns())
        if self.source.key is None:
            return rows
        key: ColumnElement[Any] = column(self.source.key)
        if part.null:
            return rows.where(key.is_(None))
        if part.low is not None:
            rows = rows.where(key >= part.low)
        if part.high is not None:
            rows = rows.where(key < part.high)
        return rows.where(key.is_not(None)).order_by(key)

    def _read(self, part: KeyRange | FetchedRows) -> Iterator[Mapping[str, Sequence[Any]]]:
        """The values of some rows at a time, by column."""
        if isinstance(part, FetchedRows):
            if part.rows:
                yield part.values
            return
        total = 0
        with connected(self.source) as connection:
            _use_snapshot(connection, part.snapshot)
            for values in self._fetched(connection, self._select(part)):
                total += _rows_in(values)
                yield values
            mark = part.mark and _fingerprint(connection, self.source.fingerprint_query or "")
        if total != part.rows or mark != part.mark:
            counts = f": {part.rows:,} rows were counted, but {total:,} were read" if total != part.rows else ""
            raise DataError(
                f"the data changed while it was read{counts}",
                file=label(self.source),
                hint="Run again when nothing writes to it",
            )

    def _fetched(
        self, connection: Connection, selected: Select[*tuple[Any, ...]]
    ) -> Generator[dict[str, Sequence[Any]]]:
        """The values of about BATCH bytes at a time, by column."""
        result, size = connection.execution_options(stream_results=True).execute(selected), MIN_ROWS
        names = [*result.keys()]
        while rows := result.fetchmany(size):
            values: dict[str, Sequence[Any]] = dict(zip(names, zip(*rows, strict=True), strict=True))
            yield values
            fitting = room(BATCH, len(names)) * len(rows) // max(_size(values), 1)
            size = min(max(fitting, MIN_ROWS), MAX_ROWS, 8 * size)

    def _batch(self, values: Mapping[str, Sequence[Any]], kinds: Mapping[str, Kind]) -> pa.RecordBatch:
        try:
            arrays = [column_of(values[name], kinds[name], name) for name in kinds]
        except DataError as error:
            raise DataError(error.what, file=label(self.source), column=error.column, hint=error.hint) from None
        return pa.RecordBatch.from_arrays(arrays, names=list(kinds))


def _statement(query: str) -> TextClause:
    """The query as a statement: without a final semicolon, with colons escaped that would mark parameters, and with a
    line break to end a final comment.
    """
    from sqlalchemy import text

    return text(re.sub(r"(?<!:):(?=\w)", r"\:", query.strip().rstrip("; \n") + "\n"))


def _even_ranges(counts: Sequence[tuple[int, int]], low: int, width: int, ranges: int) -> Iterator[KeyRange]:
    """Consecutive bins combined to ranges of about the same number of rows. counts: (number of the bin, its rows)."""
    total = sum(rows for _, rows in counts)
    start, in_range, done, wanted = None, 0, 0, 1
    for index, (_, rows) in enumerate(counts):
        in_range, done = in_range + rows, done + rows
        if done * ranges >= total * wanted:
            end = low + width * counts[index + 1][0] if done < total else None
            yield KeyRange(in_range, start, end)
            start, in_range, wanted = end, 0, done * ranges // total + 1


def _fingerprint(connection: Connection, query: str) -> str:
    rows = connection.execute(_statement(query)).fetchmany(1000)
    return json.dumps([list(row) for row in rows], default=str)


def _rows_in(values: Mapping[str, Sequence[Any]]) -> int:
    return len(next(iter(values.values())))


def _size(values: Mapping[str, Sequence[Any]]) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else 8 for column in values.values() for value in column)


def _shared_snapshot(connection: Connection) -> str | None:
    """The name of a snapshot that other connections can use; None if the database does not export snapshots."""
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
    """The kind of a column, if the database reports a type that decides it. `description`: as in PEP 249."""
    _, code, _, _, precision, scale, _ = description
    return kind_of_postgres(code, precision, scale) if connection.dialect.name == "postgresql" else None


def _use_snapshot(connection: Connection, snapshot: str | None) -> None:
    if snapshot is not None:
        connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
