"""Stored datasets as a source: ranges of record batches are read in parallel, mapped into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import DataError
from headrace.common.storage.files import is_remote, stat
from headrace.components.examples.parts import grouped, part_length
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import HEAD_FILES, Head, ParallelMap, ScanResult, common_types, first_pieces
from headrace.components.sources.conversion import BadRows, convert_columns, row_errors, slice_batch
from headrace.components.sources.datasets.streams import (
    batches_of,
    check_complete,
    class_names,
    features_of,
    folder_pattern,
    is_image,
    listed,
    opened,
)
from headrace.components.sources.files import SourceFiles
from headrace.components.sources.parquet.footers import are_compatible
from headrace.components.sources.stored_types import beyond_int64, holds_lists, is_uint64, kind_in_file
from headrace.components.sources.types import LIST, Kind, first_duplicate
from headrace.configs.schema.sources import DatasetsSource

FIRST_ROWS = 1000
"""How many rows are read to measure lists."""
UNKNOWN_CLASS = -1
"""What `datasets` writes for a class that is not known."""


@dataclass(frozen=True)
class Batches:
    """Record batches of one file, from the number `start` to before `stop`; None: to the end.

    size: their bytes; rows: how many they have, 0 if that is not known.
    """

    path: str
    start: int
    stop: int | None
    size: int
    rows: int = 0


Part = tuple[Batches, ...]


@dataclass(frozen=True)
class StoredDatasets(SourceFiles[DatasetsSource]):
    """The files of one config, in the order of their paths."""

    fork_safe: ClassVar[bool] = True

    @classmethod
    def ordered(cls, files: Sequence[str]) -> Sequence[str]:
        """Those that a dataset consists of."""
        return listed(files)

    @classmethod
    def patterns(cls, source: DatasetsSource) -> list[str]:
        """The paths of the config. A folder becomes the pattern of the files in it."""
        return [folder_pattern(path) for path in source.patterns]

    def columns(self) -> list[str]:
        """The columns of the first file."""
        return self.options.select(self._first.names)

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """The record batches of all files, grouped into parts of about the same size."""
        check_complete(self.files)
        pieces = [piece for own in parallel_map("ListBatches", self._pieces, self.files) for piece in own]
        sizes = [piece.size for piece in pieces]
        return [_joined(part) for part in grouped(pieces, sizes, part_length(sum(sizes), len(self.columns())))]

    def head(self) -> Head:
        """The first record batches of the first files, without the columns whose kinds depend on all their values."""
        pieces = chain.from_iterable(map(self._pieces, self.files[:HEAD_FILES]))
        chosen, everything = first_pieces((piece, piece.rows, piece.size) for piece in pieces)
        part = _joined(chosen)
        names = tuple(name for name in self.columns() if not is_uint64(self._first.field(name).type))
        files = tuple(piece.path for piece in part)
        source = replace(self, files=files, options=replace(self.options, columns=names))
        return Head(source, part, whole=everything and len(files) == len(self.files), settled=True)

    def scan(self, part: Part, declared: Mapping[str, Kind]) -> ScanResult:
        """Count the rows. Values are read only if they decide the kind of a column, or which rows to skip."""
        result = ScanResult()
        for piece in part:
            kinds = self._kinds(piece, declared)
            skips, rows, first = Skips(), 0, 0
            for batch in batches_of(piece.path, piece.start, piece.stop):
                bad = self._converted(piece.path, batch, {**kinds, **declared})[1] if self.options.skip_bad else {}
                for error in row_errors(bad, piece.path, _place(piece, first)):
                    skips.add(error)
                rows += batch.num_rows - len(bad)
                first += batch.num_rows
            result += ScanResult({piece.path: rows}, piece.size, kinds, skips.skipped)
        return result

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        for piece in part:
            first = 0
            for batch in batches_of(piece.path, piece.start, piece.stop):
                converted, bad = self._converted(piece.path, batch, kinds)
                if bad and not self.options.skip_bad:
                    raise next(row_errors(bad, piece.path, _place(piece, first)))()
                first += batch.num_rows
                yield from slice_batch(converted)

    def stored_types(self, kinds: Mapping[str, Kind]) -> dict[str, pa.DataType]:
        """None of classes and images, which are stored as something else than what they mean."""
        return common_types((_plain_types(_schema(path)) for path in self.files), kinds)

    @cached_property
    def _first(self) -> pa.Schema:
        return _schema(self.files[0])

    def _pieces(self, path: str) -> list[Batches]:
        """One piece for each record batch, or for a remote file, which would have to be read for that."""
        self._check_columns(path)
        if is_remote(path):
            return [Batches(path, 0, None, stat(path).size)]
        found = enumerate(batches_of(path))
        pieces = [Batches(path, at, at + 1, batch.nbytes, batch.num_rows) for at, batch in found]
        return pieces or [Batches(path, 0, None, 0)]

    def _check_columns(self, path: str) -> None:
        """Raise DataError if the columns of a file differ from those of the first one."""
        schema, first = _schema(path), self.files[0]
        names, expected = self.options.select(schema.names), self.columns()
        for name in sorted({*names} ^ {*expected}):
            lacking, other = (path, first) if name in expected else (first, path)
            hint = "All files need the same columns; list the ones that they share in `data.columns`"
            raise DataError(f"has no column {name!r}, which {other} has", file=lacking, hint=hint)
        for name in names:
            kind, before = _kind(path, schema, name, wide=False), _kind(first, self._first, name, wide=False)
            if not are_compatible(kind, before):
                raise DataError(f"is {kind} in {path}, but {before} in {first}", column=name)

    def _kinds(self, piece: Batches, declared: Mapping[str, Kind]) -> dict[str, Kind]:
        """The kinds of the columns. Those of uint64 that are not declared are read."""
        schema = _schema(piece.path)
        unsure = [name for name in self.columns() if is_uint64(schema.field(name).type) and name not in declared]
        wide = dict.fromkeys(unsure, False)
        for batch in batches_of(piece.path, piece.start, piece.stop) if wide else ():
            wide |= {name: wide[name] or beyond_int64(batch.column(name)) for name in wide}
        return {name: _kind(piece.path, schema, name, wide=wide.get(name, False)) for name in self.columns()}

    def _converted(self, path: str, batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> tuple[pa.RecordBatch, BadRows]:
        features = features_of(batch.schema)
        columns = dict[str, pa.Array]()
        for name in (name for name in kinds if name in batch.schema.names):
            column, feature = batch.column(name), features.get(name)
            names = class_names(feature)
            if names and kinds[name].removesuffix(LIST) not in ("int", "float"):
                column = _as_names(column, names, path, name)
            elif is_image(feature, column.type):
                column = _image_bytes(column, path, name)
            columns[name] = column
        return convert_columns(columns, kinds, path)


def _joined(pieces: Sequence[Batches]) -> Part:
    """The pieces, those of one file as one: a file is read from its start up to a piece, if only its batches' heads."""
    by_file: dict[str, list[Batches]] = {}
    for piece in pieces:
        by_file.setdefault(piece.path, []).append(piece)
    return tuple(
        Batches(path, own[0].start, own[-1].stop, sum(piece.size for piece in own)) for path, own in by_file.items()
    )


def _schema(path: str) -> pa.Schema:
    with opened(path) as reader:
        schema = reader.schema
    if (twice := first_duplicate(schema.names)) is not None:
        raise DataError("two columns have this name", file=path, column=twice)
    return schema


def _plain_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    features = {field.name: features_of(schema).get(field.name) for field in schema}
    return {
        field.name: field.type
        for field in schema
        if not class_names(features[field.name]) and not is_image(features[field.name], field.type)
    }


def _kind(path: str, schema: pa.Schema, name: str, *, wide: bool) -> Kind:
    arrow, feature = schema.field(name).type, features_of(schema).get(name)
    if class_names(feature):
        return "string list" if holds_lists(arrow) else "string"
    if is_image(feature, arrow):
        return "bytes"
    return kind_in_file(path, name, arrow, wide=wide)


def _as_names(column: pa.Array, names: Sequence[str], path: str, name: str) -> pa.Array:
    """Classes, or lists of them, by their names; missing where they are not known.

    Raises DataError for an id that has no name.
    """
    if holds_lists(column.type):
        column = column.cast(pa.list_(column.type.value_type))
        lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(offsets, _as_names(column.flatten(), names, path, name), mask=mask)
    ids = column.cast(pa.int64())
    ids = pc.if_else(pc.equal(ids, UNKNOWN_CLASS), pa.scalar(None, pa.int64()), ids)
    found = pc.min_max(ids).as_py()
    wrong = next((each for each in found.values() if each is not None and not 0 <= each < len(names)), None)
    if wrong is not None:
        what = f"has the class {wrong}, and the dataset names the {len(names)} classes 0 to {len(names) - 1}"
        raise DataError(what, file=path, column=name, hint="Set `data.types.{column}: int` to read the numbers")
    return pa.array(names, pa.string()).take(ids)


def _image_bytes(column: pa.Array, path: str, name: str) -> pa.Array:
    """The content of image files. Raises DataError if one is not in the dataset, but only its path."""
    content = pc.struct_field(column, "bytes")
    if content.null_count > column.null_count:
        what = "holds paths of images, not the images themselves"
        raise DataError(what, file=path, column=name, hint="`save_to_disk` of `datasets` stores them in the dataset")
    return content


def _place(piece: Batches, first: int) -> Callable[[int], str]:
    """Describes the position of a row of a record batch, whose first row has the number `first` in the piece."""
    return lambda row: f"row {first + row} from the start of record batch {piece.start} (both counted from 0)"
