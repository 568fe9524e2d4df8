"""Importance in tables with more columns than there is time to permute one by one: blocks of columns come first.

    plan = planned(len(columns), available)                   # on how many examples, with how many predictions
    importance, screening = measured(explainer, columns, plan)   # of the columns that were reached; of the others

The columns are cut into a few blocks of neighbors, and all columns of a block are permuted together, once. The block
that raises the loss most is halved, then the half that raises it more, down to a single column; the other halves wait
among the blocks. The columns that are reached in this way are measured with all repeats. Then the next block follows,
until the predictions that the time allows are used up, or none of the blocks that are left raises the loss. For k
columns that matter among n, this takes about k (2 log2(n / 16) + 5) predictions of the sample; to measure all columns
takes 5 n, which is done as long as it takes about a minute.

Columns whose effects cancel are missed if they are in the same block: the difference of two equal columns stays the
same when both are permuted together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from headrace.components.evaluation.importance import LEAST_EXAMPLES, MOST_EXAMPLES, REPEATS, WORK, Explainer
from headrace.components.evaluation.result import FeatureImportance, Screening

CALLS, LEAST_CALLS = 100, 50
"""Predictions of the whole sample: how many are aimed at, and how many find anything in a table this wide."""
BLOCKS = 16
"""Blocks to begin with."""
ROUNDING = 1e-6
"""Share of the loss by which rounding in float32 may change it."""


class Plan(NamedTuple):
    """How importance is measured. examples: of the sample, none if the columns are too many; calls: predictions of the
    sample if columns are screened in blocks, 0 if each is measured.
    """

    examples: int
    calls: int = 0


class ColumnGroup(NamedTuple):
    """Neighboring columns, and how much the loss grows when their values are permuted together."""

    increase: float
    columns: Sequence[str]

    @property
    def halves(self) -> list[Sequence[str]]:
        middle = len(self.columns) // 2
        return [self.columns[:middle], self.columns[middle:]]

    @property
    def cost(self) -> int:
        """Predictions until one of its columns is measured, at most."""
        return 2 * math.ceil(math.log2(len(self.columns))) + REPEATS


class WorkLimits(NamedTuple):
    """What importance may take. row: to predict a row; usual: for more than the fewest examples; each: to measure every
    column on these; screened: if even that takes more.
    """

    row: int
    usual: int
    each: int
    screened: int

    @classmethod
    def of_examples(cls, columns: int) -> WorkLimits:
        """In values that are encoded: about ten seconds."""
        return cls(columns, WORK, WORK, WORK)

    @classmethod
    def of_features(cls, row_work: int) -> WorkLimits:
        """In units of a model's `row_work`: some seconds, and about one minute of a processor."""
        return cls(row_work, 2 * 10**9, 2 * 10**10, 2 * 10**10)


def planned(columns: int, available: int, row_work: int | None = None) -> Plan:
    """The plan for a model of this many columns and a sample of at most `available` examples, if the config leaves it
    open. row_work: of the model if it predicts from the sample's features, None if from examples.
    """
    columns = max(columns, 1)
    usual = WorkLimits.of_examples(columns)
    row, most, for_each, screened = usual if row_work is None else WorkLimits.of_features(row_work)
    many = max(most // (REPEATS * columns * row), usual.usual // (REPEATS * columns**2))
    if many >= LEAST_EXAMPLES:
        return Plan(min(many, MOST_EXAMPLES, available))
    few = min(LEAST_EXAMPLES, available)
    if few * REPEATS * columns * row <= for_each:
        return Plan(few)
    examples = min(max(screened // (CALLS * row), LEAST_EXAMPLES), available)
    calls = screened // (examples * row)
    return Plan(examples, calls) if calls >= LEAST_CALLS else Plan(0)


def measured(
    explainer: Explainer, columns: Sequence[str], plan: Plan
) -> tuple[list[FeatureImportance], Screening | None]:
    """The importance of columns, the most important first; if they are screened, of those that were reached, and what
    is known of the others.
    """
    return _screened(explainer, columns, plan.calls) if plan.calls else (explainer.importance(columns), None)


def _screened(explainer: Explainer, columns: Sequence[str], calls: int) -> tuple[list[FeatureImportance], Screening]:
    edges = [len(columns) * number // BLOCKS for number in range(BLOCKS + 1)]
    waiting = _permuted(explainer, [columns[start:end] for start, end in pairwise(edges) if start < end])
    least, left = ROUNDING * abs(explainer.base), calls - len(waiting)
    reached: list[str] = []
    while within := [block for block in waiting if block.increase > least and block.cost <= left]:
        block = max(within, key=lambda one: one.increase)
        waiting.remove(block)
        while len(block.columns) > 1 and block.increase > least:
            block, other = _permuted(explainer, block.halves)
            waiting.append(other)
            left -= 2
        if block.increase > least:
            reached += block.columns
            left -= REPEATS
        else:
            waiting.append(block)
    return explainer.importance(reached), _screening(len(columns), waiting, least)


def _permuted(explainer: Explainer, blocks: Sequence[Sequence[str]]) -> list[ColumnGroup]:
    """These blocks, the one that raises the loss most first."""
    found = map(ColumnGroup, explainer.increases(blocks), blocks)
    return sorted(found, key=lambda one: -one.increase)


def _screening(columns: int, waiting: Sequence[ColumnGroup], least: float) -> Screening:
    """What is known of the columns in blocks that were not divided; an increase that is not a number counts as one."""
    raising = [block for block in waiting if not block.increase <= least]
    unreached = sum(len(block.columns) for block in raising)
    unraised = sum(len(block.columns) for block in waiting) - unreached
    return Screening(columns, unraised, unreached, max((block.increase for block in raising), default=0.0))
