"""Accumulates files in groups, so that neither the number of workers nor their speed changes a result.

Sums of floating-point numbers and the states of sketches depend on the order of what is added, and Beam's CombinePerKey
adds in the order in which workers finish. Here one worker accumulates the files of a group in order, and the groups'
accumulators are merged in order.

    accumulators = groups | beam.Reshuffle() | beam.Map(accumulate)     # (key, (group.number, accumulator))
    merged = accumulators | "Merge" >> MergeInOrder(merge)              # (key, merge([accumulator, ...]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

GROUPS = 32
"""Groups of a key, which as many workers can accumulate at the same time. The worker that merges them has all their
accumulators in memory."""


class FileGroup(NamedTuple):
    """Consecutive files of a key: all that one worker accumulates."""

    key: str
    number: int
    files: tuple[str, ...]


def file_groups(key: str, files: Sequence[str]) -> Iterator[FileGroup]:
    """The groups of a key, which depend only on the number of files. Without files there is one, which is empty."""
    count = min(GROUPS, len(files)) or 1
    edges = [len(files) * number // count for number in range(count + 1)]
    for number in range(count):
        yield FileGroup(key, number, tuple(files[edges[number] : edges[number + 1]]))


class MergeInOrder(beam.PTransform):
    """(key, (number, accumulator)) of each group → (key, what `merge` returns for the accumulators by number)."""

    def __init__(self, merge: Callable[[list[Any]], Any]) -> None:
        super().__init__()
        self._merge = merge

    def expand(self, accumulators: beam.PCollection) -> beam.PCollection:
        """Gather the accumulators of a key on one worker."""
        return accumulators | "Gather" >> beam.GroupByKey() | "InOrder" >> beam.Map(_in_order, self._merge)


def _in_order(keyed: tuple[Any, Iterable[tuple[int, Any]]], merge: Callable[[list[Any]], Any]) -> tuple[Any, Any]:
    key, numbered = keyed
    by_number = sorted(numbered, key=lambda pair: pair[0])
    return key, merge([accumulator for _, accumulator in by_number])
