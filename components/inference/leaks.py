"""Columns that give the label away: what they hold is often known only when the label is.

determines(column, label, facts, label_facts)      # True: each value stands for one of the label
suspicion(column, label, facts, label_facts)       # "alone reaches an AUC of 0.970", "by whether it has a value ..."
suspicion(column, label, facts, label_facts, COPY) # the same, for what can hardly be anything but the label again
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.inference.facts import ColumnFacts


class Bounds(NamedTuple):
    """The AUC, or Spearman's correlation, of a single column from which on it is suspicious."""

    auc: float
    correlation: float


SUSPICIOUS = Bounds(0.95, 0.99)
"""What someone who writes a config is asked about. Columns that are merely good reach it: two of breast_cancer do."""
COPY = Bounds(0.999, 0.999)
"""What a copy of the label reaches, with some digits lost or some rows changed."""
MOST_MISSING = 0.5
"""Fraction of the rows without a value up to which a column can stand for the label."""
ENOUGH_ROWS = 100
FEW_VALUES = 20
"""Distinct values up to which a label of numbers is not an amount, whose order alone would say much."""
FEW_CATEGORIES = 31
"""Distinct texts up to which each may stand for a class; of others, it counts only whether there is one."""
NUMBERS = frozenset({"int", "float"})


def determines(column: pa.ChunkedArray, label: pa.ChunkedArray, facts: ColumnFacts, label_facts: ColumnFacts) -> bool:
    """Whether the values of a column stand for those of the label one to one, as `alive` does for `survived`.

    Rows without a label do not count, nor do those without a value, as long as they are not most.
    """
    if (
        facts.is_list
        or label_facts.is_list
        or facts.distinct != label_facts.distinct
        or facts.distinct > 0.5 * facts.rows
    ):
        return False
    if facts.distinct < 2 or facts.missing > MOST_MISSING * facts.rows:
        return False
    rows = pa.table({"column": column, "label": label})
    rows = rows.filter(pc.and_(pc.is_in(label, label_facts.values), pc.is_in(column, facts.values)))
    return int(rows.group_by(["column", "label"]).aggregate([]).num_rows) == facts.distinct


def suspicion(
    column: pa.ChunkedArray,
    label: pa.ChunkedArray,
    facts: ColumnFacts,
    label_facts: ColumnFacts,
    bounds: Bounds = SUSPICIOUS,
) -> str:
    """How well a column alone tells a label of two values, or a number; empty if that is within the bounds.

    A label of two values may be told by the order of numbers, by a few texts, or by whether there is a value.
    """
    if label_facts.is_list:
        return ""
    pairs = pa.table({"column": column, "label": label}).filter(pc.is_in(label, label_facts.values))
    if label_facts.distinct == 2:
        return _of_two(pairs, facts, label_facts, bounds.auc)
    if facts.is_list or {facts.scalar, label_facts.scalar} - NUMBERS or label_facts.distinct <= FEW_VALUES:
        return ""
    known = _known(pairs)
    if known.num_rows < ENOUGH_ROWS:
        return ""
    rho = rank_correlation(*(known[name].to_numpy() for name in ("column", "label")))
    return f"has a rank correlation of {rho:.3f} with it" if abs(rho) >= bounds.correlation else ""


def _of_two(pairs: pa.Table, facts: ColumnFacts, label_facts: ColumnFacts, least: float) -> str:
    """How well a column tells a label of two values. least: the AUC from which on that is suspicious."""
    positive = pc.equal(pairs["label"], label_facts.values[1]).to_numpy()
    if len(positive) < ENOUGH_ROWS:
        return ""
    present = _is_present(pairs["column"])
    if facts.missing and (auc := separation(present.to_numpy(), positive)) >= least:
        return f"reaches an AUC of {auc:.3f} by whether it has a value"
    if facts.is_list:
        return ""
    if facts.scalar in NUMBERS:
        known = present.to_numpy()
        values, positive = pairs["column"].filter(present).to_numpy(), positive[known]
    elif facts.scalar == "string" and facts.distinct <= FEW_CATEGORIES:
        values = _shares(pairs["column"], positive)
    else:
        return ""
    auc = separation(values, positive) if len(values) >= ENOUGH_ROWS else 0.5
    return f"alone reaches an AUC of {auc:.3f}" if auc >= least else ""


def _shares(texts: pa.ChunkedArray, positive: np.ndarray) -> np.ndarray:
    """For each row the share of positive ones among all with its text, where none is a text of its own."""
    _, codes = np.unique(pc.fill_null(texts, "").to_numpy(), return_inverse=True)
    shares: np.ndarray = (np.bincount(codes, positive) / np.bincount(codes))[codes]
    return shares


def _known(pairs: pa.Table) -> pa.Table:
    return pairs.filter(pc.and_(_is_present(pairs["column"]), _is_present(pairs["label"])))


def _is_present(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each row has a value; NaN, an empty text and an empty list are none."""
    if pa.types.is_floating(column.type):
        return pc.invert(pc.is_null(column, nan_is_null=True))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return pc.greater(pc.fill_null(pc.list_value_length(column), 0), 0)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.not_equal(pc.fill_null(column, ""), "")
    return pc.is_valid(column)


def separation(values: np.ndarray, positive: np.ndarray) -> float:
    """The AUC of numbers [n] for labels [n] (bool), in the better direction; 0.5 if all labels are the same.

    It is the Mann-Whitney U statistic over the pairs of rows with different labels, where equal values count half.
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if min(positives, negatives) == 0:
        return 0.5
    above = average_ranks(values)[positive].sum() - positives * (positives + 1) / 2
    auc = float(above / (positives * negatives))
    return max(auc, 1 - auc)


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation of numbers [n]; 0 if one of them does not vary."""
    first, second = average_ranks(one), average_ranks(other)
    varies = np.ptp(first) > 0 and np.ptp(second) > 0
    return float(np.corrcoef(first, second)[0, 1]) if varies else 0.0


def average_ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each number from 1, and of equal ones their average: float64 [n]."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks
