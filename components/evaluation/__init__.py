"""A TFMA evaluation over whole batches: TFMA's config, names, files and validation; sums in NumPy instead of a Python
call for each example, slice and metric.
"""

from __future__ import annotations

from components.evaluation.binary import Binary
from components.evaluation.multiclass import Multiclass
from components.evaluation.next_word import NextWord
from components.evaluation.regression import Regression
from components.evaluation.tally import Measure

MEASURES: dict[str, Measure] = {
    "binary": Binary(),
    "multiclass": Multiclass(),
    "next_word": NextWord(),
    "regression": Regression(),
}
"""For each kind of label, what is measured."""
