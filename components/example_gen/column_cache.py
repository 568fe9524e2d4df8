"""Columns that a scan had to read, cached on disk until the examples are written, so that text is parsed only once.

cache = ColumnCache.scan(source, parts, declared, parallel_map, folder)
cache.result                           # what the scan found
cache.fits(kinds)                      # whether the cached columns can be read as these kinds
cache.batches(number, kinds)           # the cached rows of a part
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from headrace.components.sources.base import ParallelMap, RowScanner, ScanResult, Source
from headrace.components.sources.types import ARROW, Kind

MAX_BYTES = 2 << 30
"""Bytes of raw data up to which columns are cached: while they stay in the page cache, they cost little."""


@dataclass(frozen=True)
class ColumnCache:
    """The scanned parts of a source.

    Attributes:
        parts: the parts of the source.
        result: what the scan found in all of them.
        folder: the folder of the cached columns; None if there are none.
        types: the Arrow types of each part's cached columns; None for a part that was not cached.
    """

    parts: Sequence[Any]
    result: ScanResult
    folder: Path | None
    types: Sequence[Mapping[str, frozenset[pa.DataType]] | None]

    @classmethod
    def scan(
        cls,
        source: Source,
        parts: Sequence[Any],
        declared: Mapping[str, Kind],
        parallel_map: ParallelMap,
        folder: Path | None,
    ) -> ColumnCache:
        """Scan all parts, and cache their columns in `folder` if it is given."""
        scan = partial(_scan, source=source, declared=declared, folder=folder)
        scans = parallel_map("Scan", scan, list(enumerate(parts)))
        result = reduce(ScanResult.__add__, (result for result, _ in scans), ScanResult())
        return cls(parts, result, folder, [types for _, types in scans])

    def fits(self, kinds: Mapping[str, Kind]) -> bool:
        """Whether the cached columns can be read as columns of these kinds. Text that was parsed as a number cannot
        become a string: how it was written is lost.
        """
        return all(
            own is not None
            and all(_fits(arrow, ARROW[kinds[name]]) for name, found in own.items() if name in kinds for arrow in found)
            for own in self.types
        )

    @property
    def paths(self) -> list[Path]:
        return [_path(self.folder, number) for number in range(len(self.parts))] if self.folder else []

    def batches(self, number: int, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows of a part, as `source.batches` would return them."""
        assert self.folder is not None  # noqa: S101 - otherwise nothing fits
        path = _path(self.folder, number)
        size = path.stat().st_size
        with pa.OSFile(str(path)) as file:
            while file.tell() < size:
                with pa.ipc.open_stream(file) as stream:
                    yield from (_cast(batch, kinds) for batch in stream)


class _CacheWriter:
    """Writes batches one after the other, as a new Arrow stream whenever the type of a column changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._schema: pa.Schema | None = None
        self.types: dict[str, frozenset[pa.DataType]] = {}

    def __enter__(self) -> _CacheWriter:
        self._file = pa.OSFile(str(self._path), "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        self._file.close()

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None or batch.schema != self._schema:
            if self._writer is not None:
                self._writer.close()
            self._schema, self._writer = batch.schema, pa.ipc.new_stream(self._file, batch.schema)
            for field in batch.schema:
                self.types[field.name] = self.types.get(field.name, frozenset()) | {field.type}
        self._writer.write_batch(batch)


def _scan(
    numbered: tuple[int, Any], source: Source, declared: Mapping[str, Kind], folder: Path | None
) -> tuple[ScanResult, Mapping[str, frozenset[pa.DataType]] | None]:
    number, part = numbered
    if folder is None or not isinstance(source, RowScanner):
        return source.scan(part, declared), None
    with _CacheWriter(_path(folder, number)) as cache:
        result = source.scan_rows(part, declared, cache.write)
    return result, cache.types


def _path(folder: Path, part: int) -> Path:
    return folder / f"columns-{part:05d}.arrow"


def _fits(cached: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_floating(wanted) and (pa.types.is_integer(cached) or pa.types.is_floating(cached)):
        return True
    return cached in (wanted, pa.null())


def _cast(batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    found, missing = dict(zip(batch.schema.names, batch.columns, strict=True)), pa.nulls(batch.num_rows)
    columns = [found.get(name, missing) for name in kinds]
    wanted = [ARROW[kind] for kind in kinds.values()]
    cast = [
        column if column.type == arrow else column.cast(arrow, safe=False)
        for column, arrow in zip(columns, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(cast, names=list(kinds))
