"""Avro files as a source: ranges of blocks are decoded in parallel, into columns of the types of the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar
from uuid import UUID

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.storage.files import at_once, stats
from headrace.components.examples.parts import part_length
from headrace.components.examples.skips import Skips
from headrace.components.sources.avro.blocks import AvroBlock, read_blocks, read_header
from headrace.components.sources.avro.schema import arrow_schema, flat_types, has_uuid, pruned
from headrace.components.sources.base import (
    HEAD_FILES,
    Head,
    ParallelMap,
    RowScanner,
    ScanResult,
    common_types,
    first_pieces,
)
from headrace.components.sources.conversion import convert_columns, row_errors, slice_batch
from headrace.components.sources.files import SourceFiles
from headrace.components.sources.jsonl.fast import batch_of
from headrace.components.sources.nested import flat_columns
from headrace.components.sources.parquet.footers import are_compatible
from headrace.components.sources.stored_types import kind_in_file
from headrace.components.sources.streams import LineRange, line_ranges, text_size
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import AvroSource

BATCH_BYTES, BATCH_VALUES = 1 << 22, 1 << 20
"""About how many bytes of blocks, and how many values, are converted together."""

Part = tuple[LineRange, ...]


@dataclass(frozen=True)
class AvroFiles(SourceFiles[AvroSource], RowScanner):
    """The files of one config, in the order of their paths."""

    fork_safe: ClassVar[bool] = True
    open_ended: ClassVar[bool] = True

    def columns(self) -> list[str]:
        """The columns in the schemas of the first files, then the others that the config names."""
        wanted = self.options.columns or ()
        return [*self._head, *(name for name in wanted if name not in self._head)]

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """The files, cut and grouped into parts of about the same size. Reads all of their headers, which are small.

        Raises DataError if their types clash.
        """
        columns = self._agreeing(self.files)
        states = stats(self.files)
        return line_ranges(states, part_length(sum(map(text_size, states)), columns))

    def _agreeing(self, files: Sequence[str]) -> int:
        """The number of columns of these files. Raises DataError if their types clash."""
        first: dict[str, tuple[str, Kind]] = {}
        for path, types in zip(files, at_once(self._types, files), strict=True):
            for name, arrow in types.items():
                kind = self._kind(path, name, arrow)
                if name in first and not are_compatible(kind, first[name][1]):
                    raise DataError(
                        f"is {kind} in {path}, but {first[name][1]} in {first[name][0]}",
                        column=name,
                        hint="Convert the files, or list the columns to read in `data.columns`, without this one",
                    )
                first.setdefault(name, (path, kind))
        return len(first)

    def head(self) -> Head:
        """The first blocks of the first files. The schemas settle the kinds."""
        files = self.files[:HEAD_FILES]
        self._agreeing(files)
        found, everything = first_pieces(chain.from_iterable(map(_first_blocks, files)))
        part = (*{one.path: one for one in found}.values(),)  # the last of each file
        return Head(self, part, whole=everything and len(self.files) == len(files), settled=True)

    def scan_rows(
        self, part: Part, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """`on_batch` receives the columns."""
        result, skips = ScanResult(), Skips()
        for piece in part:
            own = {name: self._kind(piece.path, name, arrow) for name, arrow in self._types(piece.path).items()}
            kinds = {name: declared.get(name, kind) for name, kind in own.items()}
            rows = size = 0
            for batch in self._read(piece, kinds, skips):
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if batch.num_rows:
                    on_batch(batch)
            result += ScanResult({piece.path: rows}, size, kinds)
        return result + ScanResult(skipped=skips.skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The records of each file in their order; a column that its schema does not have is missing."""
        for piece in part:
            for batch in self._read(piece, kinds, Skips(reported=0)):
                yield from slice_batch(batch)

    def stored_types(self, kinds: Mapping[str, Kind]) -> dict[str, pa.DataType]:
        """Those of the schemas."""
        return common_types(map(self._types, self.files), kinds)

    @cached_property
    def _head(self) -> list[str]:
        return list(dict.fromkeys(name for path in self.files[:HEAD_FILES] for name in self._types(path)))

    @cached_property
    def _schemas(self) -> dict[str, tuple[pa.Schema, bool]]:
        """The schemas that have been read, and whether they have UUIDs."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("source", "files", "options")}

    def _schema(self, path: str) -> tuple[pa.Schema, bool]:
        if path not in self._schemas:
            stored = read_header(path).schema
            schema = arrow_schema(stored)
            if schema is None:
                raise DataError("its values are not records, so they have no columns", file=path)
            self._schemas[path] = schema, has_uuid(stored)
        return self._schemas[path]

    def _types(self, path: str) -> dict[str, pa.DataType]:
        """The types of the columns to read in a file."""
        types = flat_types(self._schema(path)[0])
        return {name: types[name] for name in self.options.select([*types])}

    def _kind(self, path: str, name: str, arrow: pa.DataType) -> Kind:
        return kind_in_file(path, name, arrow)

    def _read(self, piece: LineRange, kinds: Mapping[str, Kind], skips: Skips) -> Iterator[pa.RecordBatch]:
        names = [name for name in self._types(piece.path) if name in kinds]
        for blocks in _grouped(read_blocks(piece), len(names)):
            rows = sum(len(block.records) for block in blocks)
            if not kinds:
                yield batch_of([], [], rows)
                continue
            columns: dict[str, pa.Array] = dict.fromkeys(kinds, pa.nulls(rows))
            converted, bad = convert_columns(columns | self._columns(piece.path, blocks, names), kinds, piece.path)
            place = f"after byte {blocks[0].offset:,} (counted from 0)"
            for make_error in row_errors(bad, piece.path, lambda row, place=place: f"record {row} {place}"):  # type: ignore[misc]
                if not self.options.skip_bad:
                    raise make_error()
                skips.add(make_error)
            yield converted

    def _columns(self, path: str, blocks: Sequence[AvroBlock], names: Sequence[str]) -> dict[str, pa.Array]:
        schema, uuids = self._schema(path)
        records = [record for block in blocks for record in block.records]
        fields = pruned(list(schema), frozenset(names))
        arrays = []
        for one in fields:
            values = [record[one.name] for record in records]
            try:
                arrays.append(pa.array(_without_uuids(values) if uuids else values, one.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                what = f"has a value that does not fit its type {one.type}, after byte {blocks[0].offset:,}: {error}"
                raise DataError(what, file=path, column=one.name) from None
        if not arrays:
            return {}
        flat = flat_columns(pa.RecordBatch.from_arrays(arrays, [one.name for one in fields]))
        return dict(zip(*flat, strict=True))


def _first_blocks(path: str) -> Iterator[tuple[LineRange, int, int]]:
    """For each block the range in which it is the last, its rows, and the bytes before it since the last; of a file
    without blocks an empty range.
    """
    offset = max(len(read_header(path).content), 1)
    last = None
    for last in read_blocks(LineRange(path)):
        yield LineRange(path, 0, last.offset + 1), len(last.records), last.offset - offset
        offset = last.offset
    if last is None:
        yield LineRange(path, 0, offset + 1), 0, 0


def _grouped(blocks: Iterator[AvroBlock], columns: int) -> Iterator[list[AvroBlock]]:
    """Adjacent blocks that are large enough to convert together."""
    group: list[AvroBlock] = []
    rows = 0
    for block in blocks:
        group.append(block)
        rows += len(block.records)
        if rows * max(columns, 1) >= BATCH_VALUES or block.offset - group[0].offset >= BATCH_BYTES:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _without_uuids(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {name: _without_uuids(one) for name, one in value.items()}
    return [_without_uuids(one) for one in value] if isinstance(value, list) else value
