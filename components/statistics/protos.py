"""An accumulator's statistics as TFDV's protos."""

from __future__ import annotations

import math

import numpy as np
from tensorflow_metadata.proto.v0.statistics_pb2 import (
    CommonStatistics,
    DatasetFeatureStatistics,
    FeatureNameStatistics,
    Histogram,
    NumericStatistics,
)
from tfx_bsl.sketches import QuantilesSketch

from headrace.components.statistics.columns import FLOAT, INT, STRING, UNKNOWN, ColumnStatistics
from headrace.components.statistics.histograms import (
    Quantiles,
    Range,
    constant_histogram,
    equal_width_histogram,
    quantiles_histogram,
)

BUCKETS = 10
"""Buckets of each histogram: TFDV's default."""
FINER = 100
"""Quantiles for each bucket, from which the histogram of equal widths is interpolated: as in TFDV."""


def dataset_statistics(accumulated: ColumnStatistics) -> DatasetFeatureStatistics:
    """The statistics of all columns. Finalizes the sketches: the accumulator cannot be used afterwards."""
    statistics = DatasetFeatureStatistics(num_examples=accumulated.num_examples)
    for row, name in enumerate(accumulated.names):
        feature = statistics.features.add()
        feature.path.step.append(name)
        kind = int(accumulated.counts["type"][row])
        feature.type = STRING if kind == UNKNOWN else kind
        if kind in (INT, FLOAT):
            _set_numbers(feature.num_stats, accumulated, row)
            _set_common(feature.num_stats.common_stats, accumulated, row)
        else:
            _set_text(feature, accumulated, row)
            _set_common(feature.string_stats.common_stats, accumulated, row)
    return statistics


def _set_common(statistics: CommonStatistics, accumulated: ColumnStatistics, row: int) -> None:
    counts = accumulated.counts[row]
    present, values = int(counts["non_missing"]), int(counts["values"])
    statistics.num_non_missing, statistics.num_missing = present, accumulated.num_examples - present
    if not present:
        return
    statistics.tot_num_values, statistics.avg_num_values = values, values / present
    statistics.min_num_values, statistics.max_num_values = int(counts["shortest"]), int(counts["longest"])
    if (sketch := accumulated.lengths[row]) is None:
        histogram = constant_histogram(float(counts["longest"]), present, BUCKETS)
    else:
        histogram = quantiles_histogram(_quantiles(sketch, BUCKETS))
    statistics.num_values_histogram.CopyFrom(histogram)


def _set_text(feature: FeatureNameStatistics, accumulated: ColumnStatistics, row: int) -> None:
    counts, statistics = accumulated.counts[row], feature.string_stats
    if counts["values"]:
        statistics.avg_length = counts["bytes"] / counts["values"]
    statistics.invalid_utf8_count = int(counts["invalid_utf8"])


def _set_numbers(statistics: NumericStatistics, accumulated: ColumnStatistics, row: int) -> None:
    numbers, sketch = accumulated.numbers[row], accumulated.quantiles[row]
    missing = int(numbers["nan"])
    if sketch is None:
        if missing:
            for kind in (Histogram.STANDARD, Histogram.QUANTILES):
                statistics.histograms.add(type=kind, num_nan=missing)
        return
    statistics.mean, statistics.std_dev = float(numbers["mean"]), math.sqrt(max(0, numbers["variance"]))
    statistics.num_zeros = int(numbers["zeros"])
    is_int = accumulated.counts["type"][row] == INT
    lowest, highest = ("int_min", "int_max") if is_int else ("float_min", "float_max")
    statistics.min, statistics.max = float(numbers[lowest]), float(numbers[highest])
    finite = Range(
        numbers[lowest if is_int else "finite_min"],
        numbers[highest if is_int else "finite_max"],
        int(numbers["positive_infinities"]),
    )
    quantiles = _quantiles(sketch, FINER * BUCKETS)
    statistics.median = quantiles.median()
    for histogram in (
        equal_width_histogram(quantiles, finite, BUCKETS),
        quantiles_histogram(quantiles.every(FINER)),
    ):
        histogram.num_nan = missing
        statistics.histograms.append(histogram)


def _quantiles(sketch: QuantilesSketch, number: int) -> Quantiles:
    values, cumulative = sketch.GetQuantilesAndCumulativeWeights(number)
    return Quantiles(
        values.flatten().to_numpy(zero_copy_only=False),
        cumulative.flatten().to_numpy(zero_copy_only=False).astype(np.float64),
    )
