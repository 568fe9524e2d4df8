"""What all columns learn from the train split, without TFT: one accumulator over whole batches, and its results.

    analyzers = ColumnAnalyzers(columns)
    accumulator = analyzers.create()
    accumulator = analyzers.add(accumulator, analyzers.inputs(batch_of_tensors, size))
    entries = analyzers.encode(accumulator)                     # bytes by entry, to be merged with those of other files
    results = analyzers.results(analyzers.merge(accumulators), folder)
    Batch(tensors, columns, results=as_tensors(results))        # in the graph

The accumulators are those that TFT combines where it analyzes (`numbers`, `texts`), so both ways give the same results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.schema.features import TextFeature, VocabularyFeature
from headrace.trainer.columns.analyzers.numbers import (
    CombineStatistics,
    Floats,
    Statistic,
    StatisticsAccumulator,
    StatisticsCoder,
    VectorMoments,
)
from headrace.trainer.columns.analyzers.texts import (
    CountTexts,
    TextCounts,
    TextCountsCoder,
    VocabularyAnalyzer,
    file_names,
    select_values,
)

if TYPE_CHECKING:
    from headrace.trainer.columns.base import Column

Results: TypeAlias = "dict[Statistic | VocabularyAnalyzer, Floats | Path]"
"""The values of each statistic, and the file of each vocabulary."""
Statistics: TypeAlias = "dict[Statistic, Floats]"
"""The values of each statistic."""

AFTER_COUNTING = {"top_k", "min_frequency", "oov_buckets"}
"""Settings of a vocabulary that do not change the counts of its values."""


class ColumnsAccumulator(NamedTuple):
    """What is known of part of the examples."""

    statistics: StatisticsAccumulator
    counts: list[TextCounts]


class ColumnAnalyzers:
    """The analyzers of all columns, run together."""

    def __init__(self, columns: Mapping[str, Column[Any]]) -> None:
        every = [(column, analyzer) for column in columns.values() for analyzer in column.analyzers()]
        self.statistics = tuple(
            dict.fromkeys(analyzer for _, analyzer in every if not isinstance(analyzer, VocabularyAnalyzer))
        )
        self.vocabularies = {analyzer: column for column, analyzer in every if isinstance(analyzer, VocabularyAnalyzer)}
        by_rank = sorted(self.statistics, key=lambda statistic: isinstance(statistic, VectorMoments))
        self.keys = tuple(dict.fromkeys(statistic.key for statistic in by_rank))
        """The data columns of the statistics, or the names of what a column computes (`Column.analyzed_numbers`); those
        of vectors last.
        """
        self._combine = CombineStatistics(self.keys, self.statistics)
        self._count = CountTexts(len(self.vocabularies))
        self._coders = StatisticsCoder(self._combine), TextCountsCoder(len(self.vocabularies))

    def __bool__(self) -> bool:
        """Whether anything is to be learned."""
        return bool(self.statistics or self.vocabularies)

    @property
    def entries(self) -> tuple[bytes, ...]:
        """What identifies each part of an encoded accumulator, apart from the examples, their types and the code."""
        numbers = json.dumps(["statistics", *self._combine.meaning])
        texts = json.dumps(["counts", *map(_counted, self.vocabularies, self.vocabularies.values())])
        return tuple(
            entry.encode()
            for entry, needed in ((numbers, self.statistics), (texts, self.vocabularies))
            if needed
        )  # fmt: skip

    def create(self) -> ColumnsAccumulator:
        """The accumulator of no examples."""
        return ColumnsAccumulator(self._combine.create_accumulator(), self._count.create_accumulator())

    def add(
        self, accumulator: ColumnsAccumulator, numbers: Floats | None, texts: Sequence[Any], at_once: int | None = None
    ) -> ColumnsAccumulator:
        """Add a batch.

        Args:
            accumulator: Of the batches before.
            numbers: float64 [batch, keys], or more columns for vectors, NaN where missing; None if there are no
                statistics.
            texts: The strings of each vocabulary, "" where missing.
            at_once: How many rows to take for a batch of numbers, since rounding depends on it; None: all.
        """
        statistics = accumulator.statistics
        if numbers is not None:
            for first in range(0, len(numbers), at_once or max(1, len(numbers))):
                statistics = self._combine.add_input(statistics, (numbers[first : first + (at_once or len(numbers))],))
        return ColumnsAccumulator(statistics, self._count.add_input(accumulator.counts, tuple(texts)))

    def merge(self, accumulators: Iterable[ColumnsAccumulator]) -> ColumnsAccumulator:
        every = list(accumulators)
        return ColumnsAccumulator(
            self._combine.compact(self._combine.merge_accumulators(one.statistics for one in every)),
            self._count.compact(self._count.merge_accumulators(one.counts for one in every)),
        )

    def encode(self, accumulator: ColumnsAccumulator) -> dict[bytes, bytes]:
        """An accumulator as data, by entry."""
        statistics = self._combine.compact(accumulator.statistics)
        parts = [self._coders[0].encode_cache(statistics)] if self.statistics else []
        parts += [self._coders[1].encode_cache(accumulator.counts)] if self.vocabularies else []
        return dict(zip(self.entries, parts, strict=True))

    def decode(self, encoded: Mapping[bytes, bytes]) -> ColumnsAccumulator:
        parts = [encoded[entry] for entry in self.entries]
        empty = self.create()
        statistics = self._coders[0].decode_cache(parts.pop(0)) if self.statistics else empty.statistics
        counts = self._coders[1].decode_cache(parts.pop(0)) if self.vocabularies else empty.counts
        return ColumnsAccumulator(statistics, counts)

    def results(self, accumulator: ColumnsAccumulator, folder: Path) -> Results:
        """The values of all statistics, and the vocabularies, whose files are written to the folder."""
        values: Floats = self._combine.extract_output(accumulator.statistics) if self.statistics else np.zeros(0)
        ends = np.cumsum([statistic.width for statistic in self.statistics], dtype=np.int64)
        results: Results = dict(zip(self.statistics, np.split(values, ends[:-1]), strict=False))
        folder.mkdir(parents=True, exist_ok=True)
        names = file_names([analyzer.name for analyzer in self.vocabularies])
        for analyzer, name, counts in zip(self.vocabularies, names, accumulator.counts, strict=True):
            lines = select_values(analyzer, counts.aggregate())
            (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
            results[analyzer] = folder / name
        return results


def statistics_of(results: Results) -> Statistics:
    """The results without the vocabularies."""
    return {
        one: value
        for one, value in results.items()
        if not isinstance(one, VocabularyAnalyzer) and not isinstance(value, Path)
    }


def as_tensors(results: Results) -> dict[Statistic | VocabularyAnalyzer, tf.Tensor]:
    """The results as constants of the graph that is being traced; vocabularies become its assets."""
    tensors: dict[Statistic | VocabularyAnalyzer, tf.Tensor] = {}
    graph = tf.compat.v1.get_default_graph()
    for analyzer, result in results.items():
        if isinstance(analyzer, VocabularyAnalyzer):
            path = Path(str(result))
            with tf.init_scope():  # an eager tensor, so that the table is made once, outside of the graph
                tensors[analyzer] = tf.constant(str(path))
            graph.add_to_collection(tf.compat.v1.GraphKeys.ASSET_FILEPATHS, tensors[analyzer])
            tft.annotate_asset(analyzer.name, path.name)
        else:
            tensors[analyzer] = tf.constant(result)
    return tensors


def _counted(analyzer: VocabularyAnalyzer, column: Column[Any]) -> list[str]:
    """What determines the texts that are counted for a vocabulary."""
    learned = isinstance(column.feature, VocabularyFeature | TextFeature)
    settings = column.feature.model_dump_json(exclude=AFTER_COUNTING if learned else None)
    return [f"{type(column).__module__}.{type(column).__qualname__}", analyzer.name, analyzer.key, settings]
