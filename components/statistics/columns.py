"""The accumulator of StatisticsGen: counts, extremes, moments and sketches of each column, in arrays over the columns.

TFDV has some ten Python objects for each column, and a dozen NumPy calls for each column of a batch. Here the columns
of a batch are counted together, and so the cost of a wide table is that of its values.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tensorflow_metadata.proto.v0.statistics_pb2 import FeatureNameStatistics
from tfx_bsl.arrow import array_util
from tfx_bsl.sketches import QuantilesSketch

from headrace.components.statistics.numeric import NO_NUMBERS, Values, combine, summarized, without_nan

INT, FLOAT, STRING = FeatureNameStatistics.INT, FeatureNameStatistics.FLOAT, FeatureNameStatistics.STRING
UNKNOWN = -1
"""The type of a column without any value."""
EPSILON = 0.01
"""The error of quantiles as a share of the values: TFDV's default."""

COUNTS = np.dtype(
    [
        ("type", np.int64),
        ("non_missing", np.int64),
        ("values", np.int64),
        ("shortest", np.int64),
        ("longest", np.int64),
        ("bytes", np.int64),
        ("invalid_utf8", np.int64),
    ]
)
"""Of each column: its type, the examples that have a list of values, the values, the number of values in the shortest
and in the longest list, and of text the bytes, and the values that are not UTF-8."""
_NO_COUNTS = np.array([(UNKNOWN, 0, 0, sys.maxsize, 0, 0, 0)], COUNTS)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_SUMS = ("non_missing", "values", "bytes", "invalid_utf8")

Rows = NDArray[np.int64]
Sketches = list[QuantilesSketch | None]


class ColumnStatistics:
    """What is known of the columns so far.

    Attributes:
        num_examples: The rows of all batches.
        names: The columns in the order in which they came.
        counts: COUNTS [columns].
        numbers: NUMBERS [columns].
        lengths: A sketch of the number of values in a list for each column, None while all its lists have the same.
        quantiles: A sketch of the numbers for each column, None without any.
    """

    def __init__(self) -> None:
        self.num_examples = 0
        self.names: list[str] = []
        self.counts = _NO_COUNTS[:0]
        self.numbers = NO_NUMBERS[:0]
        self.lengths: Sketches = []
        self.quantiles: Sketches = []
        self._rows: dict[str, int] = {}

    def rows(self, names: Sequence[str]) -> Rows:
        """The rows of these columns: int64 [names]. New columns get one."""
        new = [name for name in names if name not in self._rows]
        if new:
            self._rows.update({name: len(self.names) + number for number, name in enumerate(new)})
            self.names += new
            self.counts = np.concatenate([self.counts, _NO_COUNTS.repeat(len(new))])
            self.numbers = np.concatenate([self.numbers, NO_NUMBERS.repeat(len(new))])
            self.lengths += [None] * len(new)
            self.quantiles += [None] * len(new)
        return np.array([self._rows[name] for name in names], np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of columns of lists, in which a null has no values, or of type null.

        Raises TypeError if a column has values of another type than before.
        """
        self.num_examples += batch.num_rows
        rows = self.rows(batch.schema.names)
        types = np.array([_type(kind) for kind in batch.schema.types], np.int64)
        self._set_types(rows, types)
        if not batch.num_rows:
            return
        of_type = {kind: np.flatnonzero(types == kind).tolist() for kind in (INT, FLOAT, STRING)}
        columns = {number: batch.column(number) for numbers in of_type.values() for number in numbers}
        if columns:
            self._add_lists(rows[list(columns)], list(columns.values()))
        for kind in (INT, FLOAT):
            if numbers := of_type[kind]:
                self._add_numbers(rows[numbers], [np.asarray(values_of(columns[number])) for number in numbers])
        for number in of_type[STRING]:
            values = values_of(columns[number])
            size, invalid = _bytes_and_invalid(values)
            self.counts["bytes"][rows[number]] += size
            self.counts["invalid_utf8"][rows[number]] += invalid

    def merge(self, other: ColumnStatistics) -> None:
        """Add another accumulator, whose sketches may become this one's.

        Raises TypeError if the types of a column differ.
        """
        self.num_examples += other.num_examples
        known = len(self.names)
        rows = self.rows(other.names)
        self._set_types(rows, other.counts["type"])
        for theirs, own in enumerate(rows.tolist()):
            counts = other.counts[theirs]
            if counts["non_missing"] and not (other.lengths[theirs] is None and self._have(own, counts["longest"])):
                self.lengths[own] = _merged(self._length_sketch(own), other._length_sketch(theirs))
            self.quantiles[own] = _merged(self.quantiles[own], other.quantiles[theirs])
        self._add_counts(rows, other.counts)
        # As in TFDV, an infinite mean is not merged with that of no numbers, which would make it NaN.
        new = rows >= known
        self.numbers[rows[new]] = other.numbers[new]
        both = ~new & (other.counts["type"] != UNKNOWN)
        combine(self.numbers, rows[both], other.numbers[both])

    def compact(self) -> None:
        """Shrink the sketches."""
        for sketch in (*self.lengths, *self.quantiles):
            if sketch is not None:
                sketch.Compact()

    def _set_types(self, rows: Rows, types: NDArray[np.int64]) -> None:
        own = self.counts["type"][rows]
        wrong = np.flatnonzero((own != types) & (own != UNKNOWN) & (types != UNKNOWN))
        if len(wrong):
            found = " and ".join(FeatureNameStatistics.Type.Name(int(kind[wrong[0]])) for kind in (own, types))
            raise TypeError(f"feature {self.names[rows[wrong[0]]]} has values of types {found}")
        self.counts["type"][rows] = np.where(own == UNKNOWN, types, own)

    def _add_lists(self, rows: Rows, columns: Sequence[pa.Array]) -> None:
        """Count the lists and their values."""
        lengths = np.diff(np.stack([np.asarray(column.offsets) for column in columns]), axis=1)
        nulls = np.array([column.null_count for column in columns])
        added = _NO_COUNTS.repeat(len(columns))
        added["non_missing"], added["values"] = lengths.shape[1] - nulls, lengths.sum(axis=1)
        added["longest"] = lengths.max(axis=1)
        single = (added["longest"] <= 1) & (added["values"] == added["non_missing"])
        added["shortest"] = np.where(single & (added["non_missing"] > 0), 1, added["shortest"])
        for number, row in enumerate(rows.tolist()):
            if single[number] and (not added["non_missing"][number] or self._have(row, 1)):
                continue
            present = lengths[number][columns[number].is_valid().to_numpy(zero_copy_only=False)]
            if len(present):
                added["shortest"][number] = present.min()
                self._add_lengths(row, present)
        self._add_counts(rows, added)

    def _add_lengths(self, row: int, lengths: NDArray[np.int64]) -> None:
        """Add the lengths of a column's lists to the sketch, if the column needs one."""
        different, times = np.unique(lengths, return_counts=True)
        if len(different) > 1 or not self._have(row, different[0]):
            sketch = self._length_sketch(row)
            sketch.AddValues(pa.array(different), pa.array(times))
            self.lengths[row] = sketch

    def _add_counts(self, rows: Rows, added: NDArray[np.void]) -> None:
        own = self.counts[rows]
        for name in _SUMS:
            own[name] += added[name]
        own["shortest"] = np.minimum(own["shortest"], added["shortest"])
        own["longest"] = np.maximum(own["longest"], added["longest"])
        self.counts[rows] = own

    def _add_numbers(self, rows: Rows, values: Sequence[Values]) -> None:
        numbers, missing = without_nan(values)
        added = summarized(numbers)
        added["nan"] = missing
        combine(self.numbers, rows, added)
        for row, own in zip(rows.tolist(), numbers, strict=True):
            if len(own):
                sketch = self.quantiles[row] or new_sketch()
                sketch.AddValues(pa.array(own))
                self.quantiles[row] = sketch

    def _have(self, row: int, length: int) -> bool:
        """Whether all lists of a column have this length, as far as is known."""
        counts = self.counts[row]
        same = counts["shortest"] == length == counts["longest"]
        return self.lengths[row] is None and bool(same or not counts["non_missing"])

    def _length_sketch(self, row: int) -> QuantilesSketch:
        """The sketch of a column's lengths, made from the counts if all are the same."""
        if (sketch := self.lengths[row]) is not None:
            return sketch
        sketch, counts = new_sketch(), self.counts[row]
        if counts["non_missing"]:
            sketch.AddValues(pa.array([counts["longest"]]), pa.array([counts["non_missing"]]))
        return sketch


def new_sketch() -> QuantilesSketch:
    """A sketch of quantiles without values, as TFDV makes it."""
    return QuantilesSketch(eps=EPSILON, max_num_elements=1 << 32, num_streams=1)


def values_of(column: pa.Array) -> pa.Array:
    """The values of all lists. Arrow's `flatten` also looks for nulls with values, and takes ten times as long."""
    offsets = column.offsets
    return column.values[offsets[0].as_py() : offsets[-1].as_py()]


def is_of_texts(kind: pa.DataType) -> bool:
    """Whether the values are texts, plain or coded."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(is_type(kind) for is_type in _TEXTS)


def _bytes_and_invalid(values: pa.Array) -> tuple[int, int]:
    """The bytes of all texts, and how many of the texts are not UTF-8."""
    if not pa.types.is_dictionary(values.type):
        return array_util.GetBinaryArrayTotalByteSize(values), array_util.CountInvalidUTF8(values)
    if array_util.CountInvalidUTF8(values.dictionary):
        return _bytes_and_invalid(values.dictionary_decode())
    sizes = pc.binary_length(values.dictionary).to_numpy().astype(np.int64)
    return int(sizes.take(np.asarray(values.indices)).sum()), 0


def _merged(own: QuantilesSketch | None, other: QuantilesSketch | None) -> QuantilesSketch | None:
    if own is None or other is None:
        return own or other
    own.Merge(other)
    return own


def _type(kind: pa.DataType) -> int:
    """The type of a column's values, UNKNOWN for null."""
    if pa.types.is_null(kind):
        return UNKNOWN
    values = kind.value_type
    if pa.types.is_integer(values):
        return INT
    return FLOAT if pa.types.is_floating(values) else STRING
