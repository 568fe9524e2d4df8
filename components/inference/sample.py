"""The rows from which types are inferred: all of a small data set, or else the first few megabytes.

sample = read_sample(config.data)       # raises DataError
sample.column("fare")                   # pyarrow.ChunkedArray
sample.kinds["fare"], sample.whole      # "float", True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from headrace.components.example_gen.sources import ReadOptions, Source, open_source, serial_map
from headrace.components.example_gen.sources.base import HasHead, ScanResult
from headrace.components.example_gen.spans.find import find_spans
from headrace.components.example_gen.storage import UNKNOWN
from headrace.components.example_gen.types import ARROW, Kind, declared_types
from headrace.configs.schema.data import DataConfig

WHOLE_BYTES = 1 << 26
"""Files of this size in total are read as a whole."""
MAX_BYTES = 1 << 28
"""Bytes in memory after which no more rows are read, such as those of a table whose size is not known."""


@dataclass(frozen=True)
class Sample:
    """Rows of the newest span. kinds: the kind of each column, by `headrace.components.example_gen.types`; whole:
    whether these are all rows.
    """

    table: pa.Table
    kinds: Mapping[str, Kind]
    whole: bool

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> list[str]:
        """The columns, in the order of the data."""
        return [*self.kinds]

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)


def read_sample(data: DataConfig) -> Sample:
    """Read the rows of the newest span from which types are inferred; of those of `train`, if it has its own files.

    Raises DataError, as a run would.
    """
    span, given = find_spans(data.model_copy(update={"fingerprint": "times"})).spans[-1], data.source
    if "train" in span.splits:
        span, given = span.of_split("train"), given.of_split("train")
    names = data.columns if isinstance(data.columns, tuple) else None
    options = ReadOptions(names, skip_bad=data.on_bad_record == "skip")
    source = open_source(given, span.paths, options, span.splits)
    sizes = [state.size for state in span.files]
    is_large = UNKNOWN in sizes or sum(sizes) > WHOLE_BYTES
    if is_large and isinstance(source, HasHead):
        head = source.head()
        return _read(data, head.source, [head.part], whole=head.whole)
    parts = source.parts(serial_map)
    read = parts[:1] if is_large else parts
    return _read(data, source, read, whole=len(read) == len(parts))


def _read(data: DataConfig, source: Source, parts: list[object], *, whole: bool) -> Sample:
    names = source.columns()
    declared = declared_types(data.model_copy(update={"types": _of(data.types, names)}), names)
    scan = sum((source.scan(part, declared) for part in parts), ScanResult())
    kinds = {name: declared.get(name) or scan.kinds.get(name, "missing") for name in (*names, *scan.kinds)}
    batches, size = list[pa.RecordBatch](), 0
    for batch in chain.from_iterable(source.batches(part, kinds) for part in parts):
        if size > MAX_BYTES:
            whole = False
            break
        batches.append(batch)
        size += batch.nbytes
    schema = pa.schema([(name, ARROW[kind]) for name, kind in kinds.items()])
    table = pa.concat_tables([schema.empty_table(), *map(_table, batches)], promote_options="permissive")
    return Sample(table.select([*kinds]), kinds, whole)


def _table(batch: pa.RecordBatch) -> pa.Table:
    """A batch without dictionaries, which batches need not share."""
    table = pa.Table.from_batches([batch])
    for position, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(position, column.name, table.column(position).cast(column.type.value_type))
    return table


def _of(types: Mapping[str, Kind], names: list[str]) -> dict[str, Kind]:
    known = frozenset(names)
    return {name: kind for name, kind in types.items() if name in known}
