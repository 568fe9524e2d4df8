"""The plots of an evaluation as TFMA writes and draws them: calibration and confusion matrices.

They are counted from the histograms of the metrics, so that they cost no other look at the examples. Their buckets and
thresholds are those of TFMA's CalibrationPlot and ConfusionMatrixPlot, and for several classes of its
MultiClassConfusionMatrixPlot at a threshold of 0, where the most probable class is the predicted one. Predicted numbers
have a CalibrationPlot from about the least to about the greatest, in steps whose width is a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from google.protobuf.message import Message
from tensorflow_model_analysis.metrics.binary_confusion_matrices import Matrices
from tensorflow_model_analysis.metrics.calibration_plot import CALIBRATION_PLOT_NAME
from tensorflow_model_analysis.metrics.confusion_matrix_plot import CONFUSION_MATRIX_PLOT_NAME
from tensorflow_model_analysis.metrics.metric_types import PlotKey
from tensorflow_model_analysis.metrics.multi_class_confusion_matrix_plot import MULTI_CLASS_CONFUSION_MATRIX_PLOT_NAME
from tensorflow_model_analysis.proto import metrics_for_slice_pb2 as protos

from headrace.components.evaluation.metrics.accumulator import Array, LabelMetrics, Linear, Totals
from headrace.components.evaluation.metrics.probabilities import GRID
from headrace.components.evaluation.metrics.steps import PredictedSteps
from headrace.components.evaluation.result import Confusion
from headrace.components.evaluation.slices import SliceKey

WHOLE, OF_SLICE = 1000, 100
"""Steps between the thresholds of a plot of the whole split, as many as TFMA's, and of one of a slice, whose examples
are fewer; 150 and 15 kB."""
MOST_PLOTTED = 100
"""Slices that have plots: those with the most examples."""


class Counts(NamedTuple):
    """What the plots of a slice are made of. probabilities: of a binary label; confusion: of several classes;
    predicted: numbers.
    """

    probabilities: Linear | None
    confusion: Confusion | None
    predicted: PredictedSteps | None = None

    @classmethod
    def of(cls, metrics: LabelMetrics, totals: Totals) -> Counts | None:
        """From the histogram of a slice; None for a kind of label without plots, or if predictions are not numbers."""
        if not np.isfinite(totals.sums).all():
            return None
        if (predicted := metrics.predicted_steps(totals)) is not None:
            return cls(None, None, predicted) if len(predicted.steps) else None
        probabilities = metrics.linear(totals)
        confusion = None if probabilities else metrics.confusion(totals)
        return cls(probabilities, confusion) if probabilities or confusion else None

    def plots(self, model: str, task: str, steps: int) -> dict[PlotKey, Message]:
        """TFMA's messages. steps: between the thresholds, at most for numbers; divides GRID."""
        if self.predicted is not None:
            return {PlotKey(CALIBRATION_PLOT_NAME, model, task): _of_numbers(self.predicted.of_at_most(steps))}
        if self.probabilities is not None:
            return {
                PlotKey(CALIBRATION_PLOT_NAME, model, task): _calibration(self.probabilities, steps),
                PlotKey(CONFUSION_MATRIX_PLOT_NAME, model, task): _matrices(self.probabilities, steps),
            }
        assert self.confusion is not None  # noqa: S101 - of `of`
        return {PlotKey(MULTI_CLASS_CONFUSION_MATRIX_PLOT_NAME, model, task): _of_classes(self.confusion)}


def plotted(examples: Mapping[SliceKey, float]) -> set[SliceKey]:
    """The slices that have plots: the whole split, and the largest others. examples: their number in each."""
    sliced = [key for key in examples if key]
    return {(), *sorted(sliced, key=lambda key: (-examples[key], str(key)))[:MOST_PLOTTED]} & examples.keys()


def steps_of(key: SliceKey) -> int:
    """The steps between the thresholds of a slice's plots."""
    return OF_SLICE if key else WHOLE


def _calibration(counts: Linear, steps: int) -> protos.CalibrationHistogramBuckets:
    """As CalibrationPlot: each bucket has its lower bound; the first is below 0, and the last is of 1."""
    per_step = GRID // steps
    columns = (counts.positives, counts.predictions, counts.negatives + counts.positives)
    sums = zip(*([0.0, *_by_step(column, per_step)] for column in columns), strict=True)
    return _buckets([step / steps for step in range(steps + 1)], sums)


def _of_numbers(predicted: PredictedSteps) -> protos.CalibrationHistogramBuckets:
    """As CalibrationPlot from the lower end of the first step to the upper one of the last, beyond which is nothing."""
    first, last = int(predicted.steps[0]), int(predicted.steps[-1])
    sums = np.zeros((last - first + 3, 3))
    sums[predicted.steps - first + 1] = predicted.sums
    return _buckets([math.ldexp(step, predicted.exponent) for step in range(first, last + 2)], sums.tolist())


def _buckets(thresholds: Sequence[float], sums: Iterable[Sequence[float]]) -> protos.CalibrationHistogramBuckets:
    """thresholds: between the buckets; sums: of each bucket the weighted labels, predictions and weights."""
    ends = [-math.inf, *thresholds, math.inf]
    found = protos.CalibrationHistogramBuckets()
    for number, (label, prediction, weight) in enumerate(sums):
        found.buckets.add(
            lower_threshold_inclusive=ends[number],
            upper_threshold_exclusive=ends[number + 1],
            total_weighted_label={"value": label},
            total_weighted_refined_prediction={"value": prediction},
            num_weighted_examples={"value": weight},
        )
    return found


def _by_step(column: Array, per_step: int) -> list[float]:
    """The sums of the steps of a plot, and last what lies at 1."""
    found: list[float] = [*column[:-1].reshape(-1, per_step).sum(axis=1).tolist(), float(column[-1])]
    return found


def _matrices(counts: Linear, steps: int) -> protos.ConfusionMatrixAtThresholds:
    """As ConfusionMatrixPlot, which counts a prediction as above a threshold from the next step of the grid on."""
    per_step = GRID // steps
    first = np.minimum(np.arange(1, steps + 1) * per_step + 1, GRID)
    below = [_before(column, first) for column in (counts.negatives, counts.positives)]
    above = [column.sum() - before for column, before in zip((counts.negatives, counts.positives), below, strict=True)]
    thresholds = [-1e-6, *(step / steps for step in range(steps + 1))]
    (true_negative, false_negative), (false_positive, true_positive) = below, above
    matrices = Matrices(thresholds, *map(list, (true_positive, true_negative, false_positive, false_negative)))
    return matrices.to_proto().confusion_matrix_at_thresholds


def _before(column: Array, first: Array) -> Array:
    """What lies below each threshold: nothing below the least two, those of 0 and just below it."""
    return np.concatenate([[0.0, 0.0], np.cumsum(column)[first.astype(int) - 1]])


def _of_classes(confusion: Confusion) -> protos.MultiClassConfusionMatrixAtThresholds:
    found = protos.MultiClassConfusionMatrixAtThresholds()
    found.matrices.add(threshold=0.0).entries.extend(_entries(confusion))
    return found


def _entries(
    confusion: Confusion,
) -> Iterable[protos.MultiClassConfusionMatrixAtThresholds.MultiClassConfusionMatrixEntry]:
    """Those of pairs of classes that any example has."""
    entry = protos.MultiClassConfusionMatrixAtThresholds.MultiClassConfusionMatrixEntry
    for actual, row in zip(confusion.classes, confusion.counts, strict=True):
        for predicted, weight in zip(confusion.classes, row, strict=True):
            if weight:
                yield entry(actual_class_id=actual, predicted_class_id=predicted, num_weighted_examples=weight)
