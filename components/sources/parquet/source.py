"""Parquet files as a source: row groups are read in parallel, and only the columns that are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import is_folder
from headrace.components.examples.parts import LARGEST_PART, MOST_PARTS, grouped
from headrace.components.examples.skips import Skipped, Skips
from headrace.components.sources.arrow_files import has_files
from headrace.components.sources.base import (
    HEAD_FILES,
    Head,
    ParallelMap,
    ScanResult,
    common_types,
    first_pieces,
    serial_map,
)
from headrace.components.sources.conversion import BadRows, batch_rows, convert_columns, row_errors, slice_batch
from headrace.components.sources.files import SourceFiles
from headrace.components.sources.nested import flat_columns
from headrace.components.sources.parquet.footers import (
    Footer,
    RowGroup,
    are_compatible,
    column_names,
    column_types,
    leaves_of,
    open_parquet,
    partition_kind,
    partition_values,
    read_footer,
    same_partitions,
)
from headrace.components.sources.stored_types import always_fits, beyond_int64, holds_lists, text_kind
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import ParquetSource

SMALLEST_PART = 1 << 26
"""Bytes of values. A smaller part takes less than about a second, and a Beam pipeline half of one to start."""

FIRST_ROWS = 1000
"""How many rows are read to measure lists."""

FEW_FILES = 256
"""The number of files whose footers are read in less time than a Beam pipeline takes to start."""


@dataclass(frozen=True)
class RowGroups:
    """Row groups of one file. clashes: columns whose kind contradicts that in an earlier file, with a message each."""

    path: str
    groups: tuple[RowGroup, ...]
    kinds: Mapping[str, Kind]
    unsure: frozenset[str]
    clashes: Mapping[str, str]

    def without(self, names: frozenset[str]) -> RowGroups:
        """The same row groups without these columns, which include the unsure ones."""
        kinds = {name: kind for name, kind in self.kinds.items() if name not in names}
        return replace(self, kinds=kinds, unsure=frozenset())


Part = tuple[RowGroups, ...]


@dataclass(frozen=True)
class ParquetFiles(SourceFiles[ParquetSource]):
    """The Parquet files of one config, in the order of their paths."""

    fork_safe: ClassVar[bool] = True

    @classmethod
    def patterns(cls, source: ParquetSource) -> list[str]:
        """The paths of the config. A folder becomes the pattern of the Parquet files below it."""
        return [folder_pattern(path) for path in source.patterns]

    def columns(self) -> list[str]:
        """The columns in the first file's footer and those in the names of its folders."""
        return self.options.select([*self._stored, *self._partitions(self.files[0])])

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """The row groups of all files, grouped into parts of about the same size."""
        in_parallel = len(self.files) > FEW_FILES or getattr(parallel_map, "always", False)
        footers = (parallel_map if in_parallel else serial_map)("ReadFooters", self._footer, self.files)
        pieces = self._pieces(footers)
        sizes = [sum(group.size for group in piece.groups) for piece in pieces]
        length = min(max(sum(sizes) // MOST_PARTS, SMALLEST_PART), LARGEST_PART)
        return grouped(pieces, sizes, length)

    def head(self) -> Head:
        """The first row groups of the first files, without the columns whose kinds depend on all their values."""
        footers = map(self._footer, self.files[:HEAD_FILES])
        read, _ = first_pieces((footer, *_rows_and_size(footer.groups)) for footer in footers)
        source = replace(self, files=self.files[: len(read)])
        pieces, everything = first_pieces((piece, *_rows_and_size(piece.groups)) for piece in source._pieces(read))
        unsure = frozenset[str]().union(*(piece.unsure for piece in pieces))
        names = tuple(dict.fromkeys(name for piece in pieces for name in piece.kinds if name not in unsure))
        source = replace(source, options=replace(self.options, columns=names))
        part = tuple(piece.without(unsure) for piece in pieces)
        return Head(source, part, whole=everything and len(read) == len(self.files), settled=True)

    def scan(self, part: Part, declared: Mapping[str, Kind]) -> ScanResult:
        """Use the footers; read only columns whose values decide their kind, or which rows to skip."""
        result = ScanResult()
        for piece in _by_file(part):
            for name, clash in piece.clashes.items():
                if name not in declared:
                    raise DataError(
                        clash, column=name, hint="Set `data.types.{column}: string` to read it as text in all files"
                    )
            rows = sum(group.rows for group in piece.groups)
            kinds = {**piece.kinds, **self._unsure_kinds(piece)}
            skipped = self._skipped(piece, {**kinds, **declared}) if self.options.skip_bad else Skipped()
            size = sum(group.size for group in piece.groups)
            result += ScanResult({piece.path: rows - skipped.count}, size, kinds, skipped)
        return result

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Row group by row group."""
        for piece in _by_file(part):
            for batch, group, start, bad in self._read(piece, kinds):
                if bad and not self.options.skip_bad:
                    raise next(_errors(bad, piece, group, start))()
                yield from slice_batch(batch)

    def stored_types(self, kinds: Mapping[str, Kind]) -> dict[str, pa.DataType]:
        """None of the columns in the names of folders."""
        return common_types(map(self._types, self.files), kinds)

    def _types(self, path: str) -> dict[str, pa.DataType]:
        with open_parquet(path) as file:
            types = column_types(path, file)
        return {name: types[name] for name in self.options.select([*types]) if name not in self._partitions(path)}

    @cached_property
    def _stored(self) -> list[str]:
        return column_names(self.files[0])

    def _partitions(self, path: str) -> dict[str, str | None]:
        """The columns in the names of the folders, except those that the file contains itself."""
        if self.source.partitions == "none":
            return {}
        return {name: value for name, value in partition_values(path).items() if name not in self._stored}

    def _footer(self, path: str) -> Footer:
        first = self.files[0]
        same_partitions(path, self._partitions(path), first, self._partitions(first), self.source.section)
        return read_footer(path, self.options.select, first, self.options.select(self._stored))

    def _pieces(self, footers: Sequence[Footer]) -> list[RowGroups]:
        """One piece for each row group, and an empty one for a file without row groups."""
        folders, first = self._folder_kinds(), _first_kinds(footers)
        return [
            RowGroups(footer.path, groups, {**footer.kinds, **folders}, footer.unsure, _clashes(footer, first))
            for footer in footers
            for groups in _each(footer.groups)
        ]

    def _folder_kinds(self) -> dict[str, Kind]:
        folders = [self._partitions(path) for path in self.files]
        return {
            name: partition_kind([values[name] for values in folders]) for name in self.options.select(list(folders[0]))
        }

    def _unsure_kinds(self, piece: RowGroups) -> dict[str, Kind]:
        """The kinds of the columns that the footer leaves open."""
        if not piece.unsure:
            return {}
        wide = dict.fromkeys(piece.unsure, False)
        with open_parquet(piece.path) as file:
            stored = column_types(piece.path, file)
            for group in piece.groups:
                for batch in _batches(file, stored, list(wide), group):
                    wide |= {name: wide[name] or beyond_int64(batch.column(name)) for name in wide}
        return {name: text_kind(piece.kinds[name]) if wide[name] else piece.kinds[name] for name in wide}

    def _skipped(self, piece: RowGroups, kinds: Mapping[str, Kind]) -> Skipped:
        """Find the rows to skip by reading all values that may not fit."""
        skips = Skips()
        for _, group, start, bad in self._read(piece, kinds, only_unsure=True):
            for error in _errors(bad, piece, group, start):
                skips.add(error)
        return skips.skipped

    def _read(
        self, piece: RowGroups, kinds: Mapping[str, Kind], *, only_unsure: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, RowGroup, int, BadRows]]:
        """Yield each batch with its row group, the number of its first row in the group, and its bad rows.

        only_unsure: read only the columns that may have a value that does not fit.
        """
        folders = {name: value for name, value in self._partitions(piece.path).items() if name in kinds}
        with open_parquet(piece.path) as file:
            stored = column_types(piece.path, file)
            types = {name: stored[name] for name in kinds if name not in folders}
            names = [name for name, arrow in types.items() if not (only_unsure and always_fits(arrow, kinds[name]))]
            for group in piece.groups if names or not only_unsure else ():
                start = 0
                for batch in _batches(file, stored, names, group):
                    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                    columns |= {name: _repeat(value, batch.num_rows) for name, value in folders.items()}
                    ordered = {name: columns[name] for name in kinds if name in columns}
                    converted, bad = convert_columns(ordered, kinds, piece.path)
                    yield converted, group, start, bad
                    start += batch.num_rows
                _check_rows(piece.path, group, start)


def _by_file(part: Part) -> Iterator[RowGroups]:
    """The row groups of each file together: to open it takes time and memory for all row groups that it has."""
    for _, pieces in groupby(part, key=attrgetter("path")):
        first, *others = pieces
        yield replace(first, groups=(*first.groups, *(group for piece in others for group in piece.groups)))


def folder_pattern(path: str) -> str:
    """The path, or if it names folders, the pattern of the Parquet files below them."""
    if has_files(path):
        return path
    below = f"{path.rstrip('/')}/**/*.parquet"
    if has_files(below):
        return below
    if is_folder(path):
        raise DataError("there are no `*.parquet` files in the folder or below it", file=path)
    return path


def _batches(
    file: Any, stored: Mapping[str, pa.DataType], names: Sequence[str], group: RowGroup
) -> Iterator[pa.RecordBatch]:
    rows = batch_rows(group.size, group.rows, len(names))
    return _flat_batches(file, stored, names, rows, group.number)


def _flat_batches(
    file: Any, stored: Mapping[str, pa.DataType], names: Sequence[str], rows: int, number: int
) -> Iterator[pa.RecordBatch]:
    """Read columns of a row group in batches of up to so many rows, without structs. stored: all columns of the file
    with their types.
    """
    leaves = leaves_of(stored)
    parts = file.reader.column_paths  # `file.schema` refers to itself, so what is known of the file would stay
    paths = [".".join(parts[leaf]) for name in names for leaf in leaves[name]]
    for batch in file.iter_batches(rows, columns=paths, use_threads=False, row_groups=[number]):
        if any(pa.types.is_nested(field.type) for field in batch.schema):
            found, columns = flat_columns(batch)
            yield pa.RecordBatch.from_arrays(columns, found)
        else:
            yield batch


def _repeat(value: str | None, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), rows)


def _check_rows(path: str, group: RowGroup, rows: int) -> None:
    if rows != group.rows:
        raise DataError(f"is damaged: row group {group.number} has {rows} rows, not {group.rows}", file=path)


def _errors(bad: BadRows, piece: RowGroups, group: RowGroup, start: int) -> Iterator[Callable[[], DataError]]:
    position = f"of row group {group.number} (both counted from 0)"
    return row_errors(bad, piece.path, lambda row: f"row {start + row} {position}")


def _first_kinds(footers: Sequence[Footer]) -> dict[str, tuple[str, Kind]]:
    """For each column the first file in which it has values, and its kind there."""
    first: dict[str, tuple[str, Kind]] = {}
    for footer in footers:
        for name, kind in footer.kinds.items():
            if name not in first or first[name][1] == "missing":
                first[name] = (footer.path, kind)
    return first


def _clashes(footer: Footer, first: Mapping[str, tuple[str, Kind]]) -> dict[str, str]:
    """The columns whose kind contradicts that in an earlier file, each with a message."""
    return {
        name: f"is {kind} in {footer.path}, but {first[name][1]} in {first[name][0]}"
        for name, kind in footer.kinds.items()
        if not are_compatible(kind, first[name][1]) and name not in footer.unsigned
    }


def _rows_and_size(groups: Sequence[RowGroup]) -> tuple[int, int]:
    return sum(group.rows for group in groups), sum(group.size for group in groups)


def _each(groups: tuple[RowGroup, ...]) -> list[tuple[RowGroup, ...]]:
    return [(group,) for group in groups] or [()]


def _holds_values(arrow: pa.DataType) -> bool:
    """Whether it is a list, and not one of lists, which cannot be read anyway."""
    return holds_lists(arrow) and not holds_lists(arrow.value_type)
