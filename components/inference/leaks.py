"""Columns that give the label away: what they hold is often known only when the label is.

determines(column, label, facts, label_facts)      # True: each value stands for one of the label
suspicion(column, label, facts, label_facts)       # "alone reaches an AUC of 0.970"
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.inference.facts import ColumnFacts

SUSPICIOUS_AUC, SUSPICIOUS_CORRELATION = 0.95, 0.99
"""The AUC, or Spearman's correlation, of a single column from which on a comment warns."""
ENOUGH_ROWS = 100
FEW_VALUES = 20
"""Distinct values up to which a label of numbers is no amount, whose order alone would say much."""
NUMBERS = frozenset({"int", "float"})


def determines(column: pa.ChunkedArray, label: pa.ChunkedArray, facts: ColumnFacts, label_facts: ColumnFacts) -> bool:
    """Whether the values of a column stand for those of the label one to one, as `alive` does for `survived`.

    Rows without a label do not count.
    """
    if (
        facts.is_list
        or label_facts.is_list
        or facts.distinct != label_facts.distinct
        or facts.distinct > 0.5 * facts.rows
    ):
        return False
    if facts.distinct < 2 or facts.present < facts.rows:
        return False
    rows = pa.table({"column": column, "label": label}).filter(pc.is_in(label, label_facts.values))
    return int(rows.group_by(["column", "label"]).aggregate([]).num_rows) == facts.distinct


def suspicion(column: pa.ChunkedArray, label: pa.ChunkedArray, facts: ColumnFacts, label_facts: ColumnFacts) -> str:
    """How well a column of numbers alone tells a label of two values, or a number; empty if that is not suspicious."""
    if facts.is_list or facts.scalar not in NUMBERS or label_facts.is_list:
        return ""
    pairs = pa.table({"column": column, "label": label}).filter(pc.is_in(label, label_facts.values)).drop_null()
    values = pairs["column"].cast(pa.float64()).to_numpy()
    known = ~np.isnan(values)
    if known.sum() < ENOUGH_ROWS:
        return ""
    if label_facts.distinct == 2:
        positive = pc.equal(pairs["label"], label_facts.values[1]).to_numpy()
        auc = separation(values[known], positive[known])
        return f"alone reaches an AUC of {auc:.3f}" if auc >= SUSPICIOUS_AUC else ""
    if label_facts.scalar not in NUMBERS or label_facts.distinct <= FEW_VALUES:
        return ""
    rho = rank_correlation(values[known], pairs["label"].cast(pa.float64()).to_numpy()[known])
    return f"has a rank correlation of {rho:.3f} with it" if abs(rho) >= SUSPICIOUS_CORRELATION else ""


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
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks
