"""The layout of the shards: how many files each split gets, and which partition each row goes to.

A row's split comes from its hash alone, or from a column that names it. Within a split, rows are dealt out in shuffled
rounds to partitions: pieces of a shard that fit into memory, each of which is shuffled and encoded as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.figures import plural
from headrace.components.example_gen.shards.group_split import GroupRows, GroupSplit
from headrace.components.example_gen.shards.stratified_split import StratifiedSplit, spelled
from headrace.components.example_gen.shards.time_split import TimeSplit
from headrace.components.examples.compression import Compression
from headrace.components.examples.row_hash import row_hash, split_numbers, spread_copies
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.configs.schema.data import DataConfig

PER_READER = 10
MIN_SHARD_BYTES, GOOD_SHARD_BYTES, MAX_SHARD_BYTES = 10e6, 150e6, 200e6
"""Bytes on disk. The usual rule: at least ten shards for each reading host, so that the hosts share the work evenly;
each over 10 MB, and better 100 to 200 MB, so that prefetching pays (tensorflow.org/tutorials/load_data/tfrecord)."""

PARTITION_BYTES = 8 << 20
MAX_PARTITIONS = 2048
"""Bytes of columns in a partition; beyond this number of partitions, they become larger instead."""

SAMPLE, SAMPLE_VALUES = 4096, 1 << 20
"""Rows, and values in them, that are encoded and compressed to estimate the total size."""

Shard = tuple[str, int]
"""A split's name and the number of the shard in it."""


@dataclass(frozen=True)
class SizeEstimate:
    """The estimated bytes of all rows: compressed on disk, and as columns in memory."""

    packed: float
    held: float

    @classmethod
    def of(cls, batch: pa.RecordBatch, rows: int, compression: Compression) -> SizeEstimate:
        """Extrapolate from the first of `rows` rows."""
        sample = batch.slice(0, min(SAMPLE, max(1, SAMPLE_VALUES // max(1, batch.num_columns))))
        compressor = compression.compressor()
        packed = len(compressor.compress(memoryview(framed_examples(sample).buffers()[2]))) + len(compressor.flush())
        return cls(rows * packed / len(sample), rows * sample.nbytes / len(sample))


@dataclass(frozen=True)
class ShardPlan:
    """The number of shards of each split, the number of partitions in each of them, and the reason."""

    shards: Mapping[str, int]
    partitions: Mapping[str, int]
    reason: str


def plan_shards(shares: Mapping[str, float], size: SizeEstimate, shards: str | int, readers: int) -> ShardPlan:
    """Choose the numbers of shards and partitions.

    Args:
        shares: of each split, in any unit.
        size: the estimated size of the data, over all splits.
        shards: the number for each split, the size of each ("150MB"), or "auto".
        readers: the number of hosts that will read the shards.
    """
    fraction = {split: share / sum(shares.values()) for split, share in shares.items()}
    packed = {split: size.packed * part for split, part in fraction.items()}
    plan = _planned(packed, shards, readers)
    largest = max(PARTITION_BYTES, size.held / MAX_PARTITIONS)
    counts = {split: max(1, round(size.held * part / plan.shards[split] / largest)) for split, part in fraction.items()}
    return replace(plan, partitions=counts)


def _planned(packed: Mapping[str, float], shards: str | int, readers: int) -> ShardPlan:
    if isinstance(shards, int):
        counts = {split: shards if bytes_ else 1 for split, bytes_ in packed.items()}
        return ShardPlan(counts, {}, f"{plural(shards, 'shard')} per split, as configured")
    if shards == "auto":
        counts = {split: automatic_count(bytes_, readers) for split, bytes_ in packed.items()}
        rule = (
            f"auto, up to {PER_READER} shards for {plural(readers, 'reading host')}, each of at least"
            f" {_megabytes(MIN_SHARD_BYTES)}, and more if they would exceed {_megabytes(MAX_SHARD_BYTES)}"
        )
    else:
        target = float(shards.removesuffix("MB")) * 1e6
        counts = {split: max(1, round(bytes_ / target)) for split, bytes_ in packed.items()}
        rule = f"shards of about {_megabytes(target)}, as configured"
    expected = ", ".join(f"{split} {_megabytes(bytes_)} in {counts[split]}" for split, bytes_ in packed.items())
    return ShardPlan(counts, {}, f"{rule}; expected {expected}")


def automatic_count(size: float, readers: int) -> int:
    """The number of shards for a split of `size` bytes."""
    wanted = PER_READER * readers
    if size / wanted > MAX_SHARD_BYTES:
        return round(size / GOOD_SHARD_BYTES)
    return max(1, min(wanted, int(size // MIN_SHARD_BYTES)))


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.3g} MB"


@dataclass(frozen=True)
class SplitColumn:
    """A column that names the split of each row.

    splits: the number of the split for each value of the column, as text.
    """

    name: str
    splits: Mapping[str, int]

    @classmethod
    def of(cls, data: DataConfig) -> SplitColumn | None:
        """The column that `data.split_column` names; None if there is none."""
        if data.split_column is None:
            return None
        values = {split: data.split_values.get(split, (split,)) for split in data.splits}
        numbers = {str(value): number for number, split in enumerate(data.splits) for value in values[split]}
        return cls(data.split_column, numbers)

    def numbers(self, batch: pa.RecordBatch, file: str | None = None) -> np.ndarray:
        """The number of each row's split: int64 [rows]. Raises DataError for a value that is not that of a split.

        file: where the rows come from, for messages.
        """
        coded = batch.column(self.name).dictionary_encode(null_encoding="encode")
        values = [spelled(value) for value in coded.dictionary.to_pylist()]
        numbers = np.array([self.splits.get(value or "", -1) for value in values], np.int64)
        found = numbers[coded.indices.to_numpy()] if len(batch) else np.zeros(0, np.int64)
        if (found < 0).any():
            wrong = values[int(coded.indices[int(np.argmin(found))].as_py())]
            raise DataError(
                f"{'a row has no value' if not wrong else repr(wrong)}, which is not the value of a split",
                file=file,
                column=self.name,
                hint=f"The values are {', '.join(self.splits)}; `data.split_values` lists those of each split",
            )
        return found


@dataclass(frozen=True)
class ShardLayout:
    """How rows are distributed. The partitions of all splits are numbered consecutively, split by split.

    Attributes:
        buckets: the hash buckets of each split; 0 for one that gets only rows of its own.
        shards: the files of each split.
        split_key: the columns whose values decide the split together; empty: the whole row does.
        seed: of the hash and the shuffles.
        partitions: the partitions in each shard of a split; 1 for splits that are not named.
        split_column: the column that names the split of each row, or by whose order or classes rows are split; None:
            the hash decides.
        only: the split of all rows; "" if they are divided.
    """

    buckets: Mapping[str, int]
    shards: Mapping[str, int]
    split_key: Sequence[str]
    seed: int
    partitions: Mapping[str, int] = field(default_factory=dict)
    split_column: SplitColumn | TimeSplit | StratifiedSplit | None = None
    only: str = ""

    def split_numbers(
        self, batch: pa.RecordBatch, file: str | None = None, split: str = ""
    ) -> tuple[np.ndarray, GroupRows]:
        """The number of each row's split, int64 [rows], and with a split key the rows of each group. Raises DataError
        if the split column has another value.

        file: where the rows come from, for messages; split: the split that has them, if splits have their own data.
        """
        split = split or self.only
        hashed = [name for name, buckets in self.buckets.items() if buckets]
        if split not in {"", "train"} or (split and len(hashed) == 1):
            return np.full(batch.num_rows, [*self.buckets].index(split), np.int64), GroupRows()
        if self.split_column is not None:
            return self.split_column.numbers(batch, file), GroupRows()
        if self.split_key:
            return GroupSplit(self.split_key, self.seed, self.buckets).numbers(batch)
        hashes = spread_copies(row_hash(batch, sorted(batch.schema.names), self.seed))
        return split_numbers(hashes, self.buckets), GroupRows()

    def all_shards(self) -> Iterator[Shard]:
        """Every shard, split by split."""
        return ((split, shard) for split, count in self.shards.items() for shard in range(count))

    def count(self, split: str) -> int:
        """The number of partitions of a split."""
        return self.shards[split] * self.partitions.get(split, 1)

    def all_partitions(self) -> Iterator[Shard]:
        """The shard of each partition. Adjacent partitions belong to different shards, so that shards stay even if the
        last round of rows ends halfway.
        """
        return ((split, number % self.shards[split]) for split in self.shards for number in range(self.count(split)))


@dataclass
class Partitioner:
    """Assigns the rows of one part's batches, in their order, to partitions that differ by at most one row.

    The order depends on the seed and the part's number. That number also shifts the first partition, so that it is not
    always the same one that gets a row more.
    """

    layout: ShardLayout
    part: int
    file: str | None = None
    split: str = ""
    groups: GroupRows = field(default_factory=GroupRows)
    """Of the batches so far."""
    _assigned: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random_state(self.layout.seed, 0, self.part)

    def assign(self, batch: pa.RecordBatch) -> np.ndarray:
        """The number of each row's partition: int64 [rows]."""
        which, groups = self.layout.split_numbers(batch, self.file, self.split)
        self.groups += groups
        partitions = np.empty(batch.num_rows, np.int64)
        first = 0
        for number, split in enumerate(self.layout.buckets):
            rows = np.flatnonzero(which == number)
            start, count = self._assigned.get(split, self.part), self.layout.count(split)
            partitions[rows] = first + (start + self._random.permutation(len(rows))) % count
            self._assigned[split] = (start + len(rows)) % count
            first += count
        return partitions


def random_state(*seed: int) -> np.random.RandomState:
    """A stream of random numbers that stays the same in later versions of NumPy."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))
