"""A TFMA evaluation over whole batches: TFMA's config, names, files and validation; sums in NumPy instead of a Python
call for each example, slice and metric.
"""

from __future__ import annotations

from headrace.components.evaluation.binary import Binary
from headrace.components.evaluation.multiclass import Multiclass
from headrace.components.evaluation.next_word import NextWord
from headrace.components.evaluation.regression import Regression
from headrace.components.evaluation.tally import Measure

MEASURES: dict[str, Measure] = {
    "binary": Binary(),
    "multiclass": Multiclass(),
    "next_word": NextWord(),
    "regression": Regression(),
}
"""For each kind of label, what is measured."""
