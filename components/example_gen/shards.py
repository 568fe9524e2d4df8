"""How many files each split gets, and in how many piles each file is shuffled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.components.example_gen.packing import Packing
from headrace.components.example_gen.tfrecord import framed_examples

PER_READER = 10
SMALLEST, BEST = 10e6, 150e6
"""Bytes on disk. The field's rule: at least ten shards for each reading host, so that they share the work evenly; each
over 10 MB, and better 100 to 200 MB, so that reading ahead pays (tensorflow.org/tutorials/load_data/tfrecord)."""

PILE = 8 << 20
MOST_PILES = 2048
"""Bytes of columns in a pile, and how many piles there are before they become larger than that."""

SAMPLE, SAMPLE_VALUES = 4096, 1 << 20
"""Rows, and values in them, that are encoded and packed to estimate the size of all."""


@dataclass(frozen=True)
class Estimate:
    """The bytes that all rows will take: packed on disk, and as columns in memory."""

    packed: float
    held: float

    @classmethod
    def of(cls, batch: pa.RecordBatch, rows: int, packing: Packing) -> Estimate:
        """From the first rows of `rows`."""
        sample = batch.slice(0, min(SAMPLE, max(1, SAMPLE_VALUES // max(1, batch.num_columns))))
        stream = packing.stream()
        packed = len(stream.compress(memoryview(framed_examples(sample).buffers()[2]))) + len(stream.flush())
        return cls(rows * packed / len(sample), rows * sample.nbytes / len(sample))


@dataclass(frozen=True)
class Plan:
    """The number of shards of each split and of piles in each of them, and why."""

    shards: Mapping[str, int]
    piles: Mapping[str, int]
    reason: str


def plan(buckets: Mapping[str, int], size: Estimate, shards: str | int, readers: int) -> Plan:
    """The plan for data of an estimated size, over all splits.

    shards: how many for each split, the size of each ("150MB"), or "auto".
    """
    share = {split: count / sum(buckets.values()) for split, count in buckets.items()}
    packed = {split: size.packed * part for split, part in share.items()}
    told = _planned(packed, shards, readers)
    largest = max(PILE, size.held / MOST_PILES)
    piles = {split: max(1, round(size.held * part / told.shards[split] / largest)) for split, part in share.items()}
    return replace(told, piles=piles)


def _planned(packed: Mapping[str, float], shards: str | int, readers: int) -> Plan:
    if isinstance(shards, int):
        return Plan(dict.fromkeys(packed, shards), {}, f"{_counted(shards, 'shard')} a split, as the config says")
    if shards == "auto":
        counts = {split: automatic(bytes_, readers) for split, bytes_ in packed.items()}
        rule = (
            f"{PER_READER} shards for {_counted(readers, 'reading host')} where each stays over {_megabytes(SMALLEST)}"
        )
        rule += f", more where they would pass {_megabytes(200e6)}"
    else:
        target = float(shards.removesuffix("MB")) * 1e6
        counts = {split: max(1, round(bytes_ / target)) for split, bytes_ in packed.items()}
        rule = f"shards of about {_megabytes(target)}, as the config says"
    told = ", ".join(f"{split} {_megabytes(bytes_)} in {counts[split]}" for split, bytes_ in packed.items())
    return Plan(counts, {}, f"{'auto, ' if shards == 'auto' else ''}expecting {told}: {rule}")


def automatic(size: float, readers: int) -> int:
    """The number of shards for one split of `size` bytes."""
    wanted = PER_READER * readers
    if size / wanted > 200e6:
        return round(size / BEST)
    return max(1, min(wanted, int(size // SMALLEST)))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.3g} MB"
