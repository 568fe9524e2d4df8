"""Combines batches of examples into the statistics of their split, in Beam or in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.dsl.io import fileio
from tfx_bsl.statistics import merge_util

from headrace.common.heap import HeapTrim
from headrace.components.file_groups import FileGroup, MergeInOrder, file_groups
from headrace.components.statistics.categories import Categories, add_values, merge_categories, text_statistics
from headrace.components.statistics.columns import ColumnStatistics
from headrace.components.statistics.protos import dataset_statistics
from headrace.components.statistics.read import batches

Shards = Mapping[str, list[str]]
"""The files of each key: a split, or whatever else has an accumulator of its own."""
Targets = Mapping[str, str]
"""The file of each split's statistics."""
Write = Callable[[tuple[str, Any]], None]
"""Takes a key of the shards and the output for it."""
BATCHES_BETWEEN_TRIMS = 16
"""64 MB of examples."""


@dataclass
class Accumulator:
    """The statistics of the columns, and the counts of the text columns' values."""

    columns: ColumnStatistics = field(default_factory=ColumnStatistics)
    categories: Categories = field(default_factory=dict)


class StatisticsCombiner(beam.CombineFn):
    """RecordBatches to a DatasetFeatureStatisticsList, with TFDV's default options."""

    def create_accumulator(self) -> Accumulator:
        return Accumulator()

    def add_input(self, accumulator: Accumulator, batch: pa.RecordBatch) -> Accumulator:
        accumulator.columns.add(batch)
        add_values(accumulator.categories, batch)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """Add accumulators up. The first one changes."""
        total, *others = accumulators
        for other in others:
            total.columns.merge(other.columns)
            merge_categories(total.categories, other.categories)
        return total

    def compact(self, accumulator: Accumulator) -> Accumulator:
        """Shrink an accumulator before it is sent."""
        accumulator.columns.compact()
        for counts in accumulator.categories.values():
            counts.settle()
        return accumulator

    def extract_output(self, accumulator: Accumulator) -> DatasetFeatureStatisticsList:
        """The statistics; without examples, those of a dataset without features."""
        parts = self.compact(accumulator)
        return merge_util.merge_dataset_feature_statistics(
            [dataset_statistics(parts.columns), text_statistics(parts.categories)]
        )


class AccumulatorCombiner(StatisticsCombiner):
    """RecordBatches to an accumulator, which StatisticsCombiner can merge with others."""

    def extract_output(self, accumulator: Accumulator) -> Any:
        return self.compact(accumulator)


class CombineShards(beam.PTransform):
    """Reads the shards of every key, combines them, and writes the output for each key."""

    def __init__(self, shards: Shards, combiner: StatisticsCombiner, write: Write) -> None:
        super().__init__()
        self._shards, self._combiner, self._write = shards, combiner, write

    def expand(self, start: beam.pvalue.PBegin) -> beam.PCollection:
        """Groups of shards, then an accumulator of each, then one for each key."""
        groups = [group for key, files in self._shards.items() for group in file_groups(key, files)]
        return (
            start
            | "Shards" >> beam.Create(groups)
            | "Spread" >> beam.Reshuffle()
            | "AddUp" >> beam.Map(_accumulated, self._combiner)
            | "Merge" >> MergeInOrder(partial(_output, combiner=self._combiner))
            | "Write" >> beam.Map(self._write)
        )


def combine_directly(shards: Shards, combiner: StatisticsCombiner, write: Write, workers: int = 1) -> None:
    """Do what CombineShards does in threads, without Beam.

    What a group adds is merged at once, in the order of the groups. Beam holds the accumulators of all of them, which
    for a wide table are large, and copies of them. A key may have one group, so that those of several keys are
    read at the same time.
    """
    groups = [group for key, files in shards.items() for group in file_groups(key, files)]
    with ThreadPoolExecutor(workers) as pool, closing(_each_accumulated(groups, combiner, pool, 2 * workers)) as each:
        for key, files in shards.items():
            total = combiner.create_accumulator()
            for _ in file_groups(key, files):
                total = combiner.merge_accumulators([total, next(each)])
            write((key, combiner.extract_output(total)))


def to_files(targets: Targets) -> Write:
    """A function that writes the statistics of each split to its file."""
    return partial(_write, targets=targets)


def _each_accumulated(
    groups: Iterable[FileGroup], combiner: StatisticsCombiner, pool: ThreadPoolExecutor, most: int
) -> Generator[Accumulator, None, None]:
    """The accumulators of the groups in their order, of which at most `most` are made or wait to be taken."""
    waiting = deque[Future[tuple[str, tuple[int, Accumulator]]]]()
    try:
        for group in groups:
            waiting.append(pool.submit(_accumulated, group, combiner))
            if len(waiting) == most:
                yield waiting.popleft().result()[1][1]
        while waiting:
            yield waiting.popleft().result()[1][1]
    finally:
        for future in waiting:
            future.cancel()


def _accumulated(group: FileGroup, combiner: StatisticsCombiner) -> tuple[str, tuple[int, Accumulator]]:
    """The accumulator of a group, with its key and number."""
    accumulator, trim = combiner.create_accumulator(), HeapTrim(BATCHES_BETWEEN_TRIMS)
    for file in group.files:
        for batch in batches(file):
            accumulator = combiner.add_input(accumulator, batch)
            trim.count()
    return group.key, (group.number, combiner.compact(accumulator))


def _output(accumulators: list[Accumulator], combiner: StatisticsCombiner) -> Any:
    return combiner.extract_output(combiner.merge_accumulators(accumulators))


def _write(computed: tuple[str, DatasetFeatureStatisticsList], targets: Targets) -> None:
    split, statistics = computed
    folder, _, _ = targets[split].rpartition("/")
    fileio.makedirs(folder)
    with fileio.open(targets[split], "wb") as file:
        file.write(statistics.SerializeToString())
