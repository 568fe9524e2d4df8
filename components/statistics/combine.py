"""Combines batches of examples into the statistics of their split, in Beam or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics.generators.basic_stats_generator import BasicStatsGenerator
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.dsl.io import fileio
from tfx_bsl.statistics import merge_util

from headrace.components.file_groups import FileGroup, MergeInOrder, file_groups
from headrace.components.statistics.categories import CategoryGenerator
from headrace.components.statistics.read import batches

Shards = Mapping[str, list[str]]
"""The files of each key: a split, or whatever else has an accumulator of its own."""
Targets = Mapping[str, str]
"""The file of each split's statistics."""
Write = Callable[[tuple[str, Any]], None]
"""Takes a key of the shards and the output for it."""


class StatisticsCombiner(beam.CombineFn):
    """RecordBatches to a DatasetFeatureStatisticsList, with TFDV's default options."""

    def __init__(self) -> None:
        super().__init__()
        options = tfdv.StatsOptions()
        self._generators = [
            BasicStatsGenerator(
                num_values_histogram_buckets=options.num_values_histogram_buckets,
                num_histogram_buckets=options.num_histogram_buckets,
                num_quantiles_histogram_buckets=options.num_quantiles_histogram_buckets,
                epsilon=options.epsilon,
            ),
            CategoryGenerator(options.num_top_values, options.num_rank_histogram_buckets),
        ]

    def create_accumulator(self) -> list[Any]:
        """One accumulator for each generator."""
        return [generator.create_accumulator() for generator in self._generators]

    def add_input(self, accumulator: list[Any], batch: pa.RecordBatch) -> list[Any]:
        """Add a batch."""
        return [generator.add_input(part, batch) for generator, part in zip(self._generators, accumulator, strict=True)]

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Add accumulators up. The first one may change."""
        parts = zip(*accumulators, strict=True)
        return [generator.merge_accumulators(part) for generator, part in zip(self._generators, parts, strict=True)]

    def compact(self, accumulator: list[Any]) -> list[Any]:
        """Shrink an accumulator before it is sent."""
        return [generator.compact(part) for generator, part in zip(self._generators, accumulator, strict=True)]

    def extract_output(self, accumulator: list[Any]) -> DatasetFeatureStatisticsList:
        """The statistics; without examples, those of a dataset without features."""
        parts = zip(self._generators, self.compact(accumulator), strict=True)
        return merge_util.merge_dataset_feature_statistics(
            [generator.extract_output(part) for generator, part in parts]
        )


class AccumulatorCombiner(StatisticsCombiner):
    """RecordBatches to an accumulator, which StatisticsCombiner can merge with others."""

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        """The compacted accumulator."""
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


def combine_directly(shards: Shards, combiner: StatisticsCombiner, write: Write) -> None:
    """Do what CombineShards does, without Beam."""
    for key, files in shards.items():
        accumulated = (_accumulated(group, combiner) for group in file_groups(key, files))
        write((key, _output([accumulator for _, (_, accumulator) in accumulated], combiner)))


def to_files(targets: Targets) -> Write:
    """A function that writes the statistics of each split to its file."""
    return partial(_write, targets=targets)


def _accumulated(group: FileGroup, combiner: StatisticsCombiner) -> tuple[str, tuple[int, list[Any]]]:
    """The accumulator of a group, with its key and number."""
    accumulator = combiner.create_accumulator()
    for file in group.files:
        for batch in batches(file):
            accumulator = combiner.add_input(accumulator, batch)
    return group.key, (group.number, combiner.compact(accumulator))


def _output(accumulators: list[list[Any]], combiner: StatisticsCombiner) -> Any:
    return combiner.extract_output(combiner.merge_accumulators(accumulators))


def _write(computed: tuple[str, DatasetFeatureStatisticsList], targets: Targets) -> None:
    split, statistics = computed
    folder, _, _ = targets[split].rpartition("/")
    fileio.makedirs(folder)
    with fileio.open(targets[split], "wb") as file:
        file.write(statistics.SerializeToString())
