"""Names in messages: the closest match to a mistyped one, and lists of those that exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CommandOption(str):
    """A value of `--set` or `--profile`. Messages name the option then, and the argument of a Python call otherwise."""

    __slots__ = ()


def closest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, ignoring case, dashes, underscores and spaces; None if none is similar."""
    normalized = {_normalize(candidate): candidate for candidate in sorted(set(names), reverse=True)}
    close = get_close_matches(_normalize(name), normalized, n=1, cutoff=0.6)
    return normalized[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean "epochs"?`, or an empty text if no name is similar."""
    found = closest(name, names)
    return f'; did you mean "{found}"?' if found is not None and found != name else ""


def did_you_mean_or_list(name: str, names: Iterable[str], heading: str) -> str:
    """`; did you mean "epochs"?`, or `; <heading>: a, b, c` with all names if none is similar."""
    every = list(names)
    return did_you_mean(name, every) or f"; {heading}: {join_names(every, 40) or 'none'}"


def join_names(names: Iterable[str], most: int = 12) -> str:
    """`a, b, c`, or `a, b and 7 more` if there are more than `most`."""
    every = list(names)
    rest = f" and {len(every) - most} more" if len(every) > most + 1 else ""
    return ", ".join(every[:most] if rest else every) + rest


def join_or(names: Iterable[object]) -> str:
    """`a, b or c`."""
    *most, last = map(str, names)
    return f"{', '.join(most)} or {last}" if most else last


def _normalize(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "-_ ")
