"""Columns that give the label away: what they hold is often known only when the label is.

determines(column, label, facts, label_facts)      # True: each value stands for one of the label
separation(column, label, facts, label_facts)      # 0.97: the AUC of the column alone
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.inference.facts import ColumnFacts

SUSPICIOUS = 0.95
"""The AUC of a single column from which on a comment warns."""
ENOUGH_ROWS = 100


def determines(column: pa.ChunkedArray, label: pa.ChunkedArray, facts: ColumnFacts, label_facts: ColumnFacts) -> bool:
    """Whether the values of a column stand for those of the label one to one, as `alive` does for `survived`.

    Rows without a label do not count.
    """
    if facts.is_list or facts.distinct != label_facts.distinct or facts.distinct > 0.5 * facts.rows:
        return False
    if facts.distinct < 2 or facts.present < facts.rows:
        return False
    rows = pa.table({"column": column, "label": label}).filter(pc.is_in(label, label_facts.values))
    return int(rows.group_by(["column", "label"]).aggregate([]).num_rows) == facts.distinct


def separation(column: pa.ChunkedArray, label: pa.ChunkedArray, facts: ColumnFacts, label_facts: ColumnFacts) -> float:
    """The AUC of a binary label that a column of numbers reaches alone, in the better direction; 0.5 for others.

    It is the Mann-Whitney U statistic over the pairs of rows with different labels, where equal values count half.
    """
    if facts.is_list or facts.scalar not in {"int", "float"} or label_facts.distinct != 2 or label_facts.is_list:
        return 0.5
    rows = pa.table({"column": column, "label": label}).drop_null()
    values = rows["column"].cast(pa.float64()).to_numpy()
    positive = pc.equal(rows["label"], label_facts.values[1]).to_numpy()
    keep = ~np.isnan(values)
    values, positive = values[keep], positive[keep]
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if min(positives, negatives) == 0 or len(values) < ENOUGH_ROWS:
        return 0.5
    _, ranks, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2  # the average rank of equal values, from 1
    auc = float((middle[ranks][positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))
    return max(auc, 1 - auc)
