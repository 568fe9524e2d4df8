"""What is true of the values of one column, computed once for all decisions about it.

facts = facts_of("fare", "float", sample.column("fare"))
facts.distinct, facts.present, facts.rows      # 1_240, 15_002, 15_002
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.exact_integers import EXACT_IN_FLOAT64
from headrace.components.examples.tfexample.rounding import LARGEST, ColumnRounding
from headrace.components.sources.types import LIST, Kind

COMPARED = 20_000
"""Distinct texts against which patterns are tried."""


@dataclass(frozen=True)
class ColumnFacts:
    """The values of one column. Empty texts and NaN are missing, as they are to features.

    rows: of the sample; values: the distinct values, sorted, of any list each of its items; counts: how often each
    occurs; present: rows with a value; longest, shortest: the lengths of its lists, without empty ones; of_booleans:
    whether the data has false and true, which are 0 and 1 in `values`.
    """

    name: str
    kind: Kind
    rows: int
    values: pa.Array
    counts: pa.Array
    present: int
    longest: int = 1
    shortest: int = 1
    of_booleans: bool = False

    @property
    def scalar(self) -> str:
        """The kind without ` list`."""
        return self.kind.removesuffix(LIST)

    @property
    def is_list(self) -> bool:
        return self.kind.endswith(LIST)

    @property
    def distinct(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> int:
        """Rows without a value."""
        return self.rows - self.present

    @property
    def total(self) -> int:
        """Values in all rows."""
        return int(pc.sum(self.counts).as_py() or 0)

    @cached_property
    def least(self) -> Any:
        return self.values[0].as_py()

    @cached_property
    def greatest(self) -> Any:
        return self.values[-1].as_py()

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """Mean, standard deviation and skewness of a column of numbers; 0 for a deviation that is 0."""
        numbers, weights = self.values.cast(pa.float64(), safe=False).to_numpy(), self.counts.to_numpy()
        mean = float((numbers * weights).sum() / weights.sum())
        centered = numbers - mean
        deviation = math.sqrt(float((centered**2 * weights).sum() / weights.sum()))
        third = float((centered**3 * weights).sum() / weights.sum())
        return mean, deviation, third / deviation**3 if deviation else 0.0

    @cached_property
    def rounding(self) -> ColumnRounding:
        """What float32 does to the distinct values of a column of numbers; those beyond its range stop a run."""
        numbers = self.values.cast(pa.float64(), safe=False).to_numpy() if self.kind == "float" else np.zeros(0)
        return ColumnRounding.of(numbers[np.abs(numbers) <= LARGEST])

    @property
    def has_infinity(self) -> bool:
        return self.scalar == "float" and (math.isinf(self.least) or math.isinf(self.greatest))

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are integers, such as those of a column of ints with missing values."""
        return self.scalar == "int" or (
            self.scalar == "float"
            and not self.has_infinity
            and bool(pc.all(pc.equal(pc.floor(self.values), self.values)).as_py())
        )

    @cached_property
    def as_integers(self) -> ColumnFacts | None:
        """The same of the integers that a column of floats holds, as programs write those with gaps; None if one has a
        fraction, or may have lost digits.
        """
        if self.kind != "float" or not self.is_whole or max(abs(self.least), abs(self.greatest)) > EXACT_IN_FLOAT64:
            return None
        values = self.values.cast(pa.int64())
        return replace(self, kind="int", values=values) if pc.count_distinct(values).as_py() == self.distinct else None

    @property
    def is_dense(self) -> bool:
        """Whether at least half of the integers between the least and the greatest occur, as of months or classes."""
        return self.is_whole and bool(self.greatest - self.least < 2 * self.distinct)

    @cached_property
    def texts(self) -> pa.Array:
        """The first distinct values, as texts without white space around them."""
        return pc.utf8_trim_whitespace(self.values.slice(0, COMPARED).cast(pa.string()))

    @cached_property
    def mean_words(self) -> float:
        """Words in a distinct text, on average."""
        return float(pc.mean(pc.add(pc.count_substring_regex(self.texts, r"\s+"), 1)).as_py() or 0.0)

    def by_count(self) -> Iterator[tuple[Any, int]]:
        """The distinct values with their counts, the most frequent first, and equal ones in order."""
        order = pc.sort_indices(pa.table({"n": self.counts}), [("n", "descending")])
        return zip(self.values.take(order).to_pylist(), self.counts.take(order).to_pylist(), strict=True)


def facts_of(name: str, kind: Kind, column: pa.ChunkedArray, *, of_booleans: bool = False) -> ColumnFacts:
    """Count the distinct values of a column of this kind."""
    rows, longest, shortest = len(column), 1, 1
    if kind.endswith(LIST):
        lengths = pc.list_value_length(column)
        longest = pc.max(lengths).as_py() or 0
        shortest = pc.min(lengths.filter(pc.greater(pc.fill_null(lengths, 0), 0))).as_py() or 0
        present = pc.sum(pc.greater(pc.fill_null(lengths, 0), 0)).as_py() or 0
        values = _present(pc.list_flatten(column))
    else:
        values = _present(column)
        present = len(values)
    counted = values.value_counts()
    if isinstance(counted, pa.ChunkedArray):
        counted = counted.combine_chunks()
    distinct, counts = counted.field("values"), counted.field("counts")
    order = pc.sort_indices(distinct)
    values = distinct.take(order)
    return ColumnFacts(name, kind, rows, values, counts.take(order), present, longest, shortest, of_booleans)


def _present(column: pa.ChunkedArray) -> pa.ChunkedArray:
    values = column.drop_null()
    if pa.types.is_floating(values.type):
        zero = pa.scalar(0, values.type)
        return pc.add(values.filter(pc.invert(pc.is_nan(values))), zero)  # so that -0.0 is the same value as 0.0
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values.filter(pc.not_equal(values, ""))
    return values
