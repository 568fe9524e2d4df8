"""What the features need to know of the numbers in the whole train split: one analyzer finds all of it in one pass.

Transform spends its time per analyzer, not per number, so that every numeric and bucketized feature shares this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from tfx_bsl import sketches

from headrace.trainer.columns import by_span as sums
from headrace.trainer.columns.by_span import Output

Floats = npt.NDArray[np.float64]

QUANTILE_ERROR = 0.001
"""Largest error of a quantile's rank, as a share of the examples; small data comes out exact."""
MOST_EXAMPLES = 1 << 32
"""The bound on the error holds up to this many (as in tft.quantiles)."""


class Moments(NamedTuple):
    """A wish for mean, standard deviation, least and greatest of a data column: float64 [4]."""

    key: str

    @property
    def width(self) -> int:
        """How many numbers the answer has."""
        return 4


class Quantiles(NamedTuple):
    """A wish for the boundaries that cut a data column into `buckets` parts of equal size: float64 [buckets - 1]."""

    key: str
    buckets: int

    @property
    def width(self) -> int:
        """How many numbers the answer has."""
        return self.buckets - 1


Statistic = Moments | Quantiles


class Accumulator(NamedTuple):
    """What is known of some of the examples."""

    moments: Floats
    """[5, columns]: count, mean, sum of squared deviations, least, greatest."""
    sketch: sketches.QuantilesSketch | None
    """Of the columns with a wish for quantiles; None if there is none."""


def analyze(numbers: Mapping[Statistic, tf.Tensor], *, by_span: bool = False) -> dict[Any, tf.Tensor]:
    """The wished statistics of float64 [batch] tensors over the train split; NaN counts as missing.

    Of a column without any value they are all 0. by_span: whether TFT may keep the sums of each span.
    """
    if not numbers:
        return {}
    columns = {wish.key: tensor for wish, tensor in numbers.items()}
    widths = [wish.width for wish in numbers]
    combine = CombineStatistics(tuple(columns), tuple(numbers))
    matrix = tf.stack(list(columns.values()), axis=1)
    if by_span:
        extract, output = "Answer" >> beam.Map(combine.extract_output), Output(tf.float64, [sum(widths)])
        (answers,) = sums.analyze([matrix], combine, AccumulatorCoder(combine), extract, [output], "statistics")
    else:
        (answers,) = tft.experimental.ptransform_analyzer(
            inputs=[matrix],
            ptransform=beam.CombineGlobally(combine).without_defaults(),
            output_dtypes=[tf.float64],
            output_shapes=[[sum(widths)]],
            name="statistics",
        )
    return dict(zip(numbers, tf.split(answers, widths), strict=True))


class CombineStatistics(beam.CombineFn):
    """Batches of a float64 [batch, columns] matrix to the answers of all wishes, one after another."""

    def __init__(self, keys: tuple[str, ...], wishes: tuple[Statistic, ...]) -> None:
        """keys: the columns of the matrix; wishes: what is asked of them, in the order of the answer."""
        self._wishes = wishes
        self._keys = keys
        with_quantiles = {wish.key for wish in wishes if isinstance(wish, Quantiles)}
        self._sketched = [place for place, key in enumerate(keys) if key in with_quantiles]

    @property
    def meaning(self) -> tuple[tuple[str, ...], list[int]]:
        """What decides the content of an accumulator: the columns, and which of them are sketched."""
        return self._keys, self._sketched

    def create_accumulator(self) -> Accumulator:
        """Nothing seen."""
        moments = np.zeros((5, len(self._keys)))
        moments[3], moments[4] = np.inf, -np.inf
        if not self._sketched:  # a sketch of no columns is refused
            return Accumulator(moments, None)
        return Accumulator(moments, sketches.QuantilesSketch(QUANTILE_ERROR, MOST_EXAMPLES, len(self._sketched)))

    def add_input(self, accumulator: Accumulator, batches: tuple[Floats]) -> Accumulator:
        """Fold a batch in."""
        (batch,) = batches
        if accumulator.sketch is not None:
            accumulator.sketch.AddValues(pa.array(np.ravel(batch[:, self._sketched])))  # leaves NaN out
        return Accumulator(merge_moments(accumulator.moments, batch_moments(batch)), accumulator.sketch)

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        """One of many."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            if merged.sketch is not None:
                merged.sketch.Merge(accumulator.sketch)
            merged = Accumulator(merge_moments(merged.moments, accumulator.moments), merged.sketch)
        return merged

    def compact(self, accumulator: Accumulator) -> Accumulator:
        """The same in less memory."""
        if accumulator.sketch is not None:
            accumulator.sketch.Compact()
        return accumulator

    def extract_output(self, accumulator: Accumulator) -> Floats:
        """The answers."""
        moments = dict(zip(self._keys, final_moments(accumulator.moments), strict=True))
        answers = [
            moments[wish.key] if isinstance(wish, Moments) else self._quantiles(accumulator, wish)
            for wish in self._wishes
        ]
        return np.concatenate(answers)

    def _quantiles(self, accumulator: Accumulator, wish: Quantiles) -> Floats:
        place = self._keys.index(wish.key)
        count = accumulator.moments[0]
        if accumulator.sketch is None or count[place] == 0:
            return np.zeros(wish.width)
        seen = [column for column in self._sketched if count[column] > 0]  # the sketch leaves empty columns out
        boundaries = accumulator.sketch.GetQuantiles(wish.buckets)[seen.index(place)].as_py()
        return np.asarray(boundaries[1:-1], np.float64)  # without least and greatest


class AccumulatorCoder:
    """Accumulators as bytes: the moments' shape and values, then the sketch's own form."""

    def __init__(self, combine: CombineStatistics) -> None:
        self._combine = combine

    def encode_cache(self, accumulator: Accumulator) -> bytes:
        """An accumulator to bytes."""
        sketch = accumulator.sketch
        return accumulator.moments.tobytes() + (b"" if sketch is None else sketch.__getstate__())

    def decode_cache(self, encoded_accumulator: bytes) -> Accumulator:
        """Bytes to an accumulator."""
        empty = self._combine.create_accumulator()
        size = empty.moments.nbytes
        moments = np.frombuffer(encoded_accumulator[:size]).reshape(empty.moments.shape)
        if empty.sketch is None:
            return Accumulator(moments, None)
        sketch = sketches.QuantilesSketch.__new__(sketches.QuantilesSketch)
        sketch.__setstate__(encoded_accumulator[size:])
        return Accumulator(moments, sketch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._combine.meaning}"


def batch_moments(batch: Floats) -> Floats:
    """[5, columns]: count, mean, sum of squared deviations, least and greatest of [batch, columns]; NaN is left out."""
    present = ~np.isnan(batch)
    count = present.sum(axis=0)
    mean = np.where(present, batch, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(present, batch - mean, 0.0) ** 2).sum(axis=0)
    least = np.where(present, batch, np.inf).min(axis=0, initial=np.inf)
    greatest = np.where(present, batch, -np.inf).max(axis=0, initial=-np.inf)
    return np.stack([count, mean, squares, least, greatest])


def merge_moments(a: Floats, b: Floats) -> Floats:
    """The moments of two disjoint parts together.

    As in Chan, Golub and LeVeque 1979, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", so
    that a large mean does not drown a small deviation.
    """
    count = a[0] + b[0]
    share = b[0] / np.maximum(count, 1)
    difference = b[1] - a[1]
    mean = a[1] + difference * share
    squares = a[2] + b[2] + difference**2 * a[0] * share
    return np.stack([count, mean, squares, np.minimum(a[3], b[3]), np.maximum(a[4], b[4])])


def final_moments(moments: Floats) -> Floats:
    """[columns, 4]: mean, standard deviation of the population, least, greatest; 0 of a column without any value."""
    count, mean, squares, least, greatest = moments
    deviation = np.sqrt(squares / np.maximum(count, 1))
    return np.where(count[:, np.newaxis] > 0, np.stack([mean, deviation, least, greatest], axis=1), 0.0)
