"""Histograms, small enough to stand in a table."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from headrace.pipeline.report.charts.svg import element, picture
from headrace.pipeline.report.statistics import Bar

WIDTH, HEIGHT, GAP = 160.0, 40.0, 1.0
_LEAST = 1.0  # what is there is seen
_SIX = 6  # fewer bars than that do not fill the width


def histogram(title: str, bars: Sequence[Bar]) -> Markup:
    """Bars side by side, each as wide as its bucket; the area is the count. Every bar says its label and count."""
    if not bars:
        return Markup()
    whole = sum(bar.width for bar in bars)
    scale = WIDTH / (whole * max(1.0, _SIX / len(bars)))
    densest = max(bar.count / bar.width for bar in bars) or 1.0
    drawn, x = [], 0.0
    for bar in bars:
        height = HEIGHT * bar.count / bar.width / densest
        height = max(height, _LEAST) if bar.count else 0.0
        width = max(bar.width * scale - GAP, 0.5)
        label = element("title", f"{bar.label}: {bar.count:,.0f}")
        drawn.append(element("rect", label, x=x, y=HEIGHT - height, width=width, height=height, class_="bar"))
        x += bar.width * scale
    ground = element("line", x1=0.0, y1=HEIGHT, x2=x, y2=HEIGHT, class_="ground")
    return picture(title, WIDTH, HEIGHT + 1, *drawn, ground, class_="histogram", stretch=True)
