"""Existing TFRecord files of tf.Examples or tf.SequenceExamples, plain or gzip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.example_gen.columnar.fit import fit
from headrace.components.example_gen.parts import grouped, part_length
from headrace.components.example_gen.records.frames import frames
from headrace.components.example_gen.records.stacked import is_text, singles, worth_it
from headrace.components.example_gen.records.stacked import kinds as kinds_of
from headrace.components.example_gen.records.wire import Seen, WireError, look
from headrace.components.example_gen.skips import Skips
from headrace.components.example_gen.sources.base import Reading, Spread, Survey
from headrace.components.example_gen.storage import resolve, stats
from headrace.components.example_gen.types import ARROW, LIST, Kind, listed, widest
from headrace.configs.errors import DataError
from headrace.configs.sources import TfrecordSource

if TYPE_CHECKING:
    from headrace.components.example_gen.records.columns import Columns

HEAD_FILES, HEAD_RECORDS, HEAD_FEATURES = 8, 100, 50_000
"""The files, the records of each, and the features of all these, that are looked at for the names of columns."""

LENGTHS = ".lengths"
"""Behind the name of a feature list: the column with the number of values of each step."""


@dataclass(frozen=True)
class TfrecordFiles:
    """The files of one config, in the order of their paths."""

    source: TfrecordSource
    files: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: TfrecordSource, files: Sequence[str] | None, reading: Reading) -> TfrecordFiles:
        """Find the files, unless they are given."""
        return cls(source, tuple(sorted(files if files is not None else resolve(source.path))), reading)

    def columns(self) -> list[str]:
        """The features of the first records, in the order of their names, and what else the config asks for."""
        found = self.reading.chosen(sorted(self._head))
        return [*found, *(name for name in self.reading.columns or () if name not in found)]

    def parts(self, spread: Spread) -> list[tuple[str, ...]]:  # noqa: ARG002 - nothing has to be looked through
        """Files together: where a record of a file starts is known only after all before it."""
        sizes = [state.size for state in stats(self.files)]
        return grouped(self.files, sizes, part_length(sum(sizes)))

    def survey(self, part: tuple[str, ...], declared: Mapping[str, Kind]) -> Survey:
        """One pass over the part. Raises DataError where a feature has numbers in some records and bytes in others."""
        return self.survey_keeping(part, declared, lambda _: None)

    def survey_keeping(
        self, part: tuple[str, ...], declared: Mapping[str, Kind], keep: Callable[[pa.RecordBatch], None]
    ) -> Survey:
        """The same; `keep` gets the columns as they were read, of some records at a time those that these have."""
        from headrace.components.example_gen.records.columns import conflict

        found, skips, stored = Survey(dict.fromkeys(part, 0)), Skips(), dict(self._head)
        for columns in self._decoded(part, skips, set(declared)):
            kinds = _kinds(columns)
            for name, column in columns.columns.items():
                kind = _stored(kinds[name])
                if name not in declared and _mixed(kind, stored.get(name, kind)):
                    raise conflict(columns.frames, int(np.argmax(column.is_valid())), name)
                stored[name] = widest([kind, stored.get(name, kind)])
            kinds |= {name: declared[name] for name in columns.columns if name in declared}
            known = {name: declared[name] for name in kinds if name in declared}
            wanted: dict[str, Kind] = {**dict.fromkeys(columns.lengths, "int list"), **kinds, **known}
            batch = self._fitted(columns, wanted, skips) if wanted else _rows_alone(len(columns.frames.starts))
            if batch.num_rows:
                keep(_empty_marked(batch, columns.columns))
            size = int((columns.frames.ends - columns.frames.starts).sum())
            found += Survey({columns.frames.path: batch.num_rows}, size, kinds)
        return replace(found, skipped=skips.skipped)

    def batches(self, part: tuple[str, ...], kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The records that are read at a time."""
        skips = Skips(told=0)
        for columns in self._decoded(part, skips, None):
            batch = self._fitted(columns, kinds, skips)
            if batch.num_rows:
                yield _of_one_schema(batch, kinds)

    @cached_property
    def _head(self) -> dict[str, Kind]:
        """The features of the first records, with the kinds they are stored in."""
        found: dict[str, Kind] = {}
        room = HEAD_FEATURES
        for path in self.files[:HEAD_FILES]:
            for number, record in islice(_first_records(path), HEAD_RECORDS):
                features = self._features(path, number, record)
                for name, kind in features.items():
                    found[name] = kind if found.get(name, "missing") == "missing" else found[name]
                room -= len(features)
                if room < 0:
                    return found
        return found

    def _features(self, path: str, number: int, record: bytes) -> dict[str, Kind]:
        try:
            seen = look(record)
        except WireError:
            return {}
        if self.source.payload == "example" and seen.lists:
            what = f"record {number:,} holds feature lists, as a tf.SequenceExample does"
            raise DataError(what, file=path, hint="Set `data.source.payload: sequence_example`")
        return _named(seen)

    def _decoded(self, part: Sequence[str], skips: Skips, declared: set[str] | None) -> Iterator[Columns]:
        """The columns that are read, of some records at a time. declared: the columns in which numbers and texts may be
        mixed; None: in all.
        """
        from headrace.components.example_gen.records.columns import Decoder

        to_skip = skips if self.reading.skip_bad else None
        decoder = Decoder(sequence=self.source.payload == "sequence_example", skips=to_skip)
        may_mix = partial(_may_mix, declared, self.reading.columns)
        for path in part:
            for piece in frames(path, to_skip, columns=len(self._head)):
                if len(piece.starts):
                    yield decoder.decode(piece, may_mix).of(self.reading.columns)

    def _fitted(self, columns: Columns, kinds: Mapping[str, Kind], skips: Skips) -> pa.RecordBatch:
        """The columns in these kinds, without the records that do not fit."""
        rows = len(columns.frames.starts)
        values: dict[str, pa.Array] = {}
        bad: dict[int, tuple[str, str]] = {}
        if worth_it(columns.columns, rows):
            values |= singles(columns.columns, kinds, rows)
        for name, kind in kinds.items():
            if name in values:
                continue
            column = columns.columns.get(name, columns.lengths.get(name))
            if column is None or kind == "missing" or pa.types.is_null(column.type):
                values[name] = pa.nulls(rows)
            elif not len(column.flatten()):
                values[name] = _without_values(column, kind)
            elif kind.endswith(LIST):
                values[name] = column
            else:
                values[name], several = _single(column)
                what = f"has several values, and `data.types.{name}` is {kind}; for lists it is `{listed(kind)}`"
                bad |= {int(row): (name, what) for row in np.flatnonzero(several)}
        batch, unfit = fit(values, kinds, columns.frames.path)
        if bad:
            kept = np.ones(rows, bool)
            kept[[*bad, *unfit]] = False
            values = {name: column.filter(pa.array(kept)) for name, column in values.items()}
            batch, _ = fit(values, kinds, columns.frames.path)
        for row, (name, what) in sorted({**unfit, **bad}.items()):
            error = partial(columns.frames.error, row, what, column=name)
            if not self.reading.skip_bad:
                raise error()
            skips.add(error)
        return batch


def _first_records(path: str) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of the first records that are sound."""
    for piece in islice(frames(path, Skips(told=0)), 1):
        yield from zip(piece.numbers.tolist(), piece.only(piece.numbers <= HEAD_RECORDS).records(), strict=False)


def _named(seen: Seen) -> dict[str, Kind]:
    lengths: dict[str, Kind] = dict.fromkeys((name + LENGTHS for name in seen.uneven), "int")
    return {**seen.context, **seen.lists, **lengths}


def _may_mix(declared: set[str] | None, names: Sequence[str] | None, name: str) -> bool:
    return declared is None or name in declared or (names is not None and name not in names)


def _mixed(kind: Kind, before: Kind) -> bool:
    return "missing" not in {kind, before} and (kind == "bytes") != (before == "bytes")


def _kinds(columns: Columns) -> dict[str, Kind]:
    """The narrowest kinds that take the values; a feature list is always a list."""
    rows = len(columns.frames.starts)
    if worth_it(columns.columns, rows):
        kinds = kinds_of(columns.columns, rows)
    else:
        kinds = {name: _kind(column) for name, column in columns.columns.items()}
    alone = [name for name in columns.lists if name in kinds and kinds[name] != "missing"]
    kinds |= {name: listed(kinds[name]) for name in alone if not kinds[name].endswith(LIST)}
    uneven = [name for name, lengths in columns.lengths.items() if pc.any(pc.not_equal(lengths.flatten(), 1)).as_py()]
    return kinds | dict.fromkeys(uneven, "int list")


def _kind(column: pa.Array) -> Kind:
    from headrace.components.example_gen.records.columns import stored_kind

    kind = stored_kind(column)
    if kind == "missing":
        return kind
    if kind == "bytes" and is_text(column.flatten()):
        kind = "string"
    return listed(kind) if pc.max(pc.list_value_length(column)).as_py() > 1 else kind


def _stored(kind: Kind) -> Kind:
    """The kind that values of a kind are stored in."""
    inner = kind.removesuffix(LIST)
    return "bytes" if inner == "string" else cast(Kind, inner)


def _of_one_schema(batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The batch with its floats as doubles: what was stored as integers, or has no value, is not float32."""
    arrays = [
        column if column.type == ARROW[kinds[name]] else column.cast(ARROW[kinds[name]])
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _rows_alone(rows: int) -> pa.RecordBatch:
    """Rows without a column."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _empty_marked(batch: pa.RecordBatch, found: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The batch with lists of null where no list has a value: among lists with values, these are not missing."""
    empty = {
        name
        for name, arrow in zip(batch.schema.names, batch.schema.types, strict=True)
        if pa.types.is_null(arrow) and name in found and not pa.types.is_null(found[name].type)
    }
    if not empty:
        return batch
    lists = pa.nulls(batch.num_rows, pa.list_(pa.null()))
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return pa.RecordBatch.from_pydict({name: lists if name in empty else column for name, column in columns})


def _without_values(column: pa.Array, kind: Kind) -> pa.Array:
    """Lists without values as ones of another kind; nulls if it is not one of lists."""
    if not kind.endswith(LIST):
        return pa.nulls(len(column))
    return pc.if_else(column.is_valid(), pa.scalar([], ARROW[kind]), pa.scalar(None, ARROW[kind]))


def _single(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The value of each list, null where it has none, its first where it has several; and where it has several."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    places = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return column.flatten().take(pa.array(places, mask=lengths == 0)), lengths > 1
