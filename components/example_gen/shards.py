"""How many files each split gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PER_READER = 10
SMALLEST, BEST = 10e6, 150e6
"""Bytes on disk. The field's rule: at least ten shards for each reading host, so that they share the work evenly; each
over 10 MB, and better 100 to 200 MB, so that reading ahead pays (tensorflow.org/tutorials/load_data/tfrecord)."""


@dataclass(frozen=True)
class Plan:
    """The number of shards of each split, and why."""

    shards: Mapping[str, int]
    reason: str


def plan(buckets: Mapping[str, int], size: float, shards: Literal["auto"] | int, readers: int) -> Plan:
    """The plan for data that is expected to take `size` bytes on disk, over all splits."""
    if shards != "auto":
        return Plan(dict.fromkeys(buckets, shards), f"{_counted(shards, 'shard')} a split, as the config says")
    share = {split: size * count / sum(buckets.values()) for split, count in buckets.items()}
    counts = {split: automatic(bytes_, readers) for split, bytes_ in share.items()}
    told = ", ".join(f"{split} {_megabytes(bytes_)} in {counts[split]}" for split, bytes_ in share.items())
    rule = f"{PER_READER} shards for {_counted(readers, 'reading host')} where each stays over {_megabytes(SMALLEST)}"
    return Plan(counts, f"auto, expecting {told}: {rule}, more where they would pass {_megabytes(200e6)}")


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
