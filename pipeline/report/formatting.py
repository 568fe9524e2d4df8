"""How numbers and text are formatted on the page.

Some characters in data and configs are invisible, and some change the direction of the text after them: after U+202E,
`gpj.exe` reads `exe.jpg`. Both are shown as escapes.
"""

from __future__ import annotations

import math
import re
import time

from markupsafe import Markup, escape

from headrace.common import figures
from headrace.common.credentials import redact
from headrace.pipeline.terminal.table import duration

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
EMPTY = "(empty)"
_UNITS = ("B", "kB", "MB", "GB", "TB")

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tabs and line ends, bidirectional controls, and unpaired surrogates."""
_INVISIBLE = re.compile(_CONTROLS.pattern.replace("[", "[\t\n\r\xad\u061c\u180e\u200b\u200e\u200f\u2060-\u2065\ufeff"))
"""In a value of a column also tabs, line ends and zero-width characters; joiners stay, as some scripts need them."""
_CODE = re.compile("`([^`\n]+)`")
_BLANK = re.compile(r"^\s|\s$|\s\s")


def figure(value: float | None, digits: int = 4) -> str:
    """As `figures.figure`, with a minus sign for a hyphen; a dash for None, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return NONE
    return figures.figure(value, digits).replace("-", MINUS)


def common_digits(low: float, high: float) -> int:
    """About how many first digits two different numbers have in common."""
    return math.ceil(math.log10(max(abs(low), abs(high)) / (high - low)))


def short(value: float) -> str:
    """Format the tick of an axis: `0.25`, `1,500`, `250 k`, `1.5 M`; from 10,000 T up, `1e+16`."""
    if abs(value) >= 1e16:
        return f"{value:.6g}".replace("-", MINUS)
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 10_000):
            return f"{figure(value / size, 6)} {unit}"
    return figure(value, 6)


def score(value: float | None) -> str:
    """Format a metric with four decimals, without a sign for 0.0000, or with four significant digits from 1000 up."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:z.4f}".replace("-", MINUS) if abs(value) < 1000 else figure(value)


def change(value: float | None) -> str:
    """Format a difference between two metrics, with its sign unless it rounds to 0."""
    text = score(value)
    return f"+{text}" if value is not None and value > 0 and text not in (NONE, score(0)) else text


def interval(ends: tuple[float, float] | None) -> str:
    """Format a confidence interval; a dash for None."""
    return NONE if ends is None else f"{score(ends[0])} to {score(ends[1])}"


def count(value: float | None) -> str:
    """Format an integer with thousands separators; a dash for None."""
    return NONE if value is None else f"{value:,.0f}"


def percent(share: float) -> str:
    """Format a fraction (0 to 1) as `34%`, `0.2%` or `< 0.1%`; only an exact 0 or 1 is shown as `0%` or `100%`."""
    hundredths = share * 100
    if hundredths in (0, 100):
        return f"{hundredths:.0f}%"
    if 1 <= hundredths < 99:
        return f"{hundredths:.0f}%"
    if hundredths < 0.1:
        return "< 0.1%"
    return "> 99.9%" if hundredths > 99.9 else f"{hundredths:.1f}%"


def size(number: int) -> str:
    """Format bytes in powers of 1000, such as `1.4 MB`."""
    value, unit = float(number), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def moment(seconds: float) -> str:
    """Format Unix seconds in the local time zone: `2026-07-30 12:03:04 +0200`."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))


def soft_breaks(name: str) -> Markup:
    """Let a long name break after each underscore."""
    return Markup("_<wbr>").join(visible(name).split("_"))


def with_code(text: str) -> Markup:
    """Escape a sentence, without credentials, and set what it has in backticks, such as a setting, as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(visible(redact(text))))))  # noqa: S704 - escaped here


def visible(text: str) -> str:
    r"""Replace characters that hide or redirect others with escapes such as `\u202e`."""
    return _CONTROLS.sub(_escape, text)


def value_in_words(value: str) -> str:
    """Format a value of a column: `(empty)` for the empty string, quoted if its whitespace would be overlooked."""
    if not value:
        return EMPTY
    shown = _INVISIBLE.sub(_escape, value)
    return f'"{shown}"' if _BLANK.search(value) else shown


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


FILTERS = {
    "soft_breaks": soft_breaks,
    "with_code": with_code,
    "figure": figure,
    "score": score,
    "interval": interval,
    "change": change,
    "count": count,
    "percent": percent,
    "size": size,
    "moment": moment,
    "duration": duration,
}
"""The filters of the templates."""
