"""The charts of an evaluation: ROC, calibration and decisions of two classes, and the errors of predicted numbers."""

from __future__ import annotations

from markupsafe import Markup

from headrace.components.evaluation.result import Curves, Evaluation
from headrace.pipeline.report.charts import ChartLine, Picture, line_chart
from headrace.pipeline.report.explanation import agreement_pictures


def curve_pictures(evaluation: Evaluation) -> list[Picture]:
    """The charts of an evaluation, of the kinds that it has."""
    curves, pictures = evaluation.curves or Curves(), []
    if curves.roc:
        legend = (("model", "first"), ("chance", "quiet"))
        pictures.append(Picture("ROC: true positives over false positives", _roc(curves), legend))
    if curves.calibration:
        legend = (("model", "first"), ("perfect", "quiet"))
        pictures.append(Picture("Calibration: share of positives over prediction", _calibration(curves), legend))
    if curves.decisions:
        legend = (("precision", "first"), ("recall", "second"))
        chart = _decisions(curves, evaluation.decision_threshold)
        pictures.append(Picture("Decisions: precision and recall over the threshold", chart, legend))
    if curves.errors:
        legend = (("error", "first"), ("none", "quiet"))
        pictures.append(Picture("Errors: prediction minus label, over the share of examples", _errors(curves), legend))
    if evaluation.agreement:
        pictures += agreement_pictures(evaluation.agreement, evaluation.example_count)
    return pictures


def _roc(curves: Curves) -> Markup:
    lines = [
        ChartLine("chance", [(0, 0), (1, 1)], "quiet", dots=False),
        ChartLine("model", curves.roc, "first", dots=False),
    ]
    title = "ROC curve: true positive rate over false positive rate"
    return line_chart(title, lines, x_label="false positive rate", x_range=(0, 1), y_range=(0, 1))


def _calibration(curves: Curves) -> Markup:
    lines = [
        ChartLine("perfect", [(0, 0), (1, 1)], "quiet", dots=False),
        ChartLine("model", [(predicted, share) for predicted, share, _ in curves.calibration]),
    ]
    title = "Calibration: share of positives over mean prediction"
    return line_chart(title, lines, x_label="mean prediction", x_range=(0, 1), y_range=(0, 1))


def _decisions(curves: Curves, threshold: float | None) -> Markup:
    lines = [
        ChartLine("precision", [(point.threshold, point.precision) for point in curves.decisions], dots=False),
        ChartLine("recall", [(point.threshold, point.recall) for point in curves.decisions], "second", dots=False),
    ]
    mark = None if threshold is None else (threshold, f"{threshold:g}")
    title = "Precision and recall over the threshold of the predicted probability"
    return line_chart(title, lines, x_label="threshold", x_range=(0, 1), y_range=(0, 1), mark=mark)


def _errors(curves: Curves) -> Markup:
    lines = [
        ChartLine("none", [(0, 0), (1, 0)], "quiet", dots=False),
        ChartLine("error", [(share, error) for share, error in curves.errors]),
    ]
    title = "Errors: prediction minus label, over the share of examples whose error is not above it"
    return line_chart(title, lines, x_label="share of examples", x_range=(0, 1))
