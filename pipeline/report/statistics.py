"""The statistics of each split, as TensorFlow Data Validation computed them."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from tensorflow_metadata.proto.v0 import statistics_pb2

from headrace.components.statistics import ESTIMATED
from headrace.configs.schema.data import bits_column
from headrace.pipeline.report.charts import Bar
from headrace.pipeline.report.formatting import common_digits, figure, value_in_words

FILE_NAME = "FeatureStats.pb"
_SPLIT = "Split-"
_TYPES = {0: "int", 1: "float", 2: "string", 3: "bytes", 4: "struct"}
_TOP_VALUES = 10
_CROWDED = 0.95
_SHORT, _DIGITS, _MOST_DIGITS = 4, 6, 16
_NO_TEXT = "__BYTES_VALUE__"
"""TFDV's placeholder for a value that is not UTF-8, such as an image."""


@dataclass(frozen=True)
class NumericSummary:
    """Summary of a numeric column, over the values that are present."""

    minimum: float
    mean: float
    median: float
    maximum: float
    zeros: int
    digits: int = _SHORT
    """Significant digits to show."""


@dataclass(frozen=True)
class ReportedColumn:
    """One column of one split. Only categorical columns have `distinct` and `top` (most frequent first).

    Attributes:
        present: Rows with a value.
        missing: Rows without one.
        values: Values in all rows; a row may have many.
        too_low: If `top` and `distinct` are estimates, how much too low a count in `top` can be; else None.
    """

    name: str
    type: str
    present: int
    missing: int
    values: int = 0
    numbers: NumericSummary | None = None
    distinct: int | None = None
    top: tuple[Bar, ...] = ()
    histogram: tuple[Bar, ...] = ()
    too_low: int | None = None

    @property
    def missing_share(self) -> float:
        """Fraction of the rows without a value."""
        rows = self.present + self.missing
        return self.missing / rows if rows else 0.0

    def share(self, bar: Bar) -> float:
        """Fraction of the values that a bar stands for."""
        return self.share_of(bar.count)

    def share_of(self, count: float) -> float:
        """A count as a fraction of the values."""
        return count / self.values if self.values else 0.0


@dataclass(frozen=True)
class SplitSummary:
    """One split, with its columns in the order of the statistics."""

    name: str
    rows: int
    columns: dict[str, ReportedColumn]


def read_statistics(directory: Path | None, float64: Collection[str] = ()) -> dict[str, SplitSummary]:
    """The splits of an ExampleStatistics artifact, the largest first; empty if there is none.

    float64: the columns whose float64 values the examples have too.
    """
    files = [] if directory is None else sorted(directory.glob(f"{_SPLIT}*/{FILE_NAME}"))
    splits = [_split(file, float64) for file in files]
    return {split.name: split for split in sorted(splits, key=lambda split: -split.rows)}


def _split(file: Path, float64: Collection[str]) -> SplitSummary:
    statistics = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read_bytes())
    dataset = statistics.datasets[0] if statistics.datasets else statistics_pb2.DatasetFeatureStatistics()
    bits = {bits_column(name): name for name in float64}
    features = {feature.name or ".".join(feature.path.step): feature for feature in dataset.features}
    found = {name: _column(one, dataset.num_examples) for name, one in features.items() if name not in bits}
    for name in (name for name in bits if name in features):
        found[bits[name]] = _with_float64(found[bits[name]], features[name].num_stats)
    columns = found.values()
    return SplitSummary(
        file.parent.name.removeprefix(_SPLIT), dataset.num_examples, {column.name: column for column in columns}
    )


def _column(feature: statistics_pb2.FeatureNameStatistics, rows: int) -> ReportedColumn:
    name = feature.name or ".".join(feature.path.step)
    kind = feature.WhichOneof("stats")
    common = getattr(feature, kind).common_stats if kind else statistics_pb2.CommonStatistics(num_missing=rows)
    categorical = feature.string_stats if kind == "string_stats" else None
    values = [value for value in categorical.top_values if value.value != _NO_TEXT] if categorical else []
    too_low = next((round(custom.num) for custom in feature.custom_stats if custom.name == ESTIMATED), None)
    # a count no larger than the error could belong to any value, so it does not show that a value is frequent
    top = tuple(Bar(_text(value.value), value.frequency) for value in values if value.frequency > (too_low or 0))
    of_bytes = categorical is not None and not values and len(categorical.top_values) > 0
    return ReportedColumn(
        name=name,
        type=("bytes" if of_bytes else _TYPES.get(feature.type, "unknown")) if kind else "no values",
        present=common.num_non_missing,
        missing=rows - common.num_non_missing,
        values=common.tot_num_values,
        numbers=_numbers(feature.num_stats) if kind == "num_stats" and common.num_non_missing else None,
        distinct=categorical.unique if categorical else None,
        top=top,
        histogram=_histogram(feature.num_stats, feature.type == 0) if kind == "num_stats" else top[:_TOP_VALUES],
        too_low=too_low,
    )


def _with_float64(column: ReportedColumn, bits: statistics_pb2.NumericStatistics) -> ReportedColumn:
    """A column with the numbers that its bits stand for, if none of them has another sign than the others.

    Their order is then that of the bits, or the reverse. Only where all have one exponent are they linear in the bits:
    otherwise the mean is that of float32, and so is the histogram, whose buckets would be equally wide in the bits.
    """
    if column.numbers is None or not (bits.min >= 0 or bits.max < 0):
        return replace(column, type="float64")
    stats = statistics_pb2.NumericStatistics()
    stats.CopyFrom(bits)
    stats.min, stats.max = sorted(map(_of_bits, (bits.min, bits.max)))
    stats.median = _of_bits(bits.median)
    # 0 has no exponent of its own, although frexp gives it that of 0.5
    same = stats.min != 0 != stats.max and math.frexp(stats.min)[1] == math.frexp(stats.max)[1]
    stats.mean = _of_bits(bits.mean) if same else column.numbers.mean
    for bucket in (bucket for histogram in stats.histograms for bucket in histogram.buckets):
        bucket.low_value, bucket.high_value = sorted(map(_of_bits, (bucket.low_value, bucket.high_value)))
    for histogram in stats.histograms if bits.max < 0 else ():
        histogram.buckets.sort(key=lambda bucket: bucket.low_value)
    digits = _SHORT
    if stats.max > stats.min:
        digits = min(max(digits, common_digits(stats.min, stats.max) + digits), _MOST_DIGITS)
    numbers = replace(_numbers(stats), zeros=column.numbers.zeros, digits=digits)
    histogram = _histogram(stats, whole_numbers=False) if same else column.histogram
    return replace(column, type="float64", numbers=numbers, histogram=histogram)


def _of_bits(bits: float) -> float:
    """The number of which these are the bits, as int64; approximately, since statistics are float64 themselves."""
    whole = min(max(int(bits), -(2**63)), 2**63 - 1)
    found: float = struct.unpack("<d", struct.pack("<q", whole))[0]
    return found


def _numbers(stats: statistics_pb2.NumericStatistics) -> NumericSummary:
    return NumericSummary(stats.min, stats.mean, stats.median, stats.max, stats.num_zeros)


def _histogram(stats: statistics_pb2.NumericStatistics, whole_numbers: bool) -> tuple[Bar, ...]:
    """TFDV's histogram of equally wide buckets, or the lower nine deciles if one bucket holds nearly all values.

    A few integers get one bar each: buckets between two of them would look like gaps in the data.
    """
    equally_wide = _bars(stats, statistics_pb2.Histogram.STANDARD)
    total = sum(bar.count for bar in equally_wide)
    if equally_wide and max(bar.count for bar in equally_wide) > _CROWDED * total:
        deciles = _bars(stats, statistics_pb2.Histogram.QUANTILES)[:-1]
        return deciles if len(deciles) > 2 else equally_wide
    if whole_numbers and stats.max - stats.min < len(equally_wide):
        return _one_bar_each(stats)
    return tuple(Bar(bar.label, bar.count) for bar in equally_wide)


def _one_bar_each(stats: statistics_pb2.NumericStatistics) -> tuple[Bar, ...]:
    counts = dict.fromkeys(range(round(stats.min), round(stats.max) + 1), 0.0)
    for histogram in stats.histograms:
        for bucket in histogram.buckets if histogram.type == statistics_pb2.Histogram.STANDARD else ():
            counts[min(math.ceil(bucket.low_value), round(stats.max))] += bucket.sample_count
    return tuple(Bar(str(number), count) for number, count in counts.items())


def _bars(stats: statistics_pb2.NumericStatistics, kind: int) -> tuple[Bar, ...]:
    """One histogram. A bucket of width zero (one value fills a whole decile) is merged with the next."""
    bars, low, count = [], None, 0.0
    for histogram in stats.histograms:
        for bucket in histogram.buckets if histogram.type == kind else ():
            if not all(map(math.isfinite, (bucket.low_value, bucket.high_value, bucket.sample_count))):
                continue
            low, count = bucket.low_value if low is None else low, count + bucket.sample_count
            if bucket.high_value > low:
                bars.append(Bar(_edges(low, bucket.high_value), count, bucket.high_value - low))
                low, count = None, 0.0
    if count and low is not None:
        bars.append(Bar(figure(low, _DIGITS), count))
    return tuple(bars)


def _edges(low: float, high: float) -> str:
    """`1,700,000,012 to 1,700,000,345`, with as many digits as it takes to see that the edges differ."""
    digits = max(_DIGITS, common_digits(low, high) + 2)
    return f"{figure(low, digits)} to {figure(high, digits)}"


def _text(value: str | bytes) -> str:
    return value_in_words(value.decode(errors="replace") if isinstance(value, bytes) else value)
