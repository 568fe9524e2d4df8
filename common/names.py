"""Names in messages: the closest match to a mistyped one, and lists of those that exist; names in letters of ASCII,
and text on one line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

SIMILAR, VERY_SIMILAR = 0.6, 0.7
"""Ratios of difflib."""
ABBREVIATION = 3
"""Letters that may stand for a longer name."""
FEW = 2
"""Names with a word that begins with such letters, of which the shortest is meant."""


class CommandOption(str):
    """A value of `--set` or `--profile`. Messages name the option then, and the argument of a Python call otherwise."""

    __slots__ = ()


def closest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, ignoring case, dashes, underscores and spaces; None if none is similar.

    If none is very similar, the only one that has the name as one of its words (`one_gpu` for `gpu`, rather than
    `tpu`), that begins with it, or one of whose words does (`binary_accuracy` for `acc`, rather than `auc`).
    """
    normalized = {_normalize(candidate): candidate for candidate in sorted(set(names), reverse=True)}
    wanted = _normalize(name)
    close = get_close_matches(wanted, normalized, n=1, cutoff=SIMILAR)
    if not get_close_matches(wanted, close, cutoff=VERY_SIMILAR) and (longer := _longer(wanted, normalized)):
        return normalized[longer]
    return normalized[close[0]] if close else None


def _longer(wanted: str, normalized: Mapping[str, str]) -> str | None:
    """The name that a shorter one stands for; None if there is none, or no telling which."""
    words = {name: [_normalize(word) for word in _words(full)] for name, full in normalized.items()}
    found = [name for name in normalized if wanted in words[name]]
    if len(found) != 1 and len(wanted) >= ABBREVIATION:
        begun = [name for name in normalized if any(word.startswith(wanted) for word in words[name])]
        whole = [name for name in begun if name.startswith(wanted)]
        found = whole if len(whole) == 1 else sorted(begun, key=len)[:1] if len(begun) <= FEW else []
    return found[0] if len(found) == 1 else None


def latest(newest_first: Sequence[str], most: int = 5) -> str:
    """`the latest are r-1, r-2`, or `the only one is r-1`."""
    if len(newest_first) == 1:
        return f"the only one is {newest_first[0]}"
    return f"the latest are {', '.join(reversed(newest_first[:most]))}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean "epochs"?`, or an empty text if no name is similar."""
    found = closest(name, names)
    return f'; did you mean "{found}"?' if found is not None and found != name else ""


def did_you_mean_or_list(name: str, names: Iterable[str], heading: str) -> str:
    """`; did you mean "epochs"?`, or `; <heading>: a, b, c` with all names if none is similar. They are quoted
    if one of them has a comma.
    """
    every = list(names)
    shown = [f'"{one}"' for one in every] if any("," in one for one in every) else every
    return did_you_mean(name, every) or f"; {heading}: {join_names(shown, 40) or 'none'}"


def join_names(names: Iterable[str], most: int = 12) -> str:
    """`a, b, c`, or `a, b and 7 more` if there are more than `most`."""
    every = list(names)
    rest = f" and {len(every) - most} more" if len(every) > most + 1 else ""
    return ", ".join(every[:most] if rest else every) + rest


def join_or(names: Iterable[object]) -> str:
    """`a, b or c`."""
    *most, last = map(str, names)
    return f"{', '.join(most)} or {last}" if most else last


def one_line(text: str) -> str:
    """The text with a space in place of each line break and control character, for a header, a comment or a line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _words(name: str) -> list[str]:
    return re.split(r"[-_ ]", name)


def _normalize(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "-_ ")


def plain_letters(name: str) -> str:
    """The name with letters of ASCII in place of those with marks: `Grosse` for `Größe`."""
    found = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    return "".join(letter for letter in found if not unicodedata.combining(letter))
