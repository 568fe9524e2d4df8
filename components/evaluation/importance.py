"""What predictions depend on: permutation importance and partial dependence, of data columns and on a sample.

    explainer = Explainer(predict, loss, batch, weights)
    importance = explainer.importance(["fare", "hour"])      # the most important first
    explainer.dependence("fare")                                        # of a column with one number or text per row

Importance is how much the loss grows when the values of a column are permuted among the examples (Breiman, "Random
forests", Machine Learning 45, 2001); partial dependence the mean prediction when all examples have the same value in it
(Friedman, "Greedy function approximation", Annals of Statistics 29, 2001). Both are computed as by scikit-learn.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.common.exact_integers import EXACT_IN_FLOAT64
from headrace.common.record_batches import concatenated
from headrace.components.evaluation.metrics.accumulator import Array
from headrace.components.evaluation.result import FeatureImportance, PartialDependence
from headrace.components.evaluation.transformed_sample import TransformedSample

MOST_EXAMPLES, LEAST_EXAMPLES, REPEATS = 1000, 100, 5
WORK = 10_000_000
"""Values that may be encoded to measure the importance of all columns: about three seconds."""
GRID = 15
"""The most values of a column at which predictions are computed."""
MOST_TEXTS = 10
LONGEST_TEXT = 60
MOST_CURVES = 3
"""Classes whose probabilities are shown."""
SEED = 0
_TAIL = 0.05
"""Share of the numbers at either end that the grid leaves out."""
_ROWS = 5000
"""About how many rows are predicted at once."""

Predict = Callable[[pa.RecordBatch], Array]
"""Rows of data columns to predictions [rows, outputs]."""


def permutations(rows: int, repeats: int) -> list[NDArray[np.int64]]:
    """Which row's value each row gets in each repeat. They are scikit-learn's for `random_state=SEED`."""
    random = np.random.RandomState(np.random.RandomState(SEED).randint(np.iinfo(np.int32).max + 1))
    shuffled, taken, found = np.arange(rows), np.arange(rows), []
    for _ in range(repeats):
        random.shuffle(shuffled)
        taken = taken[shuffled]
        found.append(taken)
    return found


@dataclass(frozen=True)
class Explainer:
    """A model on a sample. loss: of each example, [rows], for predictions [rows, outputs]; batch: the sample, [rows],
    whose columns are lists; weights: [rows]; transformed: the sample as the model takes it, if it can be had.
    """

    predict: Predict
    loss: Callable[[Array], Array]
    batch: pa.RecordBatch
    weights: Array
    transformed: TransformedSample | None = None

    def importance(self, columns: Sequence[str]) -> list[FeatureImportance]:
        """Of each column, the most important first."""
        orders = permutations(self.batch.num_rows, REPEATS)
        losses = self._permuted([Permutation((column,), order) for column in columns for order in orders])
        found = [_importance(column, np.array([next(losses) for _ in orders]) - self.base) for column in columns]
        return sorted(found, key=lambda one: -one.increase)

    def increases(self, blocks: Sequence[Sequence[str]]) -> list[float]:
        """By how much the loss grows if the rows of all columns of a block are permuted together, for each block."""
        (order,) = permutations(self.batch.num_rows, 1)
        return [loss - self.base for loss in self._permuted([Permutation(block, order) for block in blocks])]

    @functools.cached_property
    def base(self) -> float:
        """The loss on the sample as it is."""
        if self.transformed is not None:
            return next(map(self._mean_loss, self.transformed.predict_each([{}])))
        return self._mean_loss(self.predict(self.batch))

    def _permuted(self, permutations: Sequence[Permutation]) -> Iterator[float]:
        """The loss with each of the permutations."""
        if self.transformed is not None:
            changes = itertools.starmap(self.transformed.permuted, permutations)
            return map(self._mean_loss, self.transformed.predict_each(changes))
        return map(self._mean_loss, self._with_each([partial(_taken, self.batch, *one) for one in permutations]))

    def dependence(self, column: str, *, classes: bool) -> PartialDependence | None:
        """On a column; None if its rows do not have a single number or short text.

        classes: whether the outputs are probabilities of classes.
        """
        values, grid = self.batch.column(column), self._grid(column)
        if grid is None:
            return None
        rows = self.batch.num_rows
        filled = [{column: _same(one, rows, values.type)} for one in grid]
        means = [np.average(each, axis=0, weights=self.weights) for each in self._replaced(filled)]
        table = np.stack(means)
        if not np.isfinite(table).all():
            return None
        outputs = _shown_outputs(table)
        numbers = () if not classes else (1,) if table.shape[1] == 1 else tuple(map(int, outputs))
        shown = _shown_values(grid.to_pylist())
        return PartialDependence(column, shown, tuple(tuple(map(float, row)) for row in table[:, outputs]), numbers)

    def _grid(self, column: str) -> pa.Array | None:
        """The values to compare: numbers in rising order, or the most frequent texts."""
        lists = self.batch.column(column)
        if pa.types.is_null(lists.type) or (pc.max(lists.value_lengths()).as_py() or 0) != 1:
            return None
        values = lists.flatten()
        if not pa.types.is_large_binary(values.type):
            numbers = np.asarray(values)
            finite = np.unique(numbers[np.isfinite(numbers)])
            if len(finite) > GRID:
                shares = np.linspace(_TAIL, 1 - _TAIL, GRID)
                finite = np.unique(np.quantile(numbers[np.isfinite(numbers)], shares, method="inverted_cdf"))
            return pa.array(finite, values.type) if len(finite) > 1 else None
        counts = sorted(values.value_counts().to_pylist(), key=lambda one: (-one["counts"], one["values"]))
        texts = [one["values"] for one in counts[:MOST_TEXTS]]
        few = 1 < len(counts) <= max(MOST_TEXTS, len(values) // 2)
        return pa.array(texts, values.type) if few and all(map(_is_short_text, texts)) else None

    def _replaced(self, replacements: Sequence[Mapping[str, pa.Array]]) -> Iterator[Array]:
        """The predictions with each of these in place of the columns of their names, the same in each."""
        if self.transformed is not None:
            return self.transformed.predict_each(self.transformed.replaced(replacements))
        return self._with_each([partial(dict, one) for one in replacements])

    def _with_each(self, replacements: Sequence[Callable[[], Mapping[str, pa.Array]]]) -> Iterator[Array]:
        """The predictions with what each of these returns in place of the columns of its names, several in a call."""
        rows, own = self.batch.num_rows, dict(zip(self.batch.schema.names, self.batch.columns, strict=True))
        together = max(1, _ROWS // rows)
        for start in range(0, len(replacements), together):
            some = replacements[start : start + together]
            batches = [
                pa.RecordBatch.from_arrays([*{**own, **each()}.values()], schema=self.batch.schema) for each in some
            ]
            yield from np.split(self.predict(concatenated(batches)), len(some))

    def _mean_loss(self, predictions: Array) -> float:
        return float(np.average(self.loss(predictions), weights=self.weights))


class Permutation(NamedTuple):
    """Columns, and the rows whose values each row gets in them."""

    columns: Sequence[str]
    order: NDArray[np.int64]


def _taken(batch: pa.RecordBatch, columns: Sequence[str], order: NDArray[np.int64]) -> dict[str, pa.Array]:
    rows = pa.array(order)
    return {name: batch.column(name).take(rows) for name in columns}


def _importance(column: str, grown: Array) -> FeatureImportance:
    """From how much the loss grew in each repeat."""
    error = float(grown.std(ddof=1)) / math.sqrt(len(grown)) if len(grown) > 1 else 0.0
    return FeatureImportance(column, float(grown.mean()), error)


def _same(value: pa.Scalar, rows: int, kind: pa.DataType) -> pa.Array:
    """A column of lists that have this one value."""
    return pa.LargeListArray.from_arrays(np.arange(rows + 1), pa.repeat(value, rows)).cast(kind)


def _shown_values(values: Sequence[bytes | int | float]) -> tuple[float | str, ...]:
    """Numbers, or texts: also of integers that float64 would take for others, such as long ids."""
    if any(isinstance(one, int) and abs(one) > EXACT_IN_FLOAT64 for one in values):
        return tuple(map(str, values))
    return tuple(one.decode() if isinstance(one, bytes) else float(one) for one in values)


def _is_short_text(value: bytes) -> bool:
    try:
        return len(value.decode()) <= LONGEST_TEXT
    except UnicodeDecodeError:
        return False


def _shown_outputs(table: Array) -> NDArray[np.int64]:
    """The outputs that change most over the rows of a table, in order."""
    spread = np.ptp(table, axis=0)
    return np.sort(np.argsort(-spread, kind="stable")[:MOST_CURVES])
