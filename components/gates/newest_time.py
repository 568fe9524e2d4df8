"""The newest value of a column of dates or times."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.statistics.read import batches
from headrace.configs.schema.features.calendar import EPOCH_UNITS, ISO_8601

MISSING = int(np.iinfo(np.int64).min)
"""The integer that stands for a missing value."""


def newest_time(files: Iterable[str], column: str, date_format: str | None) -> dt.datetime | None:
    """The latest time in a column of examples, in UTC without a time zone; None if no value is one.

    Args:
        files: TFRecord files.
        column: the data column.
        date_format: of strptime, or one of EPOCH_UNITS; None for ISO 8601. Times without a zone are taken as UTC.
    """
    found = (newest_of(values, date_format) for file in files for values in _values(file, column))
    return max((time for time in found if time is not None), default=None)


def _values(file: str, column: str) -> Iterator[pa.Array]:
    """The distinct values of each batch."""
    for batch in batches(file):
        if column in batch.schema.names and not pa.types.is_null(batch.schema.field(column).type):
            yield pc.unique(pc.list_flatten(batch.column(column)))


def newest_of(values: pa.Array, date_format: str | None) -> dt.datetime | None:
    """The same of an array of bytes or numbers without nulls. Texts are not counts, and numbers are nothing else."""
    is_text = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    if date_format in EPOCH_UNITS:
        return None if is_text else _counted(values, *EPOCH_UNITS[date_format])
    if not is_text:
        return None
    texts = (value.decode(errors="replace") for value in values.to_pylist())
    return max((time for text in texts if (time := _time(text, date_format)) is not None), default=None)


def _counted(values: pa.Array, factor: int, divisor: int) -> dt.datetime | None:
    numbers = np.asarray(values)
    numbers = numbers[np.isfinite(numbers) & (numbers != MISSING)]
    if not len(numbers):
        return None
    with contextlib.suppress(OverflowError):  # beyond the year 9999
        return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=float(numbers.max()) * factor / divisor)
    return dt.datetime.max


def _time(text: str, date_format: str | None) -> dt.datetime | None:
    try:
        if date_format is not None:
            time = dt.datetime.strptime(text, date_format)
        elif re.fullmatch(ISO_8601.regex, text):
            time = dt.datetime.fromisoformat(text.replace(" Z", "Z").replace(" +", "+"))
        else:
            return None
    except ValueError:
        return None
    return time.astimezone(dt.UTC).replace(tzinfo=None) if time.tzinfo else time
