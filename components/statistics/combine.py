"""Batches of examples to the statistics of their split, in Beam or without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics.generators.basic_stats_generator import BasicStatsGenerator
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.dsl.io import fileio
from tfx_bsl.statistics import merge_util

from headrace.components.statistics.categories import CategoryGenerator
from headrace.components.statistics.read import batches

Shards = Mapping[str, list[str]]
"""The files of each split, or of whatever else is added up by itself."""
Targets = Mapping[str, str]
"""The file of each split's statistics."""
Write = Callable[[tuple[str, Any]], None]
"""Takes a key of the shards, and what came out for it."""


class Statistics(beam.CombineFn):
    """RecordBatches → DatasetFeatureStatisticsList, with the options that TFDV has by default."""

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
        """Sum up a batch."""
        return [generator.add_input(part, batch) for generator, part in zip(self._generators, accumulator, strict=True)]

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Add them up; the first may change."""
        parts = zip(*accumulators, strict=True)
        return [generator.merge_accumulators(part) for generator, part in zip(self._generators, parts, strict=True)]

    def compact(self, accumulator: list[Any]) -> list[Any]:
        """Make it small, to be sent."""
        return [generator.compact(part) for generator, part in zip(self._generators, accumulator, strict=True)]

    def extract_output(self, accumulator: list[Any]) -> DatasetFeatureStatisticsList:
        """The statistics; of no examples, those of a dataset without features."""
        parts = zip(self._generators, self.compact(accumulator), strict=True)
        return merge_util.merge_dataset_feature_statistics(
            [generator.extract_output(part) for generator, part in parts]
        )


class Sums(Statistics):
    """RecordBatches → an accumulator, from which Statistics can go on."""

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        """The accumulator, made small."""
        return self.compact(accumulator)


class AddUp(beam.PTransform):
    """Reads the shards of every key and writes what comes out for it."""

    def __init__(self, shards: Shards, statistics: Statistics, write: Write) -> None:
        super().__init__()
        self._shards, self._statistics, self._write = shards, statistics, write

    def expand(self, start: beam.pvalue.PBegin) -> beam.PCollection:
        """Shards, then sums of each worker, then sums of all."""
        return (
            start
            | "Shards" >> beam.Create(list(_each(self._shards)))
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.FlatMapTuple(_keyed)
            | "AddUp" >> beam.CombinePerKey(self._statistics)
            | "Write" >> beam.Map(self._write)
        )


def add_up(shards: Shards, statistics: Statistics, write: Write) -> None:
    """Do the same without Beam."""
    for key, files in shards.items():
        total = statistics.create_accumulator()
        for one, file in _each({key: files}):
            for _, batch in _keyed(one, file):
                total = statistics.add_input(total, batch)
        write((key, statistics.extract_output(total)))


def to_files(targets: Targets) -> Write:
    """Writes the statistics of each split into its file."""
    return partial(_write, targets=targets)


def _each(shards: Shards) -> Iterator[tuple[str, str | None]]:
    for split, files in shards.items():
        yield from ((split, file) for file in files)
        if not files:
            yield split, None


def _keyed(split: str, file: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches of a file, and an empty one, so that a split without examples has statistics too."""
    yield split, pa.RecordBatch.from_arrays([], [])
    if file is not None:
        yield from ((split, batch) for batch in batches(file))


def _write(computed: tuple[str, DatasetFeatureStatisticsList], targets: Targets) -> None:
    split, statistics = computed
    folder, _, _ = targets[split].rpartition("/")
    fileio.makedirs(folder)
    with fileio.open(targets[split], "wb") as file:
        file.write(statistics.SerializeToString())
