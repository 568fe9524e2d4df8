"""The most frequent values of text columns and the number of distinct ones, in bounded memory.

TFDV offers exact counts, for which every distinct value is shuffled, and sketches, which are not exact beyond 1,024
distinct values. Here counts are exact until a column has LIMIT distinct values (or BYTES of them). Then the less
frequent ones are dropped, as by Misra and Gries (Finding repeated elements, Science of Computer Programming 2, 1982),
and a sketch of k minimum values estimates the number of distinct ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_data_validation.types import FeaturePath
from tensorflow_data_validation.utils import top_k_uniques_stats_util as protos
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatistics, FeatureNameStatistics
from tfx_bsl.sketches import KmvSketch

from headrace.common.value_counts import NO_COUNTS, counted, summed
from headrace.components.statistics import ESTIMATED
from headrace.components.statistics.columns import is_of_texts, values_of

TOP_VALUES = 20
RANK_BUCKETS = 1000
"""How many of the most frequent values the statistics contain: TFDV's defaults."""
LIMIT = 1 << 18
"""Distinct values of a column that are counted exactly."""
BYTES = 32 << 20
"""Bytes of distinct values of a column that are held in memory."""
MINIMUM_VALUES = 1 << 16
"""Size of the sketch: its relative standard error is one over the square root of this, 0.4%."""
_PENDING = 1 << 18
_FREQUENT_FIRST = [("counts", "descending"), ("values", "descending")]


@dataclass
class ValueCounts:
    """How often each value of a column occurred. Counts added since the last `settle` are pending."""

    table: pa.Table = field(default_factory=lambda: NO_COUNTS)
    """values: large_binary, distinct; counts: int64. Once some values have been dropped, a count is at most 2 N / LIMIT
    too low after N values (more if values are longer than BYTES / LIMIT).
    """
    pending: list[pa.Table] = field(default_factory=list)
    pending_bytes: int = 0
    distinct: KmvSketch | None = None
    """A sketch of all values that were in the table whenever some were dropped."""
    lowered: int = 0
    """How much too low a count may be, including the count 0 of a dropped value; 0 if all counts are exact."""

    def __getstate__(self) -> tuple[bytes, bytes | None, int]:
        """Plain bytes, so that reading them does not require trusting them."""
        self.settle()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return sink.getvalue().to_pybytes(), self.distinct and self.distinct.Serialize(), self.lowered

    def __setstate__(self, state: tuple[bytes, bytes | None, int]) -> None:
        table, distinct, lowered = state
        self.__init__(pa.ipc.open_stream(table).read_all())  # type: ignore[misc]
        self.distinct = KmvSketch.Deserialize(distinct) if distinct else None
        self.lowered = lowered

    def add(self, values: pa.Array) -> None:
        self._append(counted(values))

    def merge(self, other: ValueCounts) -> None:
        """Add the other's counts."""
        if self.distinct is None or other.distinct is None:
            self.distinct = self.distinct or other.distinct
        else:
            self.distinct.Merge(other.distinct)
        self.lowered += other.lowered
        for table in (other.table, *other.pending):
            self._append(table)

    def settle(self) -> None:
        """Add pending counts to the table, and drop values if there are too many."""
        if self.pending:
            self.table = summed([self.table, *self.pending])
            self.pending, self.pending_bytes = [], 0
        if self.table.num_rows > LIMIT or self.table.nbytes > BYTES:
            self._drop()

    def most_frequent(self, number: int) -> list[protos.FeatureValueCount]:
        """The most frequent values first; equally frequent ones in descending order of their bytes, as in TFDV."""
        if not self.table.num_rows:
            return []
        top = self.table.take(pc.select_k_unstable(self.table, number, _FREQUENT_FIRST))
        return [protos.FeatureValueCount(row["values"], max(row["counts"], 1)) for row in top.to_pylist()]

    def number(self) -> int:
        """The number of distinct values, estimated if some were dropped."""
        if self.distinct is None:
            return int(self.table.num_rows)
        self._add_to(self.distinct)
        return int(self.distinct.Estimate())

    def _append(self, table: pa.Table) -> None:
        self.pending.append(table)
        self.pending_bytes += table.nbytes
        if self.pending_bytes > max(_PENDING, self.table.nbytes // 2):
            self.settle()

    def _add_to(self, sketch: KmvSketch) -> None:
        for values in self.table["values"].chunks:
            sketch.AddValues(values)

    def _drop(self) -> None:
        """Drop the less frequent half, and lower all counts by the count of the most frequent value that is dropped.

        Of equally frequent values, those remain that `most_frequent` has first, in whichever order they were counted.
        """
        self.distinct = self.distinct or KmvSketch(MINIMUM_VALUES)
        self._add_to(self.distinct)
        table = self.table.sort_by(_FREQUENT_FIRST)
        sizes = np.cumsum(pc.binary_length(table["values"]).to_numpy() + 16)
        size = max(1, min(LIMIT // 2, int(np.searchsorted(sizes, BYTES // 2, "right"))))
        highest = table["counts"][size].as_py() if size < table.num_rows else 0
        self.lowered += highest
        counts = pc.max_element_wise(pc.subtract(table["counts"], highest), 0)
        self.table = table.set_column(1, "counts", counts).take(np.arange(size))


Categories = dict[str, ValueCounts]
"""Counts by column."""


def add_values(categories: Categories, batch: pa.RecordBatch) -> None:
    """Count the values of a batch's text columns."""
    for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
        if not pa.types.is_null(kind) and is_of_texts(kind.value_type):
            categories.setdefault(name, ValueCounts()).add(values_of(batch.column(name)))


def merge_categories(categories: Categories, others: Categories) -> None:
    """Add the others' counts."""
    for name, counts in others.items():
        categories.setdefault(name, ValueCounts()).merge(counts)


def text_statistics(categories: Categories) -> DatasetFeatureStatistics:
    """TFDV's `unique`, `top_values` and `rank_histogram` of the text columns that have values."""
    number = max(TOP_VALUES, RANK_BUCKETS)
    for counts in categories.values():
        counts.settle()
    return DatasetFeatureStatistics(
        features=[
            _marked(
                protos.make_feature_stats_proto_topk_uniques(
                    FeaturePath([name]), TOP_VALUES, RANK_BUCKETS, counts.number(), counts.most_frequent(number)
                ),
                counts,
            )
            for name, counts in categories.items()
            if counts.table.num_rows
        ]
    )


def _marked(feature: FeatureNameStatistics, counts: ValueCounts) -> FeatureNameStatistics:
    """The statistics of a column, marked if they are estimates."""
    if counts.distinct is not None:
        feature.custom_stats.add(name=ESTIMATED, num=counts.lowered)
    return feature
