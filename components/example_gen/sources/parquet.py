"""Parquet files: row groups read in parallel, and only the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.example_gen.columnar.fit import Bad, cut, fit, rows_in_batch
from headrace.components.example_gen.columnar.footers import (
    Footer,
    Group,
    column_names,
    mix,
    open_parquet,
    read_footer,
)
from headrace.components.example_gen.columnar.partitions import partition_kind, partition_values, same_partitions
from headrace.components.example_gen.columnar.stored import always_fits, as_text_kind, beyond_int64, holds_lists
from headrace.components.example_gen.parts import LARGEST_PART, MOST_PARTS, grouped
from headrace.components.example_gen.sources.base import TOLD, Head, Reading, Skipped, Spread, Survey, in_place
from headrace.components.example_gen.span_paths import glob_of
from headrace.components.example_gen.storage import is_folder, resolve
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError
from headrace.configs.sources import ParquetSource

SMALLEST_PART = 1 << 26
"""Bytes of values. Less takes about a second, and a Beam pipeline about half of one to start."""

FIRST_ROWS = 1000
"""Rows that are looked at for lists."""

MANY = 256
"""Files whose footers are read sooner than a Beam pipeline starts."""


@dataclass(frozen=True)
class Piece:
    """Row groups of one file. `clashes`: columns that the file stores otherwise than the first file, and how."""

    path: str
    groups: tuple[Group, ...]
    kinds: Mapping[str, Kind]
    unsure: frozenset[str]
    clashes: Mapping[str, str]


Part = tuple[Piece, ...]


@dataclass(frozen=True)
class ParquetFiles:
    """The Parquet files of one config, in the order of their paths."""

    source: ParquetSource
    files: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: ParquetSource, files: Sequence[str] | None, reading: Reading) -> ParquetFiles:
        """Find the files, unless they are given."""
        found = files if files is not None else resolve(cls.patterns(source))
        return cls(source, tuple(sorted(found)), reading)

    @classmethod
    def patterns(cls, source: ParquetSource) -> list[str]:
        """The paths of the config, with a folder as the pattern of the files below it."""
        paths = [source.path] if isinstance(source.path, str) else source.path
        return [folder_pattern(path) for path in paths]

    def columns(self) -> list[str]:
        """The names in the first file's footer, and those in the names of its folders."""
        return self.reading.chosen([*self._stored, *self._partitions(self.files[0])])

    def parts(self, spread: Spread) -> list[Part]:
        """The row groups of all files, grouped into parts of about the same size."""
        many = spread if len(self.files) > MANY or getattr(spread, "always", False) else in_place
        footers = many("ReadFooters", self._footer, self.files)
        pieces = self._pieces(footers)
        sizes = [sum(group.size for group in piece.groups) for piece in pieces]
        length = min(max(sum(sizes) // MOST_PARTS, SMALLEST_PART), LARGEST_PART)
        return grouped(pieces, sizes, length)

    def head(self) -> Head:
        """The first row group of the first file, without columns whose kinds only a pass over all of it would tell."""
        piece, *more = (piece for part in replace(self, files=self.files[:1]).parts(in_place) for piece in part)
        names = tuple(name for name in piece.kinds if name not in piece.unsure)
        source = replace(self, files=self.files[:1], reading=replace(self.reading, columns=names))
        sure = replace(piece, kinds={name: piece.kinds[name] for name in names}, unsure=frozenset())
        return Head(source, (sure,), whole=not more and len(self.files) == 1, settled=True)

    def survey(self, part: Part, declared: Mapping[str, Kind]) -> Survey:
        """From the footers; a pass only over columns whose values decide their kind, or which rows to leave out."""
        found = Survey()
        for piece in part:
            for name, clash in piece.clashes.items():
                if name not in declared:
                    raise DataError(
                        clash, column=name, hint=f"`data.types: {{{name}: string}}` reads it as text in all"
                    )
            rows = sum(group.rows for group in piece.groups)
            kinds = {**piece.kinds, **self._looked_up(piece)}
            skipped = self._skipped(piece, {**kinds, **declared}) if self.reading.skip_bad else Skipped()
            size = sum(group.size for group in piece.groups)
            found += Survey({piece.path: rows - skipped.count}, size, kinds, skipped)
        return found

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Row group by row group."""
        for piece in part:
            for batch, group, start, bad in self._read(piece, kinds):
                if bad and not self.reading.skip_bad:
                    row, (name, what) = next(iter(bad.items()))
                    raise DataError(f"{_place(group, start + row)} {what}", file=piece.path, column=name)
                yield from cut(batch)

    def most_values(self, names: Sequence[str]) -> dict[str, int]:
        """Of the columns of lists among these, the most values that one of the first rows of the first file has."""
        with open_parquet(self.files[0]) as file:
            schema = file.schema_arrow
            stored = dict(zip(schema.names, schema.types, strict=True))
            lists = [name for name in names if name in stored and holds_lists(stored[name])]
            batch = next(file.iter_batches(FIRST_ROWS, columns=lists, use_threads=False), None) if lists else None
        if batch is None:
            return {}
        return {name: pc.max(pc.list_value_length(batch.column(name))).as_py() or 0 for name in lists}

    @cached_property
    def _stored(self) -> list[str]:
        return column_names(self.files[0])

    def _partitions(self, path: str) -> dict[str, str | None]:
        """The columns in the names of the folders; one that the file holds itself is read from the file."""
        if self.source.partitions == "none":
            return {}
        return {name: value for name, value in partition_values(path).items() if name not in self._stored}

    def _footer(self, path: str) -> Footer:
        first = self.files[0]
        same_partitions(path, self._partitions(path), first, self._partitions(first))
        return read_footer(path, self.reading.chosen, first, self.reading.chosen(self._stored))

    def _pieces(self, footers: Sequence[Footer]) -> list[Piece]:
        """A piece for each row group; for a file without any, one that is empty."""
        folders, first = self._folder_kinds(), _first_of_each(footers)
        return [
            Piece(footer.path, groups, {**footer.kinds, **folders}, footer.unsure, _clashes(footer, first))
            for footer in footers
            for groups in _each(footer.groups)
        ]

    def _folder_kinds(self) -> dict[str, Kind]:
        folders = [self._partitions(path) for path in self.files]
        return {name: partition_kind([own[name] for own in folders]) for name in self.reading.chosen(list(folders[0]))}

    def _looked_up(self, piece: Piece) -> dict[str, Kind]:
        """The kinds of columns that the footer leaves open."""
        if not piece.unsure:
            return {}
        wide = dict.fromkeys(piece.unsure, False)
        with open_parquet(piece.path) as file:
            for group in piece.groups:
                for batch in _batches(file, group, list(wide)):
                    wide |= {name: wide[name] or beyond_int64(batch.column(name)) for name in wide}
        return {name: as_text_kind(piece.kinds[name]) if wide[name] else piece.kinds[name] for name in wide}

    def _skipped(self, piece: Piece, kinds: Mapping[str, Kind]) -> Skipped:
        """Look at all values that may be unfit."""
        count, told = 0, list[str]()
        for _, group, start, bad in self._read(piece, kinds, only_unsure=True):
            count += len(bad)
            told += [
                str(DataError(f"{_place(group, start + row)} {what}", file=piece.path, column=name))
                for row, (name, what) in list(bad.items())[: TOLD - len(told)]
            ]
        return Skipped(count, tuple(told))

    def _read(
        self, piece: Piece, kinds: Mapping[str, Kind], *, only_unsure: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Group, int, Bad]]:
        """Each batch with its row group, the number of its first row in it, and the rows that did not fit.

        only_unsure: read only the columns that may hold a value that does not fit.
        """
        folders = {name: value for name, value in self._partitions(piece.path).items() if name in kinds}
        with open_parquet(piece.path) as file:
            schema = file.schema_arrow  # made anew by each access
            stored = dict(zip(schema.names, schema.types, strict=True))
            types = {name: stored[name] for name in kinds if name not in folders}
            names = [name for name, own in types.items() if not (only_unsure and always_fits(own, kinds[name]))]
            for group in piece.groups if names or not only_unsure else ():
                start = 0
                for batch in _batches(file, group, names):
                    columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | _repeated(
                        folders, batch.num_rows
                    )
                    fitted, bad = fit({name: columns[name] for name in kinds if name in columns}, kinds, piece.path)
                    yield fitted, group, start, bad
                    start += batch.num_rows
                _check_rows(piece.path, group, start)


def folder_pattern(path: str) -> str:
    """The path; or where it means folders, the pattern of the Parquet files below them."""
    if _has_files(path):
        return path
    below = f"{path.rstrip('/')}/**/*.parquet"
    if _has_files(below):
        return below
    if is_folder(path):
        raise DataError("the folder has no files `*.parquet` below it", file=path)
    return path


def _has_files(pattern: str) -> bool:
    try:
        return bool(resolve(glob_of(pattern)))
    except DataError:
        return False


def _batches(file: Any, group: Group, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    rows = rows_in_batch(group.size, group.rows, len(names))
    found: Iterator[pa.RecordBatch] = file.iter_batches(
        rows, row_groups=[group.number], columns=list(names), use_threads=False
    )
    return found


def _repeated(values: Mapping[str, str | None], rows: int) -> dict[str, pa.Array]:
    return {name: pa.repeat(pa.scalar(value, pa.string()), rows) for name, value in values.items()}


def _check_rows(path: str, group: Group, rows: int) -> None:
    if rows != group.rows:
        raise DataError(f"is damaged: row group {group.number} has {rows} rows, not {group.rows}", file=path)


def _place(group: Group, row: int) -> str:
    return f"row {row} of row group {group.number} (both counted from 0)"


def _first_of_each(footers: Sequence[Footer]) -> dict[str, tuple[str, Kind]]:
    """For each column the first file that tells its kind, and the kind."""
    first: dict[str, tuple[str, Kind]] = {}
    for footer in footers:
        for name, kind in footer.kinds.items():
            if name not in first or first[name][1] == "missing":
                first[name] = (footer.path, kind)
    return first


def _clashes(footer: Footer, first: Mapping[str, tuple[str, Kind]]) -> dict[str, str]:
    """The columns that do not mix with those of an earlier file, and what to say of them."""
    return {
        name: f"is {kind} in {footer.path}, but {first[name][1]} in {first[name][0]}"
        for name, kind in footer.kinds.items()
        if not mix(kind, first[name][1]) and name not in footer.unsigned
    }


def _each(groups: tuple[Group, ...]) -> list[tuple[Group, ...]]:
    """Each row group by itself; of a file without any, none."""
    return [(group,) for group in groups] or [()]
