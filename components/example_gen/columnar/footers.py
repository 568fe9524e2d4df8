"""What the footer of a Parquet file tells: its rows, and the kinds of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.components.example_gen.columnar.stored import UnfitError, is_uint64, stored_kind
from headrace.components.example_gen.names import first_repeated
from headrace.components.example_gen.storage import arrow_file, is_remote, open_file, reading
from headrace.components.example_gen.types import LIST, Kind
from headrace.configs.errors import DataError

MAGIC, ENCRYPTED = b"PAR1", b"PARE"
LARGEST = 2**63 - 1

VALUE = 8
"""Bytes that a value takes at least, whatever dictionaries and runs make of it on disk."""


@dataclass(frozen=True)
class Group:
    """A row group: its number in the file, rows, and about the bytes of the values read: not less than as they are
    encoded, which repeats little, nor than VALUE for each.
    """

    number: int
    rows: int
    size: int


@dataclass(frozen=True)
class Footer:
    """A file's row groups and kinds. `unsigned`: columns of uint64; `unsure`: those of them that only their values can
    tell to fit in int64.
    """

    path: str
    groups: tuple[Group, ...]
    kinds: dict[str, Kind]
    unsigned: frozenset[str]
    unsure: frozenset[str]


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """The file as a pyarrow.parquet.ParquetFile. What goes wrong inside is a DataError that names it."""
    import pyarrow.parquet as pq

    buffer = 1 << 23 if is_remote(path) else 1 << 20
    options = {"pre_buffer": False, "buffer_size": buffer, "page_checksum_verification": True}
    with reading(path):
        try:
            with pq.ParquetFile(arrow_file(path), **options) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise _damaged(path, error) from None
        except OSError as error:
            if is_remote(path) or error.errno is not None:
                raise
            raise _damaged(path, error) from None


def _damaged(path: str, error: Exception) -> DataError:
    what = " ".join(str(error).split())
    return DataError(f"is damaged, or not Parquet as others write it: {what}", file=path)


def column_names(path: str) -> list[str]:
    """The names of a file's columns, in its order."""
    check_marks(path)
    with open_parquet(path) as file:
        return _names(path, file)


def _names(path: str, file: Any) -> list[str]:
    names = list(file.schema_arrow.names)
    if (twice := first_repeated(names)) is not None:
        raise DataError("two columns have this name", file=path, column=twice)
    return names


def check_marks(path: str) -> None:
    """Raise DataError if the file does not start and end as Parquet files do."""
    with open_file(path) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        start = stream.read(len(MAGIC))
        stream.seek(max(size - len(MAGIC), 0))
        end = stream.read(len(MAGIC))
    if not size:
        raise DataError("the file is empty: not even Parquet's footer is there", file=path)
    if ENCRYPTED in (start, end):
        raise DataError("is encrypted, which is not read here", file=path, hint="Write it anew without encryption")
    if start != MAGIC:
        raise DataError(f"is no Parquet file: it starts with {start!r}, not {MAGIC!r}", file=path)
    if end != MAGIC or size < 3 * len(MAGIC):
        raise DataError("is cut short: it starts as a Parquet file, but does not end as one", file=path)


def read_footer(path: str, chosen: Callable[[list[str]], list[str]], first_path: str, first: list[str]) -> Footer:
    """The footer of a file, as far as it tells of the columns `chosen` of its own. Raises DataError for a file that is
    damaged, one whose columns are not those of the first file, or a column that no feature can hold.
    """
    check_marks(path)
    with open_parquet(path) as file:
        names = chosen(_names(path, file))
        _same_columns(path, names, first_path, first)
        schema, metadata = file.schema_arrow, file.metadata
        types = dict(zip(schema.names, schema.types, strict=True))
        columns = _leaves(file, schema.names)
        leaves = [place for name in names for place in columns.get(name, ())]
        groups = [_group(metadata, number, sorted(leaves)) for number in range(metadata.num_row_groups)]
        wide = {name: _wide(metadata, columns.get(name, ())) for name in names if is_uint64(types[name])}
        kinds = {name: _kind(path, name, types[name], wide.get(name)) for name in names}
    return Footer(
        path, tuple(groups), kinds, frozenset(wide), frozenset(name for name, known in wide.items() if known is None)
    )


def mix(one: Kind, two: Kind) -> bool:
    """Whether two files may store a column as these kinds: both numbers, or both not; both lists, or both not."""
    if "missing" in (one, two):
        return True
    numbers = [kind.removesuffix(LIST) in ("int", "float") for kind in (one, two)]
    return numbers[0] == numbers[1] and one.endswith(LIST) == two.endswith(LIST)


def _same_columns(path: str, names: list[str], first_path: str, first: list[str]) -> None:
    for name in sorted({*names} ^ {*first}):
        lacking, other = (path, first_path) if name in first else (first_path, path)
        raise DataError(
            f"has no column {name!r}, which {other} has",
            file=lacking,
            hint="All files need the same columns; `data.columns` can list those that they have in common",
        )


def _group(metadata: Any, number: int, leaves: list[int]) -> Group:
    group = metadata.row_group(number)
    encoded = sum(group.column(place).total_uncompressed_size for place in leaves)
    return Group(number, group.num_rows, max(encoded, group.num_rows * len(leaves) * VALUE))


def _kind(path: str, name: str, arrow: pa.DataType, wide: bool | None) -> Kind:
    try:
        return stored_kind(arrow, wide=bool(wide))
    except UnfitError as error:
        raise DataError(
            str(error), file=path, column=name, hint="`data.columns` can list the columns to read without this one"
        ) from None


def _leaves(file: Any, names: Sequence[str]) -> dict[str, list[int]]:
    """For each of the file's columns the places of its leaves, which are its columns on disk. A name may have dots."""
    known, found = frozenset(names), dict[str, list[int]]()
    for place in range(len(file.schema)):
        path = name = file.schema.column(place).path
        while name not in known and "." in name:
            name = name.rpartition(".")[0]
        found.setdefault(name if name in known else path.partition(".")[0], []).append(place)
    return found


def _wide(metadata: Any, places: Sequence[int]) -> bool | None:
    """Whether a uint64 column holds values beyond int64, as its statistics have it; None if they do not tell."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found = [group.column(place).statistics for group in groups for place in places if group.num_rows]
    if any(own is None or not (own.has_min_max or own.num_values == 0) for own in found):
        return None
    return any(own.has_min_max and own.max > LARGEST for own in found)
