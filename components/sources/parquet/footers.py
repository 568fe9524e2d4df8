"""Metadata of Parquet files: row groups and kinds from the footer, and columns in the names of folders, as Hive, Spark
and pyarrow partition data:

trips/year=2026/month=3/part-0.parquet      year is 2026, month is 3
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import arrow_file, is_remote, open_file
from headrace.components.sources.arrow_files import arrow_errors
from headrace.components.sources.nested import flat_types
from headrace.components.sources.stored_types import is_uint64, kind_in_file
from headrace.components.sources.types import LIST, Kind, first_duplicate

MAGIC, ENCRYPTED = b"PAR1", b"PARE"
MAX_INT64 = 2**63 - 1

VALUE = 8
"""The least number of bytes that a value counts for, however well dictionaries and runs compress it on disk."""

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What Hive writes for a missing value."""

_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")


@dataclass(frozen=True)
class RowGroup:
    """A row group. number: its index in the file; size: an estimate of the bytes of the values that are read, which is
    their encoded size, but at least VALUE for each.
    """

    number: int
    rows: int
    size: int


@dataclass(frozen=True)
class Footer:
    """The row groups and the kinds of a file. unsigned: the columns of uint64; unsure: those among them whose values
    must be read to find out whether they fit in int64.
    """

    path: str
    groups: tuple[RowGroup, ...]
    kinds: dict[str, Kind]
    unsigned: frozenset[str]
    unsure: frozenset[str]


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """The file as a pyarrow.parquet.ParquetFile. Errors inside the block become DataErrors that name it."""
    import pyarrow.parquet as pq

    buffer = 1 << 23 if is_remote(path) else 1 << 20
    options = {"pre_buffer": False, "buffer_size": buffer, "page_checksum_verification": True}
    with (
        arrow_errors(path, "is a damaged Parquet file, or not a standard one"),
        pq.ParquetFile(arrow_file(path), **options) as file,
    ):
        yield file


def column_names(path: str) -> list[str]:
    """The names of the columns, in the order of the file. Those within structs have the names that lead to them."""
    check_marks(path)
    with open_parquet(path) as file:
        return list(column_types(path, file))


def column_types(path: str, file: Any) -> dict[str, pa.DataType]:
    """Name to type of each column of an open file. Raises DataError for a name that occurs twice."""
    found = list(flat_types(file.schema_arrow))
    if (twice := first_duplicate([name for name, _ in found])) is not None:
        raise DataError("two columns have this name", file=path, column=twice)
    return dict(found)


def check_marks(path: str) -> None:
    """Raise DataError if the file does not start and end like a Parquet file."""
    with open_file(path) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        start = stream.read(len(MAGIC))
        stream.seek(max(size - len(MAGIC), 0))
        end = stream.read(len(MAGIC))
    if not size:
        raise DataError("the file is empty", file=path)
    if ENCRYPTED in (start, end):
        raise DataError("is encrypted, which is not supported", file=path, hint="Write it again without encryption")
    if start != MAGIC:
        raise DataError(f"is not a Parquet file: it starts with {start!r}, not {MAGIC!r}", file=path)
    if end != MAGIC or size < 3 * len(MAGIC):
        raise DataError("is truncated: it starts like a Parquet file, but does not end like one", file=path)


def read_footer(path: str, select: Callable[[list[str]], list[str]], first_path: str, first: list[str]) -> Footer:
    """The footer of a file, reduced to the columns that `select` returns.

    Raises DataError for a damaged file, for columns that differ from those of the first file, and for a column that no
    feature can hold.
    """
    check_marks(path)
    with open_parquet(path) as file:
        types, metadata = column_types(path, file), file.metadata
        names = select(list(types))
        _same_columns(path, names, first_path, first)
        columns = leaves_of(types)
        leaves = [leaf for name in names for leaf in columns[name]]
        groups = [_group(metadata, number, sorted(leaves)) for number in range(metadata.num_row_groups)]
        wide = {name: _wide(metadata, columns[name]) for name in names if is_uint64(types[name])}
        kinds = {name: kind_in_file(path, name, types[name], wide=bool(wide.get(name))) for name in names}
    return Footer(
        path, tuple(groups), kinds, frozenset(wide), frozenset(name for name, known in wide.items() if known is None)
    )


def are_compatible(one: Kind, two: Kind) -> bool:
    """Whether two files may store a column as these kinds: both or neither are numbers, and both or neither lists."""
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
            hint="All files need the same columns; list the ones that they share in `data.columns`",
        )


def _group(metadata: Any, number: int, leaves: list[int]) -> RowGroup:
    group = metadata.row_group(number)
    encoded = sum(group.column(leaf).total_uncompressed_size for leaf in leaves)
    return RowGroup(number, group.num_rows, max(encoded, group.num_rows * len(leaves) * VALUE))


def leaves_of(types: Mapping[str, pa.DataType]) -> dict[str, range]:
    """For each column the numbers of its leaves, which are the columns on disk, in the order of the schema."""
    leaves, first = dict[str, range](), 0
    for name, arrow in types.items():
        leaves[name] = range(first, first := first + _number_of_leaves(arrow))
    return leaves


def _number_of_leaves(arrow: pa.DataType) -> int:
    """More than one in maps, and where a list of lists, which no column can hold, has structs in it."""
    if isinstance(arrow, pa.BaseExtensionType):
        return _number_of_leaves(arrow.storage_type)
    inner = list(arrow) if pa.types.is_struct(arrow) else []
    if pa.types.is_map(arrow):
        inner = [arrow.key_field, arrow.item_field]
    elif pa.types.is_nested(arrow) and not inner:
        inner = [arrow.value_field]
    return sum(_number_of_leaves(field.type) for field in inner) if inner else 1


def _wide(metadata: Any, leaves: Sequence[int]) -> bool | None:
    """Whether a uint64 column has values beyond int64, according to its statistics; None if they do not say."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    statistics = [group.column(leaf).statistics for group in groups for leaf in leaves if group.num_rows]
    if any(each is None or not (each.has_min_max or each.num_values == 0) for each in statistics):
        return None
    return any(each.has_min_max and each.max > MAX_INT64 for each in statistics)


def partition_values(path: str) -> dict[str, str | None]:
    """The columns in the names of the folders above a file; None for a missing value."""
    matches = (_FOLDER.fullmatch(folder) for folder in PurePosixPath(path).parent.parts)
    pairs = {unquote(match[1]): unquote(match[2]) for match in matches if match}
    return {name: None if value == NO_VALUE else value for name, value in pairs.items()}


def same_partitions(
    path: str, own: Mapping[str, object], first_path: str, first: Mapping[str, object], section: str
) -> None:
    """Raise DataError if the folders of a file name other columns than those of the first file.

    section: that of the source, for messages.
    """
    for name in {**first, **own}:
        lacking, other = (path, first_path) if name not in own else (first_path, path)
        if name not in own or name not in first:
            raise DataError(
                f"no folder on this path has the partition column {name!r}, which the path of {other} has",
                file=lacking,
                hint=f'Set `partitions: "none"` under `{section}` to read no columns from the names of folders',
            )


def partition_kind(values: Sequence[str | None]) -> Kind:
    """The kind of a partition column: int if all values are written like an int64 (`3`, not `03`), else string."""
    texts = [value for value in values if value is not None]
    if not texts:
        return "missing"
    return "int" if all(_INTEGER.fullmatch(text) for text in texts) else "string"
