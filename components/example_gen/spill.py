"""Rows sorted into piles on disk: one Arrow file for each part of the data, whose record batches can be read alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from headrace.components.example_gen.side_by_side import side_by_side

SMALLEST, LARGEST = 16 << 20, 64 << 20
"""Bytes that a part holds in memory before they go to disk."""

CHUNK = 32 << 10
"""Bytes of a pile that should go to disk together."""


class Spill:
    """The piles of one part, written.

    with Spill(path, piles=10) as spill:
        spill.add(batch, np.array([3, 0, ...]))
    spill.chunks     # which pile each record batch of the file belongs to
    """

    def __init__(self, path: Path, piles: int) -> None:
        self._path, self._piles = path, piles
        self._room = min(max(piles * CHUNK, SMALLEST), LARGEST)
        self._held: list[pa.RecordBatch] = []
        self._numbers: list[np.ndarray] = []
        self._size = 0
        self._writer: pa.RecordBatchFileWriter | None = None
        self.chunks: list[int] = []

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._to_disk()
        if self._writer is not None:
            self._writer.close()

    def add(self, batch: pa.RecordBatch, piles: np.ndarray) -> None:
        """Rows, and the number of each one's pile."""
        rows = side_by_side(batch)
        self._held.append(rows)
        self._numbers.append(piles)
        self._size += rows.nbytes
        if self._size >= self._room:
            self._to_disk()

    def _to_disk(self) -> None:
        if not self._held:
            return
        numbers = np.concatenate(self._numbers)
        order = np.argsort(numbers.astype(np.min_scalar_type(self._piles)), kind="stable")
        rows = together(self._held)
        self._held, self._numbers, self._size = [], [], 0
        rows = rows.take(pa.array(order))
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._path), rows.schema)
        counts = np.bincount(numbers, minlength=self._piles)
        ends = np.cumsum(counts)
        for pile in np.flatnonzero(counts).tolist():
            self._writer.write_batch(rows.slice(int(ends[pile] - counts[pile]), int(counts[pile])))
            self.chunks.append(pile)


def read_chunks(path: Path, chunks: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Some record batches of a part's file, by their numbers: rows as `side_by_side` makes them."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        yield from (reader.get_batch(chunk) for chunk in chunks)


def together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema, which must not be none, as one."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
