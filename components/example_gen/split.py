"""Rows to splits and shards: by hash buckets to a split, and dealt out like cards to its shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from components.example_gen.row_hash import mix, row_hash

Shard = tuple[str, int]
"""A split's name and the number of the shard in it."""


@dataclass(frozen=True)
class Layout:
    """How rows are spread. `buckets`: hash buckets of each split; `shards`: files of each split."""

    buckets: Mapping[str, int]
    shards: Mapping[str, int]
    split_key: str | None
    seed: int

    def all_shards(self) -> Iterator[Shard]:
        """Every shard, split by split."""
        return ((split, shard) for split, count in self.shards.items() for shard in range(count))


@dataclass
class Dealer:
    """Deals the rows of one part's batches, one after the other, so that shards differ by one row at most.

    Within a batch the rows of a split are dealt in the order of their hash, which is a shuffle that depends on the rows
    alone; `part` (the part's number) turns the first shard, so that no shard is always the one to get a row more.
    """

    layout: Layout
    part: int
    _dealt: dict[str, int] = field(default_factory=dict)

    def deal(self, batch: pa.RecordBatch) -> Iterator[tuple[Shard, np.ndarray]]:
        """Each shard with the positions in `batch` of the rows that it gets; shards without rows are left out."""
        columns = sorted(batch.schema.names) if self.layout.split_key is None else [self.layout.split_key]
        hashes = row_hash(batch, columns, self.layout.seed)
        which = split_numbers(hashes, self.layout.buckets)
        for number, split in enumerate(self.layout.buckets):
            rows = np.flatnonzero(which == number)
            rows = rows[np.argsort(self._order(batch, hashes, rows), kind="stable")]
            yield from self._deal_split(split, rows)

    def _order(self, batch: pa.RecordBatch, hashes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """With a split key the rows of a key still have to be spread: order by the whole row then."""
        if self.layout.split_key is None:
            return mix(hashes[rows])
        return row_hash(batch.take(pa.array(rows)), sorted(batch.schema.names), self.layout.seed)

    def _deal_split(self, split: str, rows: np.ndarray) -> Iterator[tuple[Shard, np.ndarray]]:
        count = self.layout.shards[split]
        next_shard = self._dealt.get(split, self.part) % count
        self._dealt[split] = next_shard + len(rows)
        for shard in range(count):
            dealt = rows[(shard - next_shard) % count :: count]
            if len(dealt):
                yield (split, shard), dealt


def split_numbers(hashes: np.ndarray, buckets: Mapping[str, int]) -> np.ndarray:
    """The number of each row's split, in the order of `buckets`: int64 [rows]."""
    bounds = np.cumsum(list(buckets.values()))
    return np.searchsorted(bounds, (hashes % np.uint64(bounds[-1])).astype(np.int64), side="right")
