"""Moments and quantiles of numeric columns over the whole train split, computed by one analyzer in one pass.

Transform spends its time per analyzer, not per number, so all numeric and bucketized features share this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from tfx_bsl import sketches

from headrace.trainer.columns.analyzers.spans import AnalyzerOutput, analyze_by_span

Floats = npt.NDArray[np.float64]

QUANTILE_ERROR = 0.001
"""Largest error of a quantile's rank, as a fraction of the examples; quantiles of small data are exact."""
MAX_EXAMPLES = 1 << 32
"""The bound on the error holds up to this many examples (as in tft.quantiles)."""


class Moments(NamedTuple):
    """Mean, standard deviation, minimum and maximum of a data column: float64 [4]."""

    key: str

    @property
    def size(self) -> int:
        """Numbers in an example that it is computed from."""
        return 1

    @property
    def width(self) -> int:
        """Number of values in the result."""
        return 4


class QuantileBoundaries(NamedTuple):
    """The boundaries that divide a data column into `buckets` of equal size: float64 [buckets - 1]."""

    key: str
    buckets: int

    @property
    def size(self) -> int:
        """Numbers in an example that it is computed from."""
        return 1

    @property
    def width(self) -> int:
        """Number of values in the result."""
        return self.buckets - 1


class VectorMoments(NamedTuple):
    """The moments of each position of a list with `size` numbers: float64 [size * 4], position after position."""

    key: str
    """Names the lists of this size; it is not the name of a data column."""
    size: int

    @property
    def width(self) -> int:
        """Number of values in the result."""
        return 4 * self.size


Statistic = Moments | QuantileBoundaries | VectorMoments


class StatisticsAccumulator(NamedTuple):
    """The moments and sketches of part of the examples."""

    moments: Floats
    """[5, columns]: count, mean, sum of squared deviations, minimum, maximum."""
    sketch: sketches.QuantilesSketch | None
    """A sketch of the columns whose quantiles are needed; None if there are none."""


def analyze(numbers: Mapping[Statistic, tf.Tensor], *, by_span: bool = False) -> dict[Any, tf.Tensor]:
    """Compute statistics of float64 tensors over the train split: [batch], or [batch, size]. NaN counts as missing.

    All statistics of a column without values are 0. by_span: whether TFT may cache the accumulator of each span.
    """
    if not numbers:
        return {}
    columns = {statistic.key: tensor for statistic, tensor in numbers.items()}
    widths = [statistic.width for statistic in numbers]
    combine = CombineStatistics(tuple(columns), tuple(numbers))
    matrix = side_by_side(list(columns.values()))
    if by_span:
        extract, output = "Answer" >> beam.Map(combine.extract_output), AnalyzerOutput(tf.float64, [sum(widths)])
        (results,) = analyze_by_span([matrix], combine, StatisticsCoder(combine), extract, [output], "statistics")
    else:
        (results,) = tft.experimental.ptransform_analyzer(
            inputs=[matrix],
            ptransform=beam.CombineGlobally(combine).without_defaults(),
            output_dtypes=[tf.float64],
            output_shapes=[[sum(widths)]],
            name="statistics",
        )
    return dict(zip(numbers, tf.split(results, widths), strict=True))


def side_by_side(columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """Tensors of shape [batch], and [batch, size], as one matrix."""
    if all(column.shape.rank == 1 for column in columns):
        return tf.stack(columns, axis=1)
    return tf.concat([column[:, tf.newaxis] if column.shape.rank == 1 else column for column in columns], axis=1)


class CombineStatistics(beam.CombineFn):
    """Batches of a float64 [batch, columns] matrix to all statistics, one after another."""

    def __init__(self, keys: tuple[str, ...], statistics: tuple[Statistic, ...]) -> None:
        """
        Args:
            keys: What the columns of the matrix are, one for each number of an example.
            statistics: What to compute from them, in the order of the output.
        """
        self._statistics = statistics
        self._keys = keys
        with_quantiles = {statistic.key for statistic in statistics if isinstance(statistic, QuantileBoundaries)}
        sizes = {statistic.key: statistic.size for statistic in statistics}
        ends = np.cumsum([sizes[key] for key in keys], dtype=np.int64).tolist()
        self._positions = {key: slice(end - sizes[key], end) for key, end in zip(keys, ends, strict=True)}
        self._width = sum(sizes.values())
        self._sketched = [self._positions[key].start for key in keys if key in with_quantiles]

    @property
    def meaning(self) -> tuple[tuple[str, ...], list[int]]:
        """Everything that determines the content of an accumulator: the columns, and which of them are sketched. (The
        key of a vector contains its size.)
        """
        return self._keys, self._sketched

    def create_accumulator(self) -> StatisticsAccumulator:
        """The accumulator of no examples."""
        moments = np.zeros((5, self._width))
        moments[3], moments[4] = np.inf, -np.inf
        if not self._sketched:  # QuantilesSketch rejects zero columns
            return StatisticsAccumulator(moments, None)
        return StatisticsAccumulator(
            moments, sketches.QuantilesSketch(QUANTILE_ERROR, MAX_EXAMPLES, len(self._sketched))
        )

    def add_input(self, accumulator: StatisticsAccumulator, batches: tuple[Floats]) -> StatisticsAccumulator:
        (batch,) = batches
        if accumulator.sketch is not None:
            accumulator.sketch.AddValues(pa.array(np.ravel(batch[:, self._sketched])))  # ignores NaN
        moments = merge_moments(accumulator.moments, batch_moments(batch))
        return StatisticsAccumulator(moments, accumulator.sketch)

    def merge_accumulators(self, accumulators: Iterable[StatisticsAccumulator]) -> StatisticsAccumulator:
        """Merge accumulators of disjoint examples."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            if merged.sketch is not None:
                merged.sketch.Merge(accumulator.sketch)
            merged = StatisticsAccumulator(merge_moments(merged.moments, accumulator.moments), merged.sketch)
        return merged

    def compact(self, accumulator: StatisticsAccumulator) -> StatisticsAccumulator:
        if accumulator.sketch is not None:
            accumulator.sketch.Compact()
        return accumulator

    def extract_output(self, accumulator: StatisticsAccumulator) -> Floats:
        moments = final_moments(accumulator.moments)
        results = [
            self._quantiles(accumulator, statistic)
            if isinstance(statistic, QuantileBoundaries)
            else moments[self._positions[statistic.key]].ravel()
            for statistic in self._statistics
        ]
        return np.concatenate(results)

    def _quantiles(self, accumulator: StatisticsAccumulator, quantiles: QuantileBoundaries) -> Floats:
        position = self._positions[quantiles.key].start
        count = accumulator.moments[0]
        if accumulator.sketch is None or count[position] == 0:
            return np.zeros(quantiles.width)
        nonempty = [column for column in self._sketched if count[column] > 0]  # GetQuantiles omits empty columns
        boundaries = accumulator.sketch.GetQuantiles(quantiles.buckets)[nonempty.index(position)].as_py()
        return np.asarray(boundaries[1:-1], np.float64)  # without minimum and maximum


class StatisticsCoder:
    """Accumulators as bytes: the values of the moments, then the sketch's own serialization."""

    def __init__(self, combine: CombineStatistics) -> None:
        self._combine = combine

    def encode_cache(self, accumulator: StatisticsAccumulator) -> bytes:
        sketch = accumulator.sketch
        return accumulator.moments.tobytes() + (b"" if sketch is None else sketch.__getstate__())

    def decode_cache(self, encoded_accumulator: bytes) -> StatisticsAccumulator:
        empty = self._combine.create_accumulator()
        size = empty.moments.nbytes
        moments = np.frombuffer(encoded_accumulator[:size]).reshape(empty.moments.shape)
        if empty.sketch is None:
            return StatisticsAccumulator(moments, None)
        sketch = sketches.QuantilesSketch.__new__(sketches.QuantilesSketch)
        sketch.__setstate__(encoded_accumulator[size:])
        return StatisticsAccumulator(moments, sketch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._combine.meaning}"


def batch_moments(batch: Floats) -> Floats:
    """[5, columns]: count, mean, sum of squared deviations, minimum and maximum of [batch, columns], ignoring NaN."""
    present = ~np.isnan(batch)
    count = present.sum(axis=0)
    mean = np.where(present, batch, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(present, batch - mean, 0.0) ** 2).sum(axis=0)
    least = np.where(present, batch, np.inf).min(axis=0, initial=np.inf)
    greatest = np.where(present, batch, -np.inf).max(axis=0, initial=-np.inf)
    return np.stack([count, mean, squares, least, greatest])


def merge_moments(a: Floats, b: Floats) -> Floats:
    """Merge the moments of two disjoint sets of examples.

    As in Chan, Golub and LeVeque 1979, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", so
    that a large mean does not swamp a small deviation.
    """
    count = a[0] + b[0]
    share = b[0] / np.maximum(count, 1)
    difference = b[1] - a[1]
    mean = a[1] + difference * share
    squares = a[2] + b[2] + difference**2 * a[0] * share
    return np.stack([count, mean, squares, np.minimum(a[3], b[3]), np.maximum(a[4], b[4])])


def final_moments(moments: Floats) -> Floats:
    """[columns, 4]: mean, population standard deviation, minimum, maximum; 0 for a column without values."""
    count, mean, squares, least, greatest = moments
    deviation = np.sqrt(squares / np.maximum(count, 1))
    return np.where(count[:, np.newaxis] > 0, np.stack([mean, deviation, least, greatest], axis=1), 0.0)
