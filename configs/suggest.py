"""The name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` closest to a mistyped one, blind to case, dashes, underscores and spaces; None if none is."""
    plain = {_plain(candidate): candidate for candidate in sorted(set(names), reverse=True)}
    close = get_close_matches(_plain(name), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean "epochs"?`, or nothing where no name is close."""
    found = nearest(name, names)
    return f'; did you mean "{found}"?' if found is not None and found != name else ""


def meant(name: str, names: Iterable[str], otherwise: str) -> str:
    """`; did you mean "epochs"?`; where no name is close, `; <otherwise>: a, b, c` with all of them."""
    every = list(names)
    return did_you_mean(name, every) or f"; {otherwise}: {listed(every, 40) or 'nothing'}"


def listed(names: Iterable[str], most: int = 12) -> str:
    """`a, b, c`, cut short where there are many."""
    every = list(names)
    rest = f" and {len(every) - most} more" if len(every) > most + 1 else ""
    return ", ".join(every[:most] if rest else every) + rest


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "-_ ")
