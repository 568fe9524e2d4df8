"""New data as columns of the types that a model was trained on.

The types are not inferred from the new data: a file whose strings all look like numbers, or in which a column is empty,
still has the columns of the training data. Only a column that the model has never seen gets its type from a scan.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.common.errors import DataError, UnreadableColumnError
from headrace.components.example_gen.checks import check_fraction
from headrace.components.example_gen.column_cache import MAX_BYTES, ColumnCache
from headrace.components.examples.parts import files_of_part
from headrace.components.examples.skips import Skipped
from headrace.components.sources import (
    ParallelMap,
    ReadOptions,
    ScanResult,
    Source,
    is_open_ended,
    open_source,
)
from headrace.components.sources.arrays.source import Arrays
from headrace.components.sources.base import HasTypes, common_types, suggest_columns
from headrace.components.sources.conversion import convert
from headrace.components.sources.nested import check_objects
from headrace.components.sources.stored_types import always_fits, can_be_restored, can_be_stored
from headrace.components.sources.types import ARROW, LIST, Kind, listed
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import Span
from headrace.configs.schema.data import DataConfig, read_as
from headrace.configs.schema.sources import CsvSource, SourceConfig
from headrace.configs.schema.sources.base import SourceBase
from headrace.configs.schema.sources.stores import ArraysSource
from headrace.trainer.description import ModelDescription, StoredType

TABLE = "the table"
AS_STORED: Kind = "stored"
READ_AS: Mapping[StoredType, Kind] = {"int": "int", "float": "float", "bytes": "string"}
"""The kind as which the values of a column of the training data are read."""
_STORED: Mapping[str, StoredType] = {"int": "int", "float": "float", "string": "bytes", "bytes": "bytes"}


@dataclass(frozen=True)
class TableSource(Arrays):
    """A table of the caller's, read like one that a function returns."""

    table: pa.Table = field(default_factory=lambda: pa.table({}))

    @classmethod
    def of(cls, table: pa.Table, options: ReadOptions) -> TableSource:
        return cls(TABLE, from_function=False, options=options, table=table)

    def _table(self) -> pa.Table:
        return self.table


@dataclass(frozen=True)
class Input:
    """The data to predict.

    data: how it is read; table: the data itself if it is in memory, else None; found: its files, if they are known.
    """

    data: DataConfig
    table: pa.Table | None = None
    found: tuple[Span, ...] | None = None

    @property
    def settings(self) -> type[SourceBase]:
        """What is known of its kind of source."""
        return ArraysSource if self.table is not None else type(self.data.source)

    @property
    def is_open_ended(self) -> bool:
        """Whether a record may lack columns that others have."""
        return self.table is None and is_open_ended(self.data.source)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The files, as they are now; none for a table. Raises DataError if there are none."""
        return () if self.table is not None else self.found or find_spans(self.data).spans

    def open(self, columns: tuple[str, ...] | None = None) -> list[Source]:
        """The sources, one for each span. Raises DataError if there is no data."""
        options = ReadOptions(columns, self.data.on_bad_record == "skip")
        if self.table is not None:
            return [TableSource.of(self.table, options)]
        return [open_source(self.data.source, span.paths, options, span.splits) for span in self.spans]

    @property
    def paths(self) -> list[str]:
        return [path for span in self.spans for path in span.paths]

    @property
    def size(self) -> int:
        """The bytes of the files."""
        return sum(file.size for span in self.spans for file in span.files)


@dataclass(frozen=True)
class Part:
    source: Source
    part: Any
    number: int
    cache: ColumnCache | None = None

    def as_read(self, kinds: Mapping[str, Kind] | None) -> Part:
        """The part, without what a scan has parsed unless that can be read as these kinds. None: as others."""
        return self if self.cache and kinds and self.cache.fits(kinds) else Part(self.source, self.part, 0)

    def batches(self, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows as columns of these kinds."""
        return self.cache.batches(self.number, kinds) if self.cache else self.source.batches(self.part, kinds)

    @property
    def file(self) -> str | None:
        """The file or files, for messages."""
        return files_of_part(self.part)


@dataclass(frozen=True)
class OpenedInput:
    """Data that is ready to be read.

    parts: in the order of the rows; kinds: of the columns that are read; features: those that the model reads; keys:
    those that are written next to the predictions; skipped: records that cannot be read; types: of the keys in the
    output; stored: the columns that are read in their own types, features among them; unreadable: those that are not
    written because no feature could hold them, each with the reason.
    """

    parts: Sequence[Part]
    kinds: Mapping[str, Kind]
    features: tuple[str, ...]
    keys: tuple[str, ...]
    skipped: Skipped
    types: Mapping[str, pa.DataType]
    stored: frozenset[str] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part, with keys in the types of the source as far as it has them."""
        return part.batches({**self.kinds, **dict.fromkeys(self.stored, AS_STORED)})

    def place(self, number: int, row: int) -> tuple[str, str | None]:
        """Which record of which file, if it has one, is a row of a part, from 0: all parts up to it are scanned again.

        Records that are skipped because they cannot be read do not count, and if there are any, the words say so.
        """
        before = dict[str, int]()
        skipped, path, seen = 0, "", 0
        for part in self.parts[: number + 1]:
            found, seen = part.source.scan(part.part, self.kinds), 0
            skipped += found.skipped.count
            for path, rows in found.rows.items():
                if part is self.parts[number] and row < seen + rows:
                    break
                seen += rows
                before[path] = before.get(path, 0) + rows
        record = f"record {before.get(path, 0) + row - seen + 1:,}"
        file = None if self.parts[number].file is None else path
        return f"{record} of those that can be read" if skipped else record, file

    def features_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The features, of the types that the model reads."""
        found = rows.select(list(self.features))
        if self.stored.isdisjoint(self.features):
            return found
        columns = zip(self.features, found.columns, strict=True)
        converted = [convert(own, self.kinds[name]) if name in self.stored else own for name, own in columns]
        return pa.RecordBatch.from_arrays(converted, names=list(self.features))


def open_input(
    given: Input,
    model: ModelDescription,
    keys: Sequence[str] | None,
    parallel_map: ParallelMap,
    work: Path,
    *,
    typed: bool = True,
) -> OpenedInput:
    """Find the columns and their types, and scan the data if that is needed.

    Raises DataError for a column that does not exist, and for data that cannot be read.

    Args:
        given: the data.
        model: what the model reads.
        keys: the columns to write, None for all.
        parallel_map: runs the scan.
        work: an existing folder for what a scan has parsed.
        typed: whether the output can hold every type of Arrow, so that keys keep those that the data has.
    """
    names, unreadable = _names(given), dict[str, str]()
    uncertain = _check_features(given, model, names)
    while True:
        passed_through = [name for name in _passed_through(given, names, keys) if name not in unreadable]
        read = tuple(dict.fromkeys((*passed_through, *model.features)))
        known = [name for name in read if name not in uncertain]
        declared = {name: kind for name in known if (kind := _declared(given, model, name, name in passed_through))}
        scan = len(declared) < len(read) or given.data.on_bad_record == "skip"
        columns = work if scan and _is_small(given) else None
        try:
            sources = given.open(read)
            parts, found = _parts(sources, declared, parallel_map, columns, scan=scan)
            break
        except UnreadableColumnError as error:
            if keys is not None or error.column is None or error.column in {*model.features, *unreadable}:
                raise
            unreadable[error.column] = error.what
    check_fraction(given.data, found.skipped, sum(found.rows.values()))
    if absent := [name for name in uncertain if found.kinds.get(name, "missing") == "missing"]:
        raise _missing_feature(absent[0], names, given.data.source)
    kinds = {name: declared.get(name) or _kind(model.types.get(name), found.kinds.get(name)) for name in read}
    checked = read if given.data.on_bad_record == "skip" else model.features
    undeclared = {name: kinds[name] for name in passed_through if name not in given.data.types}
    types, stored = _own_types(sources, undeclared, checked, typed=typed)
    types = {name: types.get(name, ARROW[kinds[name]]) for name in passed_through}
    parts = [part.as_read(None if stored else kinds) for part in parts]
    return OpenedInput(parts, kinds, model.features, tuple(passed_through), found.skipped, types, stored, unreadable)


def _own_types(
    sources: Sequence[Source], kinds: Mapping[str, Kind], checked: Sequence[str], *, typed: bool
) -> tuple[dict[str, pa.DataType], frozenset[str]]:
    """The types of the data that columns keep in the output, and the columns that are read in these types; the values
    of others are read as their kind, and cast back.

    kinds: of the columns; checked: those whose values must be found to be of their kind; typed: as in `open_input`.
    """
    types = common_types((one.stored_types(kinds) if isinstance(one, HasTypes) else {} for one in sources), kinds)
    if not typed:
        types = {name: own for name, own in types.items() if pa.types.is_boolean(own)}
    fits = (name for name, own in types.items() if name not in checked or always_fits(own, kinds[name]))
    stored = frozenset(name for name in fits if typed and can_be_stored(types[name]))
    kept = {name: own for name, own in types.items() if name in stored or can_be_restored(own, kinds[name])}
    return kept, stored


def _names(given: Input) -> list[str]:
    return list(dict.fromkeys(name for source in given.open() for name in source.columns()))


def _passed_through(given: Input, names: Sequence[str], keys: Sequence[str] | None) -> list[str]:
    chosen = given.data.columns if isinstance(given.data.columns, tuple) else None
    if keys is None and chosen is not None:
        return [name for name in chosen if name in names or given.is_open_ended]
    if keys is None:
        if not names and given.is_open_ended:
            raise DataError(
                "the first records have no columns that can be read",
                file=next(iter(given.paths), None),
                hint="List the columns to write in `--columns` (`predict.columns` of the config)",
            )
        return [name for name in names if name != given.settings.content_column]
    for name in keys:
        if name not in names and not given.is_open_ended:
            raise DataError(f"{name!r} is not a column of the input", hint=suggest_columns(name, tuple(names)))
    return list(dict.fromkeys(keys))


def _check_features(given: Input, model: ModelDescription, names: Sequence[str]) -> set[str]:
    """The features that only a scan can find. Raises DataError for one that is missing."""
    missing = [name for name in model.features if name not in names]
    if missing and not given.is_open_ended:
        raise _missing_feature(missing[0], names, given.data.source)
    return set(missing)


def _missing_feature(name: str, names: Sequence[str], source: SourceConfig) -> DataError:
    hint = suggest_columns(name, tuple(names))
    if isinstance(source, CsvSource) and (found := source.other_delimiter(names)):
        setting = f"`--set data.source.delimiter={shlex.quote(json.dumps(found))}`"
        hint = f"The header is a single column; add {setting}, which needs a config in place of the folder of a model"
    return DataError("the model reads this column, and the input does not have it", column=name, hint=hint)


def _is_small(given: Input) -> bool:
    """Whether the columns that a scan has parsed are worth storing until they are read."""
    return given.table is None and given.size <= MAX_BYTES


def _parts(
    sources: Sequence[Source],
    declared: Mapping[str, Kind],
    parallel_map: ParallelMap,
    work: Path | None,
    *,
    scan: bool,
) -> tuple[list[Part], ScanResult]:
    """The parts of all sources, with what a scan has parsed, and what it found."""
    parts: list[Part] = []
    results: list[ScanResult] = []
    for index, source in enumerate(sources):
        own, cache = source.parts(parallel_map), None
        if scan:
            folder = work and work / f"columns-{index}"
            if folder:
                folder.mkdir(exist_ok=True)  # an earlier attempt met a column that cannot be read
            cache = ColumnCache.scan(source, own, declared, parallel_map, folder)
            results.append(cache.result)
        parts += [Part(source, part, number, cache) for number, part in enumerate(own)]
    result = reduce(ScanResult.__add__, results, ScanResult())
    check_objects(result.kinds, result.objects)
    return parts, result


def _declared(given: Input, model: ModelDescription, name: str, shown: bool) -> Kind | None:
    """The kind of a column as the model or the config declares it; None if the data must be scanned for it.

    shown: whether it is in the output, where a text that the model splits stays a text.
    """
    declared, stored = given.data.types.get(name), model.types.get(name)
    declared = declared and read_as(declared)
    if stored is None or (declared and _STORED[declared.removesuffix(LIST)] == stored):
        return declared
    kind = READ_AS[stored]
    if given.settings.lists == "none":
        return kind
    if given.settings.lists == "declared" and model.multivalued is not None:
        several = name in model.multivalued
        return None if several and shown else listed(kind) if several else kind
    return None


def _kind(stored: StoredType | None, found: Kind | None) -> Kind:
    """The kind as which a scanned column is read: that of the model, with as many values as the data has."""
    if found is None or found == "missing":
        return READ_AS[stored] if stored else "string"
    if stored is None or _STORED[found.removesuffix(LIST)] == stored:
        return found
    return listed(READ_AS[stored]) if found.endswith(LIST) else READ_AS[stored]
