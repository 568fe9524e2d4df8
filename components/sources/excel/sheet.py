"""One sheet of a workbook as Arrow columns. Cells have types in Excel; a column gets the one that holds all its cells.

sheet = read_sheet("sales.xlsx", "Sales", None)
sheet.names, sheet.columns["price"], sheet.numbers     # the columns, and the number of each row in the sheet
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.exact_integers import EXACT_IN_FLOAT64
from headrace.common.names import did_you_mean_or_list
from headrace.common.storage.files import open_file, reading
from headrace.components.sources.types import first_duplicate

if TYPE_CHECKING:
    from python_calamine import CalamineSheet, CalamineWorkbook

TITLES = 20
"""How many rows with titles and notes may be above the names of the columns."""
Cell = Any
"""str, float, bool, date, datetime, time or timedelta; an empty text where a cell is empty or shows an error."""


@dataclass(frozen=True)
class Sheet:
    """The rows of a sheet that are not empty. name: that of the sheet; numbers: as Excel counts the rows, from 1."""

    name: str
    columns: Mapping[str, pa.Array]
    numbers: Sequence[int]

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    @property
    def size(self) -> int:
        """Bytes of the values in memory."""
        return sum(column.nbytes for column in self.columns.values())

    def first(self, rows: int) -> Sheet:
        return Sheet(self.name, {name: own.slice(0, rows) for name, own in self.columns.items()}, self.numbers[:rows])


def read_sheet(
    path: str,
    which: str | int | None,
    header_row: int | None,
    rows: int | None = None,
    nulls: Collection[str] = (),
) -> Sheet:
    """Read a sheet, or its first `rows` rows. Raises DataError if there is none, or its header cannot name columns.

    Args:
        path: the file, local or remote.
        which: the name of the sheet, or its number from 1; None: the first.
        header_row: the number of the row with the names, from 1; None: the first one that is neither empty nor a title.
        rows: None: all.
        nulls: texts of cells without a value.
    """
    with _workbook(path) as book:
        sheet = _chosen(book, which, path)
        filled = ((number, row) for number, row in _rows(sheet) if any(cell != "" for cell in row))
        if header_row is not None:
            filled = ((number, row) for number, row in filled if number >= header_row)
        found = list(islice(filled, None if rows is None else rows + TITLES + 1))
    if not found or header_row not in (None, found[0][0]):
        place = "row" if header_row is None else f"row {header_row}"
        raise DataError(f"sheet {sheet.name!r} has no {place} with the names of columns", file=path)
    start = _header(found) if header_row is None else 0
    (at, header), body = found[start], found[start + 1 :][:rows]
    names = _names(header, [row for _, row in body], f"row {at} of sheet {sheet.name!r}", path)
    columns = {name: column([row[position] for _, row in body], nulls) for name, position in names.items()}
    return Sheet(sheet.name, columns, [number for number, _ in body])


def _header(rows: Sequence[tuple[int, Sequence[Cell]]]) -> int:
    """The index of the first row of different texts in all columns that are used below, after titles; else 0."""
    for index, (_, header) in enumerate(rows[: TITLES + 1]):
        names = [cell for cell in header if cell != ""]
        used = {position for _, row in rows[index + 1 :] for position, cell in enumerate(row) if cell != ""}
        texts = all(isinstance(name, str) for name in names) and len({*names}) == len(names)
        if texts and used and all(header[position] != "" for position in used):
            return index
    return 0


def column(cells: Sequence[Cell], nulls: Collection[str] = ()) -> pa.Array:
    """The cells in the narrowest type that holds them: booleans, integers, floats, dates, timestamps, times, durations;
    as texts if they are of several. nulls: texts of cells without a value.
    """
    empty = frozenset(("", *nulls))
    values = [None if cell in empty else cell for cell in cells]
    types = {type(value) for value in values if value is not None}
    if not types:
        return pa.nulls(len(values))
    if types <= {float, int}:
        whole = all(value is None or (float(value).is_integer() and abs(value) < EXACT_IN_FLOAT64) for value in values)
        return pa.array([int(value) if whole and value is not None else value for value in values], _NUMBER[whole])
    if types == {dt.date, dt.datetime}:
        return pa.array([None if value is None else _moment(value) for value in values], pa.timestamp("s"))
    if len(types) == 1:
        return pa.array(values, _TYPES[types.pop()])
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


_NUMBER = {True: pa.int64(), False: pa.float64()}
_TYPES = {
    str: pa.string(),
    bool: pa.bool_(),
    dt.date: pa.date32(),
    dt.datetime: pa.timestamp("s"),
    dt.time: pa.time32("s"),
    dt.timedelta: pa.duration("ms"),
}


def _moment(value: dt.date) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _text(value: Cell) -> str:
    """As Excel would show it without a format."""
    if isinstance(value, bool):
        return str(value).upper()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@contextmanager
def _workbook(path: str) -> Iterator[CalamineWorkbook]:
    from python_calamine import CalamineError, CalamineWorkbook

    with reading(path), open_file(path) as file:
        try:
            with CalamineWorkbook.from_filelike(file) as book:
                yield book
        except CalamineError as error:
            hint = "Excel opens and repairs damaged files; one with a password has to be saved without it"
            raise DataError(f"is not a workbook that can be read: {error}", file=path, hint=hint) from None


def _chosen(book: CalamineWorkbook, which: str | int | None, path: str) -> CalamineSheet:
    names = book.sheet_names
    if isinstance(which, str) and which not in names:
        raise DataError(f"has no sheet {which!r}{did_you_mean_or_list(which, names, 'its sheets are')}", file=path)
    number = names.index(which) if isinstance(which, str) else (which or 1) - 1
    if number >= len(names):
        raise DataError(f"has {len(names)} sheets, and no sheet {number + 1}", file=path)
    return book.get_sheet_by_index(number)


def _rows(sheet: CalamineSheet) -> Iterator[tuple[int, list[Cell]]]:
    """The rows with their numbers, from column A on, where the reader leaves out empty columns on the left."""
    left = [""] * (sheet.start[1] if sheet.start else 0)
    return ((number, [*left, *row]) for number, row in enumerate(sheet.iter_rows(), 1))


def _names(header: Sequence[Cell], rows: Sequence[Sequence[Cell]], place: str, path: str) -> dict[str, int]:
    """The columns and their positions. Positions without a name must be empty."""
    named = {position: _text(cell).strip() for position, cell in enumerate(header) if _text(cell).strip()}
    if (twice := first_duplicate([*named.values()])) is not None:
        hint = "Give the second one another name in the file"
        raise DataError(f"{place} has this name twice", file=path, column=twice, hint=hint)
    for position in set(range(len(header))) - set(named):
        if any(row[position] != "" for row in rows):
            what = f"column {letters(position)} has values, but {place} has no name for it"
            raise DataError(what, file=path, hint="Name it, or set `header_row` to the row with the names")
    return {name: position for position, name in named.items()}


def letters(position: int) -> str:
    """What Excel calls the column at a position, counted from 0: A to Z, AA, AB, ..."""
    found, rest = "", position + 1
    while rest:
        rest, digit = divmod(rest - 1, 26)
        found = chr(ord("A") + digit) + found
    return found
