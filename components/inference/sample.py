"""The rows from which types are inferred: all of a small data set, or else the first few megabytes.

sample = read_sample(config.data)       # raises DataError
sample.column("fare")                   # pyarrow.ChunkedArray
sample.kinds["fare"], sample.whole      # "float", True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import DataError, UnreadableColumnError
from headrace.common.storage.files import UNKNOWN
from headrace.components.examples.skips import Skipped
from headrace.components.sources import ReadOptions, Source, open_source, serial_map
from headrace.components.sources.base import HasBooleans, HasHead, HasTypes, ScanResult
from headrace.components.sources.types import ARROW, Kind, declared_types, widest
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import Span
from headrace.configs.schema.data import DataConfig, DeclaredType
from headrace.configs.schema.sources import CsvSource

WHOLE_BYTES = 1 << 26
"""Files of this size in total are read as a whole."""
MAX_BYTES = 1 << 28
"""Bytes in memory after which no more rows are read, such as those of a table whose size is not known."""

UNTYPED = frozenset({"jsonl", "json", "excel", "python"})
"""Kinds of sources whose columns have no type, but whose values may be false and true."""

BY_PARTS = frozenset({"images", "sql", "arrays", "tfds"})
"""Kinds of sources whose first part is read instead of the first rows: these are without the images or without columns
of uint64, and tables are mostly small, although their size is not known.
"""

Found = list[tuple[Source, list[object], dict[str, Kind]]]
"""What is read: of each source the parts, and the kinds of its columns."""


@dataclass(frozen=True)
class Sample:
    """Rows of the newest spans that a run would read. kinds: the kind of each column, by
    `headrace.components.sources.types`; whole: whether these are all rows.
    """

    table: pa.Table
    kinds: Mapping[str, Kind]
    whole: bool
    spans: tuple[str, ...] = ()
    """The names of the spans, the newest last; none for data without spans."""
    booleans: frozenset[str] = frozenset()
    """The columns of false and true in the data, which the table has as 0 and 1."""
    fixed: frozenset[str] = frozenset()
    """The columns whose type is declared, or part of the data."""
    as_texts: Callable[[str], pa.ChunkedArray] | None = None
    """Reads a column as texts; None: they are those of its values."""
    skipped: Skipped = field(default_factory=Skipped)
    """The records that were skipped because they cannot be read."""

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> list[str]:
        """The columns, in the order of the data."""
        return [*self.kinds]

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def spelled(self, name: str) -> dict[Any, list[str]]:
        """The texts that a run reads for each number of a column if it is declared as `string`, such as `1.50`; none
        if it cannot be, or if texts would not be missing where numbers are.
        """
        values = self.column(name)
        try:
            texts = values.cast(pa.string()) if self.as_texts is None else self.as_texts(name)
        except DataError:
            return {}
        if len(texts) != len(values):
            return {}
        pairs = pa.table({"value": values, "text": texts}).group_by(["value", "text"]).aggregate([]).to_pylist()
        found: dict[Any, list[str]] = {}
        for value, text in ((pair["value"], pair["text"]) for pair in pairs):
            if text and (value is None or math.isnan(value)):
                return {}  # as a text it would not be missing
            found.setdefault(value, []).append(text)
        return found

    def texts(self) -> list[pa.ChunkedArray]:
        """The values of the columns of texts, without missing ones."""
        return [self.column(name).drop_null() for name, kind in self.kinds.items() if kind == "string"]


def read_sample(data: DataConfig, without: Collection[str] = ()) -> Sample:
    """Read the rows from which types are inferred: of the window's newest spans, as many as are read as a whole, or
    the first rows of the newest one; those of `train`, if it has its own files.

    Raises DataError, as a run would.

    Args:
        data: The section `data:`.
        without: Columns that are not read.
    """
    spans, given = find_spans(data.model_copy(update={"fingerprint": "times"})).spans, data.source
    if any("train" in span.splits for span in spans):
        spans = tuple(own for span in spans if (own := span.of_split("train")).files)
        given = given.of_split("train")
    read = _newest(spans)
    if isinstance(given, CsvSource):
        given.check_delimiter(open_source(given, read[-1].paths).columns())
    names = data.columns if isinstance(data.columns, tuple) else None
    if without:
        first = open_source(given, read[-1].paths, ReadOptions(names), read[-1].splits)
        names = tuple(name for name in first.columns() if name not in without)
    options = ReadOptions(names, skip_bad=data.on_bad_record == "skip")
    sources = [open_source(given, span.paths, options, span.splits) for span in read]
    if _size(read) <= WHOLE_BYTES:
        sample = _read(data, [(source, source.parts(serial_map)) for source in sources], whole=True)
    else:
        sample = _first_rows(data, sources[-1])
    names = tuple(span.name for span in read if span.name)
    return replace(sample, whole=sample.whole and len(read) == len(spans), spans=names)


def read_readable(data: DataConfig, needed: Callable[[str], bool] = lambda _: False) -> tuple[Sample, dict[str, str]]:
    """The same without the columns that no feature can hold, such as maps, and why each of them cannot be held.

    needed: whether a column is read in any case. Raises DataError as `read_sample` does, and for such columns.
    """
    unreadable: dict[str, str] = {}
    while True:
        try:
            return read_sample(data, unreadable), unreadable
        except UnreadableColumnError as error:
            if error.column is None or error.column in unreadable or needed(error.column):
                raise
            unreadable[error.column] = error.what


def _newest(spans: Sequence[Span]) -> Sequence[Span]:
    """The newest spans whose files may be read as a whole, and at least one."""
    count = 1
    while count < len(spans) and _size(spans[-count - 1 :]) <= WHOLE_BYTES:
        count += 1
    return spans[-count:]


def _size(spans: Iterable[Span]) -> float:
    """Bytes of the files; infinite if that of one is not known."""
    sizes = [file.size for span in spans for file in span.files]
    return math.inf if UNKNOWN in sizes else sum(sizes)


def _first_rows(data: DataConfig, source: Source) -> Sample:
    if isinstance(source, HasHead) and data.source.kind not in BY_PARTS:
        head = source.head()
        return _read(data, [(head.source, [head.part])], whole=head.whole)
    parts = source.parts(serial_map)
    return _read(data, [(source, parts[:1])], whole=len(parts) <= 1)


def _read(data: DataConfig, given: Sequence[tuple[Source, list[object]]], *, whole: bool) -> Sample:
    """The rows of these parts of each source. A source may lack columns that others have."""
    found, skipped = Found(), Skipped()
    for source, parts in given:
        names = source.columns()
        declared = declared_types(data.model_copy(update={"types": _of(data.types, names)}), names)
        scan = sum((source.scan(part, declared) for part in parts), ScanResult())
        skipped += scan.skipped
        own = {name: declared.get(name) or scan.kinds.get(name, "missing") for name in (*names, *scan.kinds)}
        found.append((source, parts, own))
    kinds: dict[str, Kind] = {}
    for *_, own in found:
        kinds |= {name: widest([kind, kinds.get(name, kind)]) for name, kind in own.items()}
    batches, size = list[pa.RecordBatch](), 0
    for batch in chain.from_iterable(
        source.batches(part, {name: kinds[name] for name in own}) for source, parts, own in found for part in parts
    ):
        if size > MAX_BYTES:
            whole = False
            break
        batches.append(batch)
        size += batch.nbytes
    schema = pa.schema([(name, ARROW[kind]) for name, kind in kinds.items()])
    table = pa.concat_tables([schema.empty_table(), *map(_table, batches)], promote_options="permissive")
    binary = [name for name, kind in kinds.items() if kind == "int" and _holds_only_bits(table.column(name))]
    return Sample(
        table.select([*kinds]),
        kinds,
        whole,
        booleans=_booleans(data, found, binary),
        fixed=frozenset(kinds if data.source.kind == "tfrecord" or data.schema_file is not None else data.types),
        as_texts=partial(_as_texts, found, kinds, table.num_rows),
        skipped=skipped,
    )


def _as_texts(found: Found, kinds: Mapping[str, Kind], rows: int, name: str) -> pa.ChunkedArray:
    """The first rows of a column, read as a string. Raises DataError where that is not possible."""
    columns, count = list[pa.Array](), 0
    for source, parts, own in found:
        read: dict[str, Kind] = {one: "string" if one == name else kinds[one] for one in own}
        for batch in chain.from_iterable(source.batches(part, read) for part in parts):
            texts = batch.column(name) if name in own else pa.nulls(len(batch))
            columns.append(texts.cast(pa.string()))
            count += len(batch)
            if count >= rows:
                return pa.chunked_array(columns, pa.string()).slice(0, rows)
    return pa.chunked_array(columns, pa.string())


def _holds_only_bits(column: pa.ChunkedArray) -> bool:
    least_and_most = pc.min_max(column).as_py()
    return {*least_and_most.values()} <= {0, 1}


def _booleans(data: DataConfig, found: Found, names: Iterable[str]) -> frozenset[str]:
    """Those of the columns of 0 and 1 that are false and true in the data."""
    booleans = {*names}
    for source, parts, own in found:
        asked = [name for name in own if name in booleans]
        if not asked:
            continue
        if isinstance(source, HasTypes):
            types = source.stored_types({name: own[name] for name in asked})
            booleans -= {name for name in asked if types.get(name) != pa.bool_()}
        elif isinstance(source, HasBooleans):
            booleans -= {*asked} - source.booleans()
        elif data.source.kind in UNTYPED:
            booleans -= {*asked} - _written_as_words(source, parts, own, asked)
        else:
            booleans.clear()
    return frozenset(booleans)


def _written_as_words(
    source: Source, parts: Sequence[object], own: Mapping[str, Kind], names: Sequence[str]
) -> set[str]:
    """The columns whose first value, read as text, is `true` or `false`."""
    kinds: dict[str, Kind] = {name: "string" for name in own if name in names}
    words, open_ = set[str](), {*names}
    given: Any = source
    alone: Source = replace(given, options=replace(given.options, columns=(*kinds,)))
    for batch in chain.from_iterable(alone.batches(part, kinds) for part in parts):
        for name in [*open_]:
            values = batch.column(name).drop_null()
            if len(values):
                open_.discard(name)
                words |= {name} if str(values[0].as_py()).lower() in {"true", "false"} else set()
        if not open_:
            break
    return words


def _table(batch: pa.RecordBatch) -> pa.Table:
    """A batch without dictionaries, which batches need not share."""
    table = pa.Table.from_batches([batch])
    for position, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(position, column.name, table.column(position).cast(column.type.value_type))
    return table


def _of(types: Mapping[str, DeclaredType], names: list[str]) -> dict[str, DeclaredType]:
    known = frozenset(names)
    return {name: kind for name, kind in types.items() if name in known}
