"""What float32 does to columns of doubles: a tf.Example has no other floating-point numbers.

batch = RangeCheck().checked(batch)    # raises DataError for a finite number that becomes infinite as float32
rounding = RoundingAccumulator()
batch = rounding.checked(batch)        # the same
dict(rounding)                         # the ColumnRounding of each column of doubles
rounding_notes(rounding)               # lines about the columns that lose digits
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.common.errors import BadRecordError, DataError
from headrace.components.examples.arrow_columns import (
    is_list,
    numbers_of,
    stacks,
    stacks_or_columns,
    valid_of,
    worth_stacking,
)
from headrace.components.examples.skips import Skipped, Skips

COARSE = 1e-4
"""A column is reported if rounding moves its values by more than this fraction of their standard deviation (root mean
square). For evenly spread values, float32 then has fewer than 10,000 distinct numbers. The latitudes of Chicago's taxis
are at 0.00003, seconds since 1970 over a single day at 0.0015."""
SAMPLE = 2048
"""Values of each batch that the loss is estimated from, in a fortieth of the time that all of them would take."""
LARGEST, _LEAST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).min)
_TINY = float(np.finfo(np.float32).smallest_subnormal) / 2
"""The largest number that becomes 0 as float32 (a tie rounds to even)."""
MAX_REPORTED = 5
"""Columns that get a line of their own."""

_LABEL = "The label of a regression is float32, as predictions are: subtract an offset from it in the raw data"
_WEIGHT = "A weight is float32 in training, where these digits make no difference: round it in the raw data"

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnRounding:
    """What rounding does to the values of one column.

    Attributes:
        count: the number of finite values that the sums are over.
        mean: their mean.
        squares: the sum of their squared deviations from the mean.
        errors: the sum of their squared rounding errors.
        value: the value with the largest rounding error, the first of several.
        stored: `value` as float32.
        vanished: the number of nonzero values, of all values, that become 0.
        small: the first of those.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    errors: float = 0.0
    value: float = 0.0
    stored: float = 0.0
    vanished: int = 0
    small: float = 0.0

    @classmethod
    def of(cls, numbers: Doubles) -> ColumnRounding:
        """The rounding of doubles [n], each within float32's range or not finite. The sums are over at most SAMPLE."""
        if len(numbers) and not _LEAST < numbers.min() <= numbers.max() < LARGEST:
            numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return cls()
        some = numbers[_sampled(len(numbers))] if len(numbers) > SAMPLE else numbers
        with np.errstate(under="ignore"):
            mean, narrow = float(some.mean()), some.astype(np.float32)
            deviations, errors = some - mean, some - narrow
            squares, squared_errors = float(deviations @ deviations), float(errors @ errors)
        worst, small = int(np.abs(errors, out=errors).argmax()), _vanished(numbers)
        value, stored = float(some[worst]), float(narrow[worst])
        first = float(small[0]) if len(small) else 0.0
        return cls(len(some), mean, squares, squared_errors, value, stored, len(small), first)

    @classmethod
    def of_columns(cls, numbers: Doubles) -> Iterator[ColumnRounding]:
        """The rounding of each row of doubles [n, m], each within float32's range or not finite, over all values."""
        valid = np.isfinite(numbers)
        numbers, count = np.where(valid, numbers, 0.0), valid.sum(axis=1)
        with np.errstate(under="ignore"):
            mean = numbers.sum(axis=1) / np.maximum(count, 1)
            deviations, narrow = np.where(valid, numbers - mean[:, None], 0.0), numbers.astype(np.float32)
            errors = numbers - narrow
            squares = np.einsum("ij,ij->i", deviations, deviations), np.einsum("ij,ij->i", errors, errors)
        vanished = (narrow == 0) & (numbers != 0)
        every, worst, small = np.arange(len(numbers)), np.abs(errors).argmax(axis=1), vanished.argmax(axis=1)
        found = (count, mean, *squares, numbers[every, worst], narrow[every, worst].astype(np.float64))
        first = np.where(vanished.any(axis=1), numbers[every, small], 0.0)
        columns = (*found, vanished.sum(axis=1), first)
        return (cls(*own) for own in zip(*(column.tolist() for column in columns), strict=True))

    def __add__(self, other: ColumnRounding) -> ColumnRounding:
        """The rounding of both sets of values, by the update of Chan, Golub and LeVeque ("Updating Formulae and a
        Pairwise Algorithm for Computing Sample Variances", 1979).
        """
        count = self.count + other.count
        share = other.count / max(count, 1)
        difference = other.mean - self.mean
        worst = other if other.error > self.error else self
        return ColumnRounding(
            count,
            self.mean + difference * share,
            self.squares + other.squares + difference * difference * self.count * share,
            self.errors + other.errors,
            worst.value,
            worst.stored,
            self.vanished + other.vanished,
            self.small or other.small,
        )

    @property
    def error(self) -> float:
        return abs(self.value - self.stored)

    @property
    def share(self) -> float:
        """The root mean square of the rounding errors, in standard deviations; 0 if all values are equal."""
        return math.sqrt(self.errors / self.squares) if self.squares > 0 else 0.0


class RangeCheck:
    """Finds the numbers that float32 cannot hold, in batch after batch."""

    def __init__(self, *, skip_bad: bool = False, file: str | None = None) -> None:
        """Start with no rows skipped.

        Args:
            skip_bad: skip rows with a number beyond float32's range, instead of raising DataError.
            file: the file that the rows come from, for messages.
        """
        super().__init__()
        self._skip_bad, self._file = skip_bad, file
        self._skips = Skips()

    @property
    def skipped(self) -> Skipped:
        return self._skips.skipped

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without the rows that are skipped.

        Raises DataError for a number beyond float32's range, unless such rows are skipped.
        """
        for stack in stacks_or_columns(batch):
            if _is_double(stack.values.type) and _any_beyond(_numbers(stack.values)):
                columns = _doubles(batch).items()
                first = next(name for name, column in columns if _any_beyond(_numbers(column)))
                return self.checked(self._without(batch, first))
        return batch

    def _without(self, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """The rows whose numbers in a column float32 can hold. Raises DataError unless rows may be skipped."""
        column = batch.column(name)
        numbers = _numbers(column)
        beyond = _beyond(numbers)
        rows, first = np.unique(_rows(column)[beyond], return_index=True)
        errors = [partial(self._error, name, value) for value in numbers[beyond][first].tolist()]
        if not self._skip_bad:
            raise errors[0]()
        for error in errors:
            self._skips.add(error)
        return batch.filter(pa.array(~np.isin(np.arange(len(column)), rows)))

    def _error(self, name: str, value: float) -> DataError:
        what = f"{value!r} is beyond the largest float32, 3.4e+38, and examples hold no wider numbers"
        data_hint = (
            "exclude the column by `data.columns`, or, if it is not used as a number, set `data.types.{column}: string`"
        )
        hint = "Correct or scale the values"
        return BadRecordError(what, file=self._file, column=name, hint=hint, data_hint=data_hint)


class RoundingAccumulator(RangeCheck, dict[str, ColumnRounding]):
    """The rounding of the columns of doubles, by name, accumulated batch by batch."""

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Accumulate the batch too, without the rows that are skipped."""
        if worth_stacking(batch) and (found := _stacked(batch)) is not None:
            self._add(found)
            return batch
        numbers = {name: _numbers(column) for name, column in _doubles(batch).items()}
        for name, own in numbers.items():
            if _any_beyond(own):
                return self.checked(self._without(batch, name))
        self._add({name: ColumnRounding.of(own) for name, own in numbers.items()})
        return batch

    def _add(self, found: Mapping[str, ColumnRounding]) -> None:
        for name, own in found.items():
            self[name] = self[name] + own if name in self else own


def rounding_notes(
    found: Mapping[str, ColumnRounding], labels: Collection[str] = (), weights: Collection[str] = ()
) -> Iterator[str]:
    """A line about each column that loses digits or small numbers, starting with those that lose most.

    labels: the columns that are known to be the label of a regression, which cannot be float64; weights: those that
    are known to weigh examples, which cannot either.
    """
    coarse = sorted((name for name in found if found[name].share > COARSE), key=lambda name: -found[name].share)
    for name in coarse[:MAX_REPORTED]:
        yield f"column {name!r} {digits_lost(name, found[name], labels, weights).one}"
    if len(coarse) > MAX_REPORTED:
        names = ", ".join(map(repr, coarse[MAX_REPORTED:]))
        yield f"{len(coarse) - MAX_REPORTED:,} more columns lose digits in the same way: {names}"
    small = [name for name in found if found[name].vanished]
    for name in small[:MAX_REPORTED]:
        yield f"column {name!r} {vanished(found[name]).one}"
    if len(small) > MAX_REPORTED:
        names = ", ".join(map(repr, small[MAX_REPORTED:]))
        yield f"{len(small) - MAX_REPORTED:,} more columns have numbers too small for float32: {names}"


class Loss(NamedTuple):
    """What a message says after `column "a"`, and after `columns "a", "b"`, of which it is the first."""

    one: str
    several: str


def losses(name: str, rounding: ColumnRounding, labels: Collection[str], weights: Collection[str]) -> Iterator[Loss]:
    """What a column loses that `rounding_notes` would report."""
    if rounding.share > COARSE:
        yield digits_lost(name, rounding, labels, weights)
    if rounding.vanished:
        yield vanished(rounding)


def digits_lost(name: str, rounding: ColumnRounding, labels: Collection[str], weights: Collection[str]) -> Loss:
    own = _LABEL if name in labels else _WEIGHT if name in weights else None
    what = f"{lost_digits(rounding)}, because examples hold float32. "
    one = f"{what}{own or _way_out(f'`data.types.{name}: float64`')}"
    several = f"{what}{own or _way_out('`float64` for them in `data.types`')}"
    return Loss(one, several.replace("loses digits:", "lose digits, the first:", 1))


def vanished(rounding: ColumnRounding) -> Loss:
    example = f"numbers too small for float32, such as {rounding.small!r}, which are stored as 0"
    way = "in the raw data, or take its logarithm there"
    ways = "in the raw data, or take their logarithms there"
    one = f"has {example} ({rounding.vanished:,} of them). Scale the column {way}"
    return Loss(one, f"have {example}. Scale the columns {ways}")


def lost_digits(rounding: ColumnRounding) -> str:
    """The loss in words, with the largest error."""
    rounded = f"{rounding.value!r} is stored as {rounding.stored!r}"
    return f"loses digits: {rounded}, which is {rounding.error:.3g} away"


def _way_out(setting: str) -> str:
    return (
        f"For features of one number, {setting} (or `int`, for integers) keeps all digits. Lists and"
        " the label of a regression are float32 in any case: subtract an offset from their values in the raw data"
    )


def _stacked(batch: pa.RecordBatch) -> dict[str, ColumnRounding] | None:
    """The rounding of the columns of a batch that is worth stacking; None if it has lists of doubles, or a number
    beyond float32's range.
    """
    found, columns = dict[str, ColumnRounding](), batch.schema.names
    for stack in stacks(batch):
        if pa.types.is_float64(stack.values.type):
            numbers, valid = np.asarray(numbers_of(stack.values), np.float64), valid_of(stack.values)
            numbers = numbers if valid is None else np.where(valid, numbers, np.nan)
            if _beyond(numbers).any():
                return None
            names = (columns[place] for place in stack.positions.tolist())
            found.update(zip(names, ColumnRounding.of_columns(stack.per_column(numbers)), strict=True))
        elif _is_double(stack.values.type):
            return None
    return found


def _doubles(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of doubles, and of lists of them."""
    return {field.name: batch.column(place) for place, field in enumerate(batch.schema) if _is_double(field.type)}


def _is_double(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_float64(arrow.value_type if is_list(arrow) else arrow))


def _numbers(column: pa.Array) -> Doubles:
    """The numbers of a column, or of all its lists, without the missing ones."""
    values = column.flatten() if is_list(column.type) else column
    numbers: Doubles = numbers_of(values.drop_null() if values.null_count else values).astype(np.float64, copy=False)
    return numbers


def _rows(column: pa.Array) -> NDArray[np.int64]:
    """The row of each number that `_numbers` returns."""
    if is_list(column.type):
        return np.asarray(pc.list_parent_indices(column), np.int64)
    return np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))


@lru_cache(maxsize=64)
def _sampled(count: int) -> NDArray[np.int64]:
    """The indices of SAMPLE out of `count` numbers: the same each time, and random, lest the data have a period."""
    return np.sort(np.random.RandomState(0).randint(count, size=SAMPLE))


def _vanished(numbers: Doubles) -> Doubles:
    """The nonzero numbers that become 0 as float32."""
    if numbers.min() > _TINY or numbers.max() < -_TINY:
        return numbers[:0]
    return numbers[(np.abs(numbers) <= _TINY) & (numbers != 0)]


def _any_beyond(numbers: Doubles) -> bool:
    """Whether a finite number becomes infinite as float32."""
    within = not len(numbers) or _LEAST < numbers.min() <= numbers.max() < LARGEST
    return not within and bool(_beyond(numbers).any())


def _beyond(numbers: Doubles) -> NDArray[np.bool_]:
    """Which finite numbers become infinite as float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.isinf(numbers.astype(np.float32)) & np.isfinite(numbers)
