"""Line charts: training curves, ROC, calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headrace.pipeline.report.charts.scale import Scale, padded, ticks, whole_ticks
from headrace.pipeline.report.charts.svg import element, picture

WIDTH, HEIGHT = 340.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 12.0, 36.0
_MANY_POINTS = 40
_LABEL_ROOM = 6.0

Range = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A curve. `style` is a class of the style sheet: `first`, `second` or `quiet`."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str = "first"
    dots: bool = True


@dataclass(frozen=True)
class _Plane:
    x: Scale
    y: Scale

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        return self.x(point[0]), self.y(point[1])


def line_chart(  # noqa: PLR0913 - a chart has many parts
    title: str,
    lines: Sequence[Line],
    *,
    x_label: str,
    whole_x: bool = False,
    x_range: Range | None = None,
    y_range: Range | None = None,
    mark: tuple[float, str] | None = None,
) -> Markup:
    """Curves over a common x axis. `mark`: an x that matters, and what it is. Ranges default to the points."""
    points = [point for line in lines for point in line.points if all(map(math.isfinite, point))]
    if not points:
        return Markup()
    x_low, x_high = x_range or _x_range([x for x, _ in points])
    y_low, y_high = y_range or padded(y for _, y in points)
    plane = _Plane(Scale(x_low, x_high, _LEFT, WIDTH - _RIGHT), Scale(y_low, y_high, HEIGHT - _BOTTOM, _TOP))
    parts = [
        *(_horizontal(plane, tick) for tick in ticks(y_low, y_high)),
        *(_tick_below(plane, tick) for tick in (whole_ticks if whole_x else ticks)(x_low, x_high)),
        element("text", x_label, x=(WIDTH + _LEFT - _RIGHT) / 2, y=HEIGHT - 4, class_="axis middle"),
        *([_marked(plane, *mark)] if mark else []),
        *(_curve(plane, line) for line in lines),
    ]
    return picture(title, WIDTH, HEIGHT, *parts, class_="chart")


def _x_range(values: Sequence[float]) -> Range:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1, high + 1)


def _horizontal(plane: _Plane, tick: float) -> Markup:
    y = plane.y(tick)
    return element(
        "g",
        element("line", x1=_LEFT, y1=y, x2=WIDTH - _RIGHT, y2=y, class_="grid"),
        element("text", f"{tick:.6g}", x=_LEFT - _LABEL_ROOM, y=y + 4, class_="axis end"),
    )


def _tick_below(plane: _Plane, tick: float) -> Markup:
    return element("text", f"{tick:.6g}", x=plane.x(tick), y=HEIGHT - _BOTTOM + 16, class_="axis middle")


def _marked(plane: _Plane, x: float, what: str) -> Markup:
    place = plane.x(x)
    left_half = place < WIDTH / 2
    return element(
        "g",
        element("line", x1=place, y1=_TOP, x2=place, y2=HEIGHT - _BOTTOM, class_="mark"),
        element(
            "text",
            what,
            x=place + (_LABEL_ROOM if left_half else -_LABEL_ROOM),
            y=_TOP + 8,
            class_="axis strong" if left_half else "axis strong end",
        ),
    )


def _curve(plane: _Plane, line: Line) -> Markup:
    points = [point for point in line.points if all(map(math.isfinite, point))]
    path = " ".join("{:.1f},{:.1f}".format(*plane.place(point)) for point in points)
    dots = [_dot(plane, line.name, point) for point in points] if line.dots and len(points) <= _MANY_POINTS else []
    return element("g", element("polyline", points=path), *dots, class_=f"line {line.style}")


def _dot(plane: _Plane, name: str, point: tuple[float, float]) -> Markup:
    x, y = plane.place(point)
    return element("circle", element("title", f"{name}, {point[0]:.6g}: {point[1]:.6g}"), cx=x, cy=y, r=3)
