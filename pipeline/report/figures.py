"""How figures are written on the page."""

from __future__ import annotations

import math
import time

from markupsafe import Markup

from headrace.pipeline.report.visible import visible
from headrace.pipeline.terminal.table import duration

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_SIZES = ("B", "kB", "MB", "GB", "TB")


def figure(value: float | None, digits: int = 4) -> str:
    """A number to so many significant digits; thousands separated; a dash for None and NaN."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{places}f}" if places < 10 else f"{value:.{digits - 1}e}"
    return (text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text).replace("-", MINUS)


def score(value: float | None) -> str:
    """A metric: four decimals, or four digits where it is large."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:.4f}".replace("-", MINUS) if abs(value) < 1000 else figure(value)


def change(value: float | None) -> str:
    """A difference, with its sign."""
    text = score(value)
    return f"+{text}" if value is not None and value > 0 and text != NONE else text


def count(value: float | None) -> str:
    """A whole number, thousands separated; a dash for None."""
    return NONE if value is None else f"{value:,.0f}"


def percent(share: float) -> str:
    """A share of 0 to 1: `34 %`, `0.2 %`, `< 0.1 %`, `0 %`; never 0 or 100 for what is not."""
    hundredths = share * 100
    if hundredths in (0, 100):
        return f"{hundredths:.0f} %"
    if 1 <= hundredths < 99:
        return f"{hundredths:.0f} %"
    if hundredths < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if hundredths > 99.9 else f"{hundredths:.1f} %"


def size(octets: int) -> str:
    """`1.4 MB`, in powers of a thousand."""
    value, unit = float(octets), 0
    while value >= 1000 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_SIZES[unit]}" if unit == 0 else f"{value:.1f} {_SIZES[unit]}"


def moment(seconds: float) -> str:
    """Unix seconds in the local time zone, `2026-07-30 12:03:04 +0200`."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))


def soft_breaks(name: str) -> Markup:
    """A long name that may be broken after an underscore."""
    return Markup("_<wbr>").join(visible(name).split("_"))


FILTERS = {
    "soft_breaks": soft_breaks,
    "figure": figure,
    "score": score,
    "change": change,
    "count": count,
    "percent": percent,
    "size": size,
    "moment": moment,
    "duration": duration,
}
