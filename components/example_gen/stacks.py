"""The columns of a batch of many columns and few rows: those of one type one behind the other in one array.

A call for a column of few rows costs more than its values do. What is computed of a stack costs one call for all of its
columns.

for stack in stacks(batch):            # where worth_stacking(batch)
    stack.values                       # all values of its columns: a pa.Array of columns x rows values
    [batch.schema.names[place] for place in stack.places]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.components.example_gen.parts import grouped

FEW_ROWS, MANY_COLUMNS = 1024, 32
"""Rows from which on a call for each column costs less than to copy the columns into stacks, and columns below which it
does so too.
"""

LARGEST = 4 << 20
"""Bytes of a stack, about: so many that calls cost little, and few enough for the processor's cache."""

Value = TypeVar("Value", bound=np.generic)

_NUMBERS = frozenset(arrow.id for arrow in (pa.int64(), pa.float64(), pa.float32()))


@dataclass(frozen=True)
class Stack:
    """Columns of one type. `places`: which of the batch's; `values`: column after column; `rows`: of each column."""

    places: NDArray[np.int64]
    values: pa.Array
    rows: int

    def per_column(self, values: NDArray[Value]) -> NDArray[Value]:
        """What was computed of each value, as [columns, rows]."""
        return values.reshape(len(self.places), self.rows)


def worth_stacking(batch: pa.RecordBatch) -> bool:
    """Whether stacks of the batch's columns cost less than its columns."""
    return 0 < batch.num_rows < FEW_ROWS and bool(batch.num_columns >= MANY_COLUMNS)


def stacks(batch: pa.RecordBatch) -> Iterator[Stack]:
    """All columns of a batch that has rows, in stacks of about LARGEST bytes."""
    columns, by_type = batch.columns, dict[object, list[int]]()
    for place, arrow in enumerate(batch.schema.types):
        by_type.setdefault(arrow if arrow.num_fields else arrow.id, []).append(place)
    for key, places in by_type.items():
        fixed = key in _NUMBERS
        sizes = [8 * batch.num_rows if fixed else columns[place].nbytes for place in places]
        for own in grouped(places, sizes, LARGEST):
            yield _stack([columns[place] for place in own], own)


def stacks_or_columns(batch: pa.RecordBatch) -> Iterator[Stack]:
    """Stacks where they are worth it, else each column as a stack of its own."""
    if worth_stacking(batch):
        return stacks(batch)
    return (Stack(np.array([place]), column, batch.num_rows) for place, column in enumerate(batch.columns))


def _stack(columns: Sequence[pa.Array], places: Sequence[int]) -> Stack:
    values = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    return Stack(np.array(places), values, len(columns[0]))
