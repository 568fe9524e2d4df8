"""TFRecord files of tf.Examples or tf.SequenceExamples as a source, plain or gzip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import DataError
from headrace.common.storage.files import stats
from headrace.components.examples.parts import grouped, part_length
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import (
    HEAD_FILES,
    Head,
    ParallelMap,
    RowScanner,
    ScanResult,
    first_pieces,
)
from headrace.components.sources.conversion import BadRows, convert_columns
from headrace.components.sources.files import SourceFiles
from headrace.components.sources.tfrecord.frames import Frames, frames
from headrace.components.sources.tfrecord.kinds import (
    LENGTHS,
    convert_stacked,
    empty_lists,
    find_kinds,
    single_values,
)
from headrace.components.sources.tfrecord.wire import RecordFeatures, WireError, parse_features
from headrace.components.sources.types import ARROW, LIST, Kind, listed, widest
from headrace.configs.schema.sources import TfrecordSource

if TYPE_CHECKING:
    from headrace.components.sources.tfrecord.decode import DecodedRecords

HEAD_RECORDS, HEAD_FEATURES = 100, 50_000
"""How many records of each of the first files, and features of all of them, are read for the names of the columns."""


@dataclass(frozen=True)
class Records:
    """The records of a file. stop: the number of the last one that is read, from 1; None: all."""

    path: str
    stop: int | None = None

    def frames(self, skips: Skips | None, columns: int) -> Iterator[Frames]:
        """The frames of these records (see `frames`)."""
        for piece in frames(self.path, skips, columns=columns):
            if self.stop is None:
                yield piece
            elif len(own := piece.filter(piece.numbers <= self.stop).numbers):
                yield piece.filter(piece.numbers <= own[-1])
            else:
                return


Part = tuple[Records, ...]


@dataclass(frozen=True)
class TfrecordFiles(SourceFiles[TfrecordSource], RowScanner):
    """The files of one config, in the order of their paths."""

    open_ended: ClassVar[bool] = True

    def columns(self) -> list[str]:
        """The features of the first records, sorted by name, then the others that the config names."""
        names = self.options.select(sorted(self._head))
        return [*names, *(name for name in self.options.columns or () if name not in names)]

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """Groups of whole files: the offset of a record is known only after all records before it."""
        sizes = [state.size for state in stats(self.files)]
        return grouped([*map(Records, self.files)], sizes, part_length(sum(sizes)))

    def head(self) -> Head:
        """The first records of the first files. No feature has both numbers and bytes, so the kinds are settled."""
        files = self.files[:HEAD_FILES]
        found, everything = first_pieces(chain.from_iterable(map(self._first_blocks, files)))
        part = (*{one.path: one for one in found}.values(),)  # the last of each file
        return Head(self, part, whole=everything and len(files) == len(self.files), settled=True)

    def scan_rows(
        self, part: Part, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """`on_batch` receives the columns that some records have, as they were decoded.

        Raises DataError for a feature with numbers in some records and bytes in others.
        """
        from headrace.components.sources.tfrecord.decode import mixed_error

        result, skips, stored = ScanResult({piece.path: 0 for piece in part}), Skips(), dict(self._head)
        for records in self._decode(part, skips, set(declared)):
            kinds = _find_all_kinds(records)
            for name, column in records.columns.items():
                kind = _stored_as(kinds[name])
                if name not in declared and _is_mixed(kind, stored.get(name, kind)):
                    raise mixed_error(records.frames, int(np.argmax(column.is_valid())), name)
                stored[name] = widest([kind, stored.get(name, kind)])
            kinds |= {name: declared[name] for name in records.columns if name in declared}
            known = {name: declared[name] for name in kinds if name in declared}
            wanted: dict[str, Kind] = {**dict.fromkeys(records.lengths, "int list"), **kinds, **known}
            batch = self._convert(records, wanted, skips) if wanted else _empty_rows(len(records.frames.starts))
            if batch.num_rows:
                on_batch(_with_empty_lists(batch, records.columns))
            size = int((records.frames.ends - records.frames.starts).sum())
            result += ScanResult({records.frames.path: batch.num_rows}, size, kinds)
        return replace(result, skipped=skips.skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """One batch per block of records."""
        skips = Skips(reported=0)
        for records in self._decode(part, skips, None):
            batch = self._convert(records, kinds, skips)
            if batch.num_rows:
                yield _in_one_schema(batch, kinds)

    @cached_property
    def _head(self) -> dict[str, Kind]:
        """The features of the first records, with the kinds in which they are stored."""
        kinds: dict[str, Kind] = {}
        remaining = HEAD_FEATURES
        for path in self.files[:HEAD_FILES]:
            for number, record in islice(self._first_records(path), HEAD_RECORDS):
                features = self._features(path, number, record)
                for name, kind in features.items():
                    kinds[name] = kind if kinds.get(name, "missing") == "missing" else kinds[name]
                remaining -= len(features)
                if remaining < 0:
                    return kinds
        return kinds

    def _features(self, path: str, number: int, record: bytes) -> dict[str, Kind]:
        try:
            features = parse_features(record)
        except WireError:
            return {}
        if self.source.payload == "example" and features.lists:
            what = f"record {number:,} has feature lists, as a tf.SequenceExample does"
            raise DataError(what, file=path, hint=f"Set `{self.source.section}.payload: sequence_example`")
        return _column_kinds(features)

    def _decode(self, part: Part, skips: Skips, declared: set[str] | None) -> Iterator[DecodedRecords]:
        """The columns to read, block by block. declared: the columns that may mix numbers and texts; None: all."""
        from headrace.components.sources.tfrecord.decode import Decoder

        to_skip = skips if self.options.skip_bad else None
        decoder = Decoder(sequence=self.source.payload == "sequence_example", skips=to_skip)
        may_mix = partial(_may_mix, declared, self.options.columns)
        for records in part:
            for piece in map(self._examples(to_skip), records.frames(to_skip, len(self._head))):
                if len(piece.starts):
                    yield decoder.decode(piece, may_mix).select(self.options.columns)

    def _first_blocks(self, path: str) -> Iterator[tuple[Records, int, int]]:
        """For each block of a file the records up to its end, its rows, and its bytes; of an empty file no records."""
        skips = Skips(reported=0) if self.options.skip_bad else None
        last = 0
        for piece in Records(path).frames(skips, len(self._head)):
            if len(piece.numbers):
                last = int(piece.numbers[-1])
                yield Records(path, last), len(piece.numbers), len(piece.data)
        if not last:
            yield Records(path, 0), 0, 0

    def _first_records(self, path: str) -> Iterator[tuple[int, bytes]]:
        """The number and the bytes of the first undamaged records."""
        skips = Skips(reported=0)
        for piece in islice(frames(path, skips), 1):
            first = self._examples(skips)(piece.filter(piece.numbers <= HEAD_RECORDS))
            yield from zip(first.numbers.tolist(), first.records(), strict=True)

    def _examples(self, skips: Skips | None) -> Callable[[Frames], Frames]:
        """What makes frames of examples of the frames of a file."""
        if self.source.payload != "prediction_log":
            return lambda piece: piece
        from headrace.components.sources.tfrecord.prediction_log import logged_examples

        return partial(logged_examples, skips=skips)

    def _convert(self, records: DecodedRecords, kinds: Mapping[str, Kind], skips: Skips) -> pa.RecordBatch:
        """The columns in these kinds, without the records that do not fit."""
        rows = len(records.frames.starts)
        values = convert_stacked(records.columns, kinds, rows)
        bad: BadRows = {}
        for name, kind in kinds.items():
            if name in values:
                continue
            column = records.columns.get(name, records.lengths.get(name))
            if column is None or kind == "missing" or pa.types.is_null(column.type):
                values[name] = pa.nulls(rows)
            elif not len(column.flatten()):
                values[name] = empty_lists(column, kind)
            elif kind.endswith(LIST):
                values[name] = column
            else:
                values[name], multivalued = single_values(column)
                what = f"has multiple values, but `data.types.{name}` is {kind}; the type for lists is `{listed(kind)}`"
                bad |= {int(row): (name, what) for row in np.flatnonzero(multivalued)}
        batch, unfit = convert_columns(values, kinds, records.frames.path)
        if bad:
            good = np.ones(rows, bool)
            good[[*bad, *unfit]] = False
            values = {name: column.filter(pa.array(good)) for name, column in values.items()}
            batch, _ = convert_columns(values, kinds, records.frames.path)
        for row, (name, what) in sorted({**unfit, **bad}.items()):
            error = partial(records.frames.error, row, what, column=name)
            if not self.options.skip_bad:
                raise error()
            skips.add(error)
        return batch


def _column_kinds(features: RecordFeatures) -> dict[str, Kind]:
    lengths: dict[str, Kind] = dict.fromkeys((name + LENGTHS for name in features.ragged), "int")
    return {**features.context, **features.lists, **lengths}


def _may_mix(declared: set[str] | None, names: Sequence[str] | None, name: str) -> bool:
    return declared is None or name in declared or (names is not None and name not in names)


def _is_mixed(kind: Kind, before: Kind) -> bool:
    return "missing" not in {kind, before} and (kind == "bytes") != (before == "bytes")


def _find_all_kinds(records: DecodedRecords) -> dict[str, Kind]:
    """The narrowest kinds that hold the values; a feature list is always a list."""
    kinds = find_kinds(records.columns, len(records.frames.starts))
    always_lists = [name for name in records.lists if name in kinds and kinds[name] != "missing"]
    kinds |= {name: listed(kinds[name]) for name in always_lists if not kinds[name].endswith(LIST)}
    ragged = [name for name, lengths in records.lengths.items() if pc.any(pc.not_equal(lengths.flatten(), 1)).as_py()]
    return kinds | dict.fromkeys(ragged, "int list")


def _stored_as(kind: Kind) -> Kind:
    """The kind in which tf.Examples store values of a kind."""
    inner = kind.removesuffix(LIST)
    return "bytes" if inner == "string" else cast(Kind, inner)


def _in_one_schema(batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The batch with float32 cast to double, so that columns stored as integers, or without values, fit too."""
    arrays = [
        column if column.type == ARROW[kinds[name]] else column.cast(ARROW[kinds[name]])
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _empty_rows(rows: int) -> pa.RecordBatch:
    """Rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _with_empty_lists(batch: pa.RecordBatch, decoded: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The batch with lists of null for columns of empty lists: if other records have values, these are not missing."""
    empty = {
        name
        for name, arrow in zip(batch.schema.names, batch.schema.types, strict=True)
        if pa.types.is_null(arrow) and name in decoded and not pa.types.is_null(decoded[name].type)
    }
    if not empty:
        return batch
    lists = pa.nulls(batch.num_rows, pa.list_(pa.null()))
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return pa.RecordBatch.from_pydict({name: lists if name in empty else column for name, column in columns})
