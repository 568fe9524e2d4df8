"""Rows to splits, by hash buckets, and to the piles of each split, by a shuffled deal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.components.example_gen.row_hash import row_hash

Shard = tuple[str, int]
"""A split's name and the number of the shard in it."""


@dataclass(frozen=True)
class Layout:
    """How rows are spread. `buckets`: hash buckets of each split; `shards`: files of each split; `piles`: in how many
    piles, of which one fits into memory, each shard of a split is shuffled.

    The piles of all splits are numbered through, split by split.
    """

    buckets: Mapping[str, int]
    shards: Mapping[str, int]
    split_key: str | None
    seed: int
    piles: Mapping[str, int] = field(default_factory=dict)

    def all_shards(self) -> Iterator[Shard]:
        """Every shard, split by split."""
        return ((split, shard) for split, count in self.shards.items() for shard in range(count))

    def count(self, split: str) -> int:
        """The number of piles of a split."""
        return self.shards[split] * self.piles.get(split, 1)

    def all_piles(self) -> Iterator[Shard]:
        """The shard that each pile belongs to. Neighbours belong to different ones, so that a deal which ends half way
        round leaves the shards even.
        """
        return ((split, pile % self.shards[split]) for split in self.shards for pile in range(self.count(split)))


@dataclass
class Dealer:
    """Deals the rows of one part's batches, one after the other, so that piles differ by one row at most.

    In which order depends on the seed and the part's number; that number also turns the first pile, so that no pile is
    always the one to get a row more.
    """

    layout: Layout
    part: int
    _dealt: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random(self.layout.seed, 0, self.part)

    def deal(self, batch: pa.RecordBatch) -> np.ndarray:
        """The number of each row's pile: int64 [rows]."""
        columns = sorted(batch.schema.names) if self.layout.split_key is None else [self.layout.split_key]
        which = split_numbers(row_hash(batch, columns, self.layout.seed), self.layout.buckets)
        piles = np.empty(batch.num_rows, np.int64)
        first = 0
        for number, split in enumerate(self.layout.buckets):
            rows = np.flatnonzero(which == number)
            start, count = self._dealt.get(split, self.part), self.layout.count(split)
            piles[rows] = first + (start + self._random.permutation(len(rows))) % count
            self._dealt[split] = (start + len(rows)) % count
            first += count
        return piles


def random(*seed: int) -> np.random.RandomState:
    """A stream of random numbers that stays the same in later versions of NumPy."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


def split_numbers(hashes: np.ndarray, buckets: Mapping[str, int]) -> np.ndarray:
    """The number of each row's split, in the order of `buckets`: int64 [rows]."""
    bounds = np.cumsum(list(buckets.values()))
    return np.searchsorted(bounds, (hashes % np.uint64(bounds[-1])).astype(np.int64), side="right")
