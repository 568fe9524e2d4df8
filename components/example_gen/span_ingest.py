"""The steps that read one span, each of which uses the result in the span store if there is one:

open     find the names of the columns
scan     count the rows and find the kinds of the columns, which may take a pass over all of the data
write    write the shards, once the kinds over all spans are known
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from headrace.components.example_gen.checks import check_key, check_rows, check_written
from headrace.components.example_gen.column_cache import MAX_BYTES, ColumnCache
from headrace.components.example_gen.required import RequiredColumn
from headrace.components.example_gen.row_division import RowsToDivide, shares_of_splits
from headrace.components.example_gen.shards.layout import (
    MIN_SHARD_BYTES,
    Shard,
    ShardLayout,
    SizeEstimate,
    SplitColumn,
    plan_shards,
)
from headrace.components.example_gen.shards.write import ReadPart, ShardWriter
from headrace.components.example_gen.span_store import SpanShards, SpanStore, digest_of
from headrace.components.examples.column_files import worth_writing
from headrace.components.examples.compression import Compression
from headrace.components.sources import (
    ParallelMap,
    ReadOptions,
    ScanResult,
    Source,
    open_source,
)
from headrace.components.sources.types import Kind
from headrace.components.spans.manifest import Span, check_unchanged
from headrace.components.spans.source_state import reads_files
from headrace.configs.schema.data import JUDGING_SETTINGS, DataConfig

READ_SETTINGS = {"source", "types", "columns", "on_bad_record"}
"""The settings that, with the types that a schema declares, determine what is read from a span. All others determine
how it is written."""

CHECK_SETTINGS = {"window", "spans", "fingerprint", "max_bad_fraction", "schema_file", *JUDGING_SETTINGS}
"""Except these, which do not affect a span's shards. (Of a schema only the types matter, and those are part of the
keys; in a pod its file has another path each time.)"""

BYTES_PER_VALUE = 10
"""Estimated overhead of a value in memory, in addition to its column's name, for data too small to sample."""


@dataclass(frozen=True)
class OpenedSpan:
    """A span and the names of its columns that are read."""

    span: Span
    source: Source
    columns: Sequence[str]

    def declared(self, types: Mapping[str, Kind]) -> dict[str, Kind]:
        """The declared types of its columns."""
        return {name: kind for name, kind in types.items() if name in self.columns}


@dataclass(frozen=True)
class ScannedSpan:
    """A span before it is written.

    Attributes:
        span: the span.
        source: what reads it.
        key: a digest of everything that determines what is read.
        result: what the scan found.
        kinds: the kinds of its columns, as declared or as found.
        cache: its columns, if the scan had to read them.
    """

    span: Span
    source: Source
    key: str
    result: ScanResult
    kinds: Mapping[str, Kind]
    cache: ColumnCache | None


@dataclass
class SpanIngester:
    """Reads the spans of one run.

    Attributes:
        data: the config.
        checksums: whether the files' marks are checksums of their content.
        store: where spans are stored between runs.
        make_map: makes the parallel map whose results go to a folder.
        work: an existing folder for intermediate files.
        required: the column without a value in which a row is dropped; None for none.
        only: the split of spans, by their number, whose rows all belong to one.
        may_lack: whether the data may be without rows, and without columns that the config names.
        read: the names of the spans that had to be read.
        cache_room: bytes of raw data whose columns may still be cached between scanning and writing.
    """

    data: DataConfig
    checksums: bool
    store: SpanStore
    make_map: Callable[[Path], ParallelMap]
    work: Path
    required: RequiredColumn | None = None
    only: Mapping[int, str] = field(default_factory=dict)
    may_lack: bool = False
    read: list[str] = field(default_factory=list)
    cache_room: int = MAX_BYTES

    def key(self, span: Span, *more: object) -> str:
        return digest_of(
            self.data.model_dump(mode="json", include=READ_SETTINGS), *more, self.store.code, span.fingerprint
        )

    def shards_key(self, scanned: ScannedSpan, kinds: Mapping[str, Kind]) -> str:
        own = {name: kinds[name] for name in scanned.kinds}
        settings = self.data.model_dump(mode="json", exclude=READ_SETTINGS | CHECK_SETTINGS)
        only = self.only.get(scanned.span.number, "")
        required = self.required and self.required.to_json()
        return digest_of(scanned.key, own, settings, *filter(None, (required, only)))

    def open(self, span: Span) -> OpenedSpan:
        """Find the columns of a span."""
        columns = self.data.columns if isinstance(self.data.columns, tuple) else None
        options = ReadOptions(columns, self.data.on_bad_record == "skip")
        source = open_source(self.data.source, span.paths, options, span.splits)
        key = self.key(span)
        names = self.store.columns(key)
        if names is None:
            names = source.columns()
            self.store.store_columns(key, names)
        check_key(self.data, names)
        return OpenedSpan(span, source, names)

    def scan(self, opened: OpenedSpan, types: Mapping[str, Kind]) -> ScannedSpan:
        """Count the rows of a span and find the kinds of its columns; `types` declares some of them."""
        span, source = opened.span, opened.source
        declared = opened.declared(types)
        key = self.key(span, declared)
        result, cache = self.store.scan(key), None
        if result is None:
            self._check_unchanged(span)
            parallel_map = self._map(span, "scan")
            size = sum(file.size for file in span.files)
            folder = self._folder(span, "columns") if size <= self.cache_room else None
            self.cache_room -= size if folder else 0
            cache = ColumnCache.scan(source, source.parts(parallel_map), declared, parallel_map, folder)
            result = cache.result
            if not self.may_lack:
                check_rows(result)
            self.store.store_scan(key, result)
        kinds = {name: declared.get(name) or result.kinds[name] for name in {**result.kinds, **declared}}
        return ScannedSpan(span, source, key, result, kinds, cache)

    def write(self, scanned: ScannedSpan, kinds: Mapping[str, Kind]) -> tuple[str, SpanShards]:
        """Write the shards of a span, given the kinds over all spans; returns their key and the shards."""
        own, key = {name: kinds[name] for name in scanned.kinds}, self.shards_key(scanned, kinds)
        found = self.store.shards(key)
        if found is not None:
            return key, found
        self.read.append(scanned.span.name)
        written = self._write(scanned, own)
        self._check_unchanged(scanned.span)
        if reads_files(self.data.source) or self.data.source.functions():
            check_written(scanned.result, written.rows, scanned.span.paths[0], written.skipped.count + written.dropped)
        return key, self.store.store_shards(key, written, (self.key(scanned.span), scanned.key))

    def _write(self, scanned: ScannedSpan, kinds: Mapping[str, Kind]) -> SpanShards:
        data, source, parallel_map = self.data, scanned.source, self._map(scanned.span, "write")
        work = self.work / f"span-{scanned.span.number}"
        work.mkdir()
        parts = scanned.cache.parts if scanned.cache else source.parts(parallel_map)
        cache = scanned.cache if scanned.cache and scanned.cache.fits(kinds) else None
        read = partial(_read, source=source, kinds=kinds, cache=cache)
        compression = Compression(data.compression, data.compression_level)
        size = _estimate(read, parts, kinds, scanned.result, compression)
        only = self.only.get(scanned.span.number, "")
        plan = plan_shards(shares_of_splits(data, scanned.result, only), size, data.shards, data.readers)
        rows = RowsToDivide(data, parts, read, parallel_map, self.required)
        stratified = None if only else rows.by_class(scanned.span)
        by_column = stratified or rows.by_time() or SplitColumn.of(data)
        buckets = {split: data.hashed_splits.get(split, 0) for split in data.splits}
        layout = ShardLayout(buckets, plan.shards, data.split_keys, data.shuffle_seed, plan.partitions, by_column, only)
        spent = scanned.cache.paths if scanned.cache else ()
        skip_bad = data.on_bad_record == "skip"
        columns = worth_writing(size.held, sum(scanned.result.rows.values()), len(kinds))
        joined, float64 = work / "joined", data.float64_columns
        writer = ShardWriter(layout, compression, work, joined, skip_bad, self.required, columns, float64)
        result, sizes = writer.write(parts, read, parallel_map, spent)
        described = f"{plan.reason}; wrote {_sizes(sizes, layout)}"
        return SpanShards(
            joined,
            dict(result.rows),
            described,
            result.roundings,
            result.skipped,
            result.dropped,
            stratified.rows if stratified else {},
            result.groups,
        )

    def _map(self, span: Span, purpose: str) -> ParallelMap:
        return self.make_map(self._folder(span, purpose))

    def _folder(self, span: Span, purpose: str) -> Path:
        folder = self.work / f"{purpose}-{span.number}"
        folder.mkdir()
        return folder

    def _check_unchanged(self, span: Span) -> None:
        if reads_files(self.data.source):
            check_unchanged(span, checksums=self.checksums)


def _read(
    number: int, part: object, source: Source, kinds: Mapping[str, Kind], cache: ColumnCache | None
) -> Iterator[pa.RecordBatch]:
    return cache.batches(number, kinds) if cache else source.batches(part, kinds)


def _sizes(sizes: Mapping[Shard, int], layout: ShardLayout) -> str:
    """The number of each split's shards, their mean size, and how much they differ."""
    out = []
    for split, count in layout.shards.items():
        own = [size for (name, _), size in sizes.items() if name == split]
        difference = f" (within {1 - min(own) / max(own):.0%})" if count > 1 and max(own) else ""
        out.append(f"{split} {count} x {sum(own) / count / 1e6:.3g} MB{difference}")
    return ", ".join(out)


def _estimate(
    read: ReadPart, parts: Sequence[object], kinds: Mapping[str, Kind], result: ScanResult, compression: Compression
) -> SizeEstimate:
    """The estimated size of all rows, from a sample of the first ones unless there is little data."""
    rows = sum(result.rows.values())
    size = result.size + rows * sum(len(name) + BYTES_PER_VALUE for name in kinds)
    if size < 2 * MIN_SHARD_BYTES:
        return SizeEstimate(size / compression.usual_ratio, size)
    batches = (batch for number, part in enumerate(parts) for batch in read(number, part) if batch.num_rows)
    return SizeEstimate.of(next(batches), rows, compression)
