"""Charts as inline SVG: histograms for table cells, and line charts. The page's style sheet gives them their colors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

from headrace.pipeline.report.formatting import common_digits, figure, short, visible

Range = tuple[float, float]

HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT, GAP = 160.0, 40.0, 1.0
_LEAST_HEIGHT = 1.0  # so that a bar with any count can be seen
_FEW_BARS = 6  # fewer bars than this do not fill the width

WIDTH, HEIGHT = 340.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 12.0, 36.0
_MANY_POINTS = 40
_LABEL_ROOM = 6.0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram. `width` is relative to the other bars."""

    label: str
    count: float
    width: float = 1.0


@dataclass(frozen=True)
class ChartLine:
    """One curve of a line chart. `style` is a class of the style sheet: `first`, `second` or `quiet`."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str = "first"
    dots: bool = True


class Picture(NamedTuple):
    """A chart. legend: (name, style of the line)."""

    heading: str
    chart: Markup
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Scale:
    """A linear map from low..high to start..end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def digits(self) -> int:
        """Significant digits by which values on the scale differ."""
        return max(6, common_digits(self.low, self.high) + 3)


def histogram(title: str, bars: Sequence[Bar]) -> Markup:
    """Draw bars side by side, each as wide as its bucket, so that its area is the count.

    Hovering over a bar shows its label and count. Empty markup without bars.
    """
    if not bars:
        return Markup()
    total_width = sum(bar.width for bar in bars)
    scale = HISTOGRAM_WIDTH / (total_width * max(1.0, _FEW_BARS / len(bars)))
    densest = max(bar.count / bar.width for bar in bars) or 1.0
    drawn, x = [], 0.0
    for bar in bars:
        height = HISTOGRAM_HEIGHT * bar.count / bar.width / densest
        height = max(height, _LEAST_HEIGHT) if bar.count else 0.0
        width = max(bar.width * scale - GAP, 0.5)
        label = element("title", f"{bar.label}: {bar.count:,.0f}")
        y = HISTOGRAM_HEIGHT - height
        drawn.append(element("rect", label, x=x, y=y, width=width, height=height, class_="bar"))
        x += bar.width * scale
    ground = element("line", x1=0.0, y1=HISTOGRAM_HEIGHT, x2=x, y2=HISTOGRAM_HEIGHT, class_="ground")
    return picture(title, HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT + 1, *drawn, ground, class_="histogram", stretch=True)


def line_chart(
    title: str,
    lines: Sequence[ChartLine],
    *,
    x_label: str,
    whole_x: bool = False,
    x_range: Range | None = None,
    y_range: Range | None = None,
    mark: tuple[float, str] | None = None,
) -> Markup:
    """Draw curves over a common x axis. Empty markup without a finite point.

    Args:
        title: Read by screen readers.
        lines: The curves; points that are not finite are left out.
        x_label: The label of the x axis.
        whole_x: Put ticks on integers only, for counts such as epochs.
        x_range: The range of the x axis; by default that of the points.
        y_range: The same for the y axis, by default with some padding.
        mark: An x to mark with a vertical line, and its label.
    """
    points = [point for line in lines for point in line.points if all(map(math.isfinite, point))]
    if not points:
        return Markup()
    x_low, x_high = x_range or _x_range([x for x, _ in points])
    y_low, y_high = y_range or padded(y for _, y in points)
    axes = _Axes(Scale(x_low, x_high, _LEFT, WIDTH - _RIGHT), Scale(y_low, y_high, HEIGHT - _BOTTOM, _TOP))
    x_ticks = (whole_ticks if whole_x else ticks)(x_low, x_high)
    start = x_ticks[0] if len({*map(short, x_ticks)}) < len(x_ticks) else 0.0
    if start:
        x_label = f"{x_label}, from {figure(start, axes.x.digits)}"
    parts = [
        *(_grid_line(axes, tick) for tick in ticks(y_low, y_high)),
        *(_x_tick(axes, tick, start) for tick in x_ticks),
        element("text", x_label, x=(WIDTH + _LEFT - _RIGHT) / 2, y=HEIGHT - 4, class_="axis middle"),
        *([_vertical_mark(axes, *mark)] if mark else []),
        *(_curve(axes, line) for line in lines),
    ]
    return picture(title, WIDTH, HEIGHT, *parts, class_="chart")


def cell_map(title: str, cells: Iterable[tuple[int, int, float]], number: int, ends: Range, *, x_label: str) -> Markup:
    """Draw a square of `number` times `number` cells, each the darker the larger its count, and the diagonal.

    Args:
        title: Read by screen readers.
        cells: (column, row, count) of those that are not empty.
        number: Cells along each axis.
        ends: The range of both axes.
        x_label: The label of the x axis.
    """
    axes = _Axes(Scale(*ends, _LEFT, WIDTH - _RIGHT), Scale(*ends, HEIGHT - _BOTTOM, _TOP))
    width, height = (WIDTH - _LEFT - _RIGHT) / number, (HEIGHT - _TOP - _BOTTOM) / number
    cells = list(cells)
    most = max((count for _, _, count in cells), default=1.0)
    drawn = [
        element(
            "rect",
            x=_LEFT + column * width,
            y=HEIGHT - _BOTTOM - (row + 1) * height,
            width=width,
            height=height,
            opacity=0.15 + 0.85 * math.sqrt(count / most),
            class_="cell",
        )
        for column, row, count in cells
    ]
    parts = [
        *(_grid_line(axes, tick) for tick in ticks(*ends)),
        *(_x_tick(axes, tick) for tick in ticks(*ends)),
        element("text", x_label, x=(WIDTH + _LEFT - _RIGHT) / 2, y=HEIGHT - 4, class_="axis middle"),
        *drawn,
        _curve(axes, ChartLine("equal", [(end, end) for end in ends], "quiet", dots=False)),
    ]
    return picture(title, WIDTH, HEIGHT, *parts, class_="chart")


def padded(values: Iterable[float], share: float = 0.08) -> Range:
    """The range of the finite values, widened by `share` of it on each side; never empty."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    pad = (high - low) * share if high > low else abs(high) * 0.1 or 1.0
    return low - pad, high + pad


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round values from low to high, `about` that many."""
    rough = (high - low) / about
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = magnitude * next(step for step in _STEPS if step * magnitude >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def whole_ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Integer ticks, for counts such as epochs."""
    return [tick for tick in ticks(low, high, about) if tick == round(tick)] or [math.ceil(low)]


def element(name: str, *children: str | Markup, **attributes: str | float) -> Markup:
    """One escaped SVG element: `element("rect", x=1, class_="bar")` is `<rect x="1" class="bar"></rect>`.

    A trailing underscore of an attribute's name is dropped, other underscores become dashes. Children that are not
    Markup are escaped.
    """
    parts = [f' {_attribute(key)}="{_attribute_value(value)}"' for key, value in attributes.items()]
    # A report has a thousand elements, and Markup's own `format` takes five times as long.
    return Markup(f"<{name}{''.join(parts)}>{''.join(map(_child, children))}</{name}>")  # noqa: S704 - all is escaped


def picture(title: str, width: float, height: float, *children: Markup, class_: str, stretch: bool = False) -> Markup:
    """A whole SVG, named by its title for screen readers. `stretch` fills the box without keeping the proportions."""
    ratio = {"preserveAspectRatio": "none"} if stretch else {}
    return element(
        "svg",
        element("title", title),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        class_=class_,
        **ratio,
    )


@dataclass(frozen=True)
class _Axes:
    x: Scale
    y: Scale

    def position(self, point: tuple[float, float]) -> tuple[float, float]:
        return self.x(point[0]), self.y(point[1])


def _x_range(values: Sequence[float]) -> Range:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1, high + 1)


def _grid_line(axes: _Axes, tick: float) -> Markup:
    y = axes.y(tick)
    return element(
        "g",
        element("line", x1=_LEFT, y1=y, x2=WIDTH - _RIGHT, y2=y, class_="grid"),
        element("text", short(tick), x=_LEFT - _LABEL_ROOM, y=y + 4, class_="axis end"),
    )


def _x_tick(axes: _Axes, tick: float, start: float = 0.0) -> Markup:
    label = f"+{short(tick - start)}" if start else short(tick)
    return element("text", label, x=axes.x(tick), y=HEIGHT - _BOTTOM + 16, class_="axis middle")


def _vertical_mark(axes: _Axes, x: float, label: str) -> Markup:
    position = axes.x(x)
    left_half = position < WIDTH / 2
    return element(
        "g",
        element("line", x1=position, y1=_TOP, x2=position, y2=HEIGHT - _BOTTOM, class_="mark"),
        element(
            "text",
            label,
            x=position + (_LABEL_ROOM if left_half else -_LABEL_ROOM),
            y=_TOP + 8,
            class_="axis strong" if left_half else "axis strong end",
        ),
    )


def _curve(axes: _Axes, line: ChartLine) -> Markup:
    points = [point for point in line.points if all(map(math.isfinite, point))]
    path = " ".join("{:.1f},{:.1f}".format(*axes.position(point)) for point in points)
    dots = [_dot(axes, line.name, point) for point in points] if line.dots and len(points) <= _MANY_POINTS else []
    return element("g", element("polyline", points=path), *dots, class_=f"line {line.style}")


def _dot(axes: _Axes, name: str, point: tuple[float, float]) -> Markup:
    x, y = axes.position(point)
    title = f"{name}, {figure(point[0], axes.x.digits)}: {figure(point[1], 6)}"
    return element("circle", element("title", title), cx=x, cy=y, r=3)


def _child(child: str | Markup) -> Markup:
    return child if isinstance(child, Markup) else escape(visible(child))


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _attribute_value(value: str | float) -> str:
    return escape(visible(value)) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
