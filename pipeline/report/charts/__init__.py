"""Pictures as inline SVG, drawn here and coloured by the page's style sheet."""

from headrace.pipeline.report.charts.bars import histogram
from headrace.pipeline.report.charts.lines import Line, line_chart

__all__ = ["Line", "histogram", "line_chart"]
