"""Text from data and configs, written so that a reader sees what it holds.

Some characters cannot be seen, and some turn what follows them: after U+202E, `gpj.exe` reads `exe.jpg`.
"""

from __future__ import annotations

import re

EMPTY = "(empty)"

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls but for tabs and the ends of lines, what turns text from left to right or back, halves of characters."""
_UNSEEN = re.compile(_CONTROLS.pattern.replace("[", "[\t\n\r\xad\u061c\u180e\u200b\u200e\u200f\u2060-\u2065\ufeff"))
"""In a value of a column also blanks that are no spaces, and what has no width; joiners stay, as scripts need them."""
_BLANK = re.compile(r"^\s|\s$|\s\s")


def visible(text: str) -> str:
    r"""The text with escapes such as `\u202e` for characters that hide or turn others."""
    return _CONTROLS.sub(_escape, text)


def value_in_words(value: str) -> str:
    """A value of a column: (empty) where it is, and in quotes where its spaces could not be seen."""
    if not value:
        return EMPTY
    shown = _UNSEEN.sub(_escape, value)
    return f'"{shown}"' if _BLANK.search(value) else shown


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
