"""Splitting by time: the oldest rows are the first split, the newest the last.

counts = [count_times(batches, "day") for batches in parts]
split = TimeSplit.of("day", counts, {"train": 8, "eval": 1, "test": 1})
split.numbers(batch)                       # the number of each row's split
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.common.errors import DataError
from headrace.components.examples.arrow_columns import missing_of

ISO_TIME = (
    r"^(?P<at>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?)?)"
    r" ?(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?)?$"
)
"""A date or a time in ISO 8601, with or without a time zone."""


@dataclass(frozen=True)
class TimeSplit:
    """A column by whose order rows are divided. lasts: the greatest time of each split but the last, rising."""

    name: str
    lasts: tuple[int | float, ...]

    @classmethod
    def of(cls, name: str, counts: Sequence[pa.Table], shares: Mapping[str, int]) -> TimeSplit:
        """Divide all rows in these proportions. Rows of the same time stay together.

        counts: as `count_times` returns them, of each part; shares: of the splits, from the oldest to the newest.
        """
        total = _summed(pa.concat_tables(counts)).sort_by("time")
        if not total.num_rows:
            return cls(name, ())
        ends = np.cumsum(total.column("rows").to_numpy())
        wanted = np.cumsum([*shares.values()])[:-1] / sum(shares.values()) * ends[-1]
        return cls(name, tuple(total.column("time")[int(at)].as_py() for at in np.searchsorted(ends, wanted)))

    def numbers(self, batch: pa.RecordBatch, file: str | None = None) -> NDArray[np.int64]:
        """The number of each row's split: int64 [rows]."""
        column, numbers = _times(batch.column(self.name), self.name, file), np.zeros(batch.num_rows, np.int64)
        for last in self.lasts:
            numbers += pc.greater(column, pa.scalar(last, column.type)).to_numpy(zero_copy_only=False)
        return numbers


def count_times(batches: Iterable[pa.RecordBatch], name: str, file: str | None = None) -> pa.Table:
    """How many rows have each time in a column: a table of `time` and `rows`.

    A number is a time as it is; a text becomes the microseconds since 1970, of UTC if it names no time zone. Raises
    DataError unless every row has a number or the text of an ISO date.

    file: where the rows come from, for messages.
    """
    found = [_counted(batch.column(name), name, file) for batch in batches if batch.num_rows]
    return (
        _summed(pa.concat_tables(found)) if found else pa.table({"time": pa.nulls(0), "rows": pa.array([], pa.int64())})
    )


def _counted(column: pa.Array, name: str, file: str | None) -> pa.Table:
    if missing_of(column).any():
        raise _error("a row has no value", name, file)
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise _error(f"a column of {column.type} has no order in time", name, file)
    values, rows = pc.value_counts(_times(column, name, file)).flatten()
    return pa.table({"time": values, "rows": rows})


def _times(column: pa.Array, name: str, file: str | None) -> pa.Array:
    """Numbers in the order of time: int64 or float64 [rows]."""
    if not pa.types.is_string(column.type):
        return column
    try:
        return _microseconds(column)
    except pa.ArrowInvalid:
        wrong = next(text for text in column.unique() if not _is_time(text))
        raise _error(f"{wrong.as_py()!r} is not a date such as 2026-11-23", name, file) from None


def _microseconds(texts: pa.Array) -> pa.Array:
    """Since 1970-01-01 UTC: int64 [rows]. Raises ArrowInvalid for a text that is not a time."""
    found = pc.extract_regex(pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1"), ISO_TIME)
    if found.null_count:
        raise pa.ArrowInvalid("a text is not in ISO 8601")
    at, zone = (pc.struct_field(found, name) for name in ("at", "zone"))
    at = pc.replace_substring_regex(at, "^(.{10})$", r"\1T00:00")  # Arrow reads no time zone after a date alone
    zone = pc.if_else(pc.is_in(zone, pa.array(["", "UTC"])), "Z", zone)
    return pc.binary_join_element_wise(at, zone, "").cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def _is_time(text: pa.Scalar) -> bool:
    try:
        return _microseconds(pa.array([text.as_py()])) is not None
    except pa.ArrowInvalid:
        return False


def _error(what: str, name: str, file: str | None) -> DataError:
    hint = "`data.split_by` takes a column of numbers or of ISO dates, without missing values"
    return DataError(what, file=file, column=name, hint=hint)


def _summed(counts: pa.Table) -> pa.Table:
    summed = counts.group_by("time").aggregate([("rows", "sum")])
    return pa.table({"time": summed.column("time"), "rows": summed.column("rows_sum")})
