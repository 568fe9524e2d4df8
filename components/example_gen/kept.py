"""Columns that a survey had to read, kept on disk so that the text need not be read again for the examples.

kept = Kept.survey(source, parts, declared, spread, folder)
kept.found                             # the surveys together
kept.fits(kinds)                       # whether the columns can be taken as columns of these kinds
kept.batches(number, kinds)            # those of a part
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from headrace.components.example_gen.sources.base import ParallelMap, RowScanner, ScanResult, Source
from headrace.components.example_gen.types import ARROW, Kind

MOST = 2 << 30
"""Bytes of raw data up to which columns are kept: while they stay in the system's memory, they cost little."""


@dataclass(frozen=True)
class Kept:
    """What was found in the parts, and the types of the columns kept of each (None: nothing was)."""

    parts: Sequence[Any]
    found: ScanResult
    folder: Path | None
    types: Sequence[Mapping[str, frozenset[pa.DataType]] | None]

    @classmethod
    def survey(
        cls,
        source: Source,
        parts: Sequence[Any],
        declared: Mapping[str, Kind],
        spread: ParallelMap,
        folder: Path | None,
    ) -> Kept:
        """Look at all parts; keep their columns under `folder`, if there is one."""
        look = partial(_look, source=source, declared=declared, folder=folder)
        looks = spread("Survey", look, list(enumerate(parts)))
        found = reduce(ScanResult.__add__, (found for found, _ in looks), ScanResult())
        return cls(parts, found, folder, [own for _, own in looks])

    def fits(self, kinds: Mapping[str, Kind]) -> bool:
        """Whether what was kept holds all that columns of these kinds would: a text that was read as a number no longer
        tells how it was written.
        """
        return all(
            own is not None
            and all(_fits(arrow, ARROW[kinds[name]]) for name, kept in own.items() if name in kinds for arrow in kept)
            for own in self.types
        )

    @property
    def paths(self) -> list[Path]:
        """The files that the columns are kept in."""
        return [_path(self.folder, number) for number in range(len(self.parts))] if self.folder else []

    def batches(self, number: int, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows of a part as `source.batches` gives them."""
        assert self.folder is not None  # noqa: S101 - else nothing fits
        path = _path(self.folder, number)
        size = path.stat().st_size
        with pa.OSFile(str(path)) as file:
            while file.tell() < size:
                with pa.ipc.open_stream(file) as stream:
                    yield from (_cast(batch, kinds) for batch in stream)


class _Keeper:
    """Writes batches one after the other, with a new head wherever a column's type changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._schema: pa.Schema | None = None
        self.types: dict[str, frozenset[pa.DataType]] = {}

    def __enter__(self) -> _Keeper:
        self._file = pa.OSFile(str(self._path), "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        self._file.close()

    def keep(self, batch: pa.RecordBatch) -> None:
        if self._writer is None or batch.schema != self._schema:
            if self._writer is not None:
                self._writer.close()
            self._schema, self._writer = batch.schema, pa.ipc.new_stream(self._file, batch.schema)
            for field in batch.schema:
                self.types[field.name] = self.types.get(field.name, frozenset()) | {field.type}
        self._writer.write_batch(batch)


def _look(
    numbered: tuple[int, Any], source: Source, declared: Mapping[str, Kind], folder: Path | None
) -> tuple[ScanResult, Mapping[str, frozenset[pa.DataType]] | None]:
    number, part = numbered
    if folder is None or not isinstance(source, RowScanner):
        return source.scan(part, declared), None
    with _Keeper(_path(folder, number)) as keeper:
        found = source.scan_rows(part, declared, keeper.keep)
    return found, keeper.types


def _path(folder: Path, part: int) -> Path:
    return folder / f"kept-{part:05d}.arrow"


def _fits(kept: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_floating(wanted) and (pa.types.is_integer(kept) or pa.types.is_floating(kept)):
        return True
    return kept in (wanted, pa.null())


def _cast(batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    found, missing = dict(zip(batch.schema.names, batch.columns, strict=True)), pa.nulls(batch.num_rows)
    columns = [found.get(name, missing) for name in kinds]
    wanted = [ARROW[kind] for kind in kinds.values()]
    cast = [
        column if column.type == arrow else column.cast(arrow, safe=False)
        for column, arrow in zip(columns, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(cast, names=list(kinds))
