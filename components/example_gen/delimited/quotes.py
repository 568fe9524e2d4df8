"""Where records end in delimited text, when quoted fields may hold line breaks.

The rules are those of pyarrow's reader and of Python's `csv`: a quote opens a quoted field only at the start of a
field; inside, two quotes stand for one; a single one ends the quoting. So a run of n quotes side by side acts on the
state ("outside" or "inside" quotes) in one of three ways:

    n even                                nothing
    n odd, at the start of a field        outside becomes inside, inside becomes outside
    n odd, elsewhere                      the state becomes outside, whatever it was

These compose, so the state at any place is the number of turns since the last reset, which is a running sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

NEWLINE, RETURN = 10, 13


@dataclass(frozen=True)
class Dialect:
    """One ASCII character each."""

    delimiter: str
    quote: str


@dataclass(frozen=True)
class Runs:
    """The runs of quotes in a text, each with its start and end.

    at_field_start: the byte before it lets a field start; inside_after: the text after it is inside quotes (bool
    [runs]); inside_before: the text starts inside quotes.
    """

    starts: np.ndarray
    ends: np.ndarray
    at_field_start: np.ndarray
    inside_after: np.ndarray
    inside_before: bool

    def inside_at(self, places: np.ndarray) -> np.ndarray:
        """Whether each place (not a quote itself) is inside quotes."""
        before = np.searchsorted(self.starts, places)
        return np.concatenate([[self.inside_before], self.inside_after])[before]

    def bad_close(self, text: bytes, dialect: Dialect) -> int | None:
        """The first run of `text` that closes a field which goes on after it; None if there is none.

        pyarrow's reader joins the rest to the field. But where a single quote stands at the start of a field, the next
        one that does closes it, and all between them, whole records even, would be swallowed.
        """
        closing = np.flatnonzero(~self.inside_after & (self._inside_each() | self.at_field_start))
        closing = closing[: np.searchsorted(self.ends[closing], len(text))]
        after = np.frombuffer(text, np.uint8)[self.ends[closing]]
        bad = (after != ord(dialect.delimiter)) & (after != NEWLINE) & (after != RETURN)
        return int(closing[bad.argmax()]) if bad.any() else None

    def opened_at(self, last: int | None = None) -> int | None:
        """Where the quotes were opened that the run `last` closes or, by default, that the text ends in; None: before
        the text.
        """
        opening = np.flatnonzero(~self._inside_each() & self.at_field_start)
        opening = opening if last is None else opening[opening <= last]
        return int(self.starts[opening[-1]]) if len(opening) else None

    def _inside_each(self) -> np.ndarray:
        """Whether the text just before each run is inside quotes."""
        return np.concatenate([[self.inside_before], self.inside_after])[:-1]

    @property
    def inside_at_end(self) -> bool:
        """Whether the text ends inside quotes."""
        return bool(self.inside_after[-1]) if len(self.inside_after) else self.inside_before


def is_any(letters: np.ndarray, wanted: Iterable[int]) -> np.ndarray:
    """Where `letters` is one of a few: bool. In place, as new memory for a whole block costs more than the work."""
    found, equal = np.zeros(letters.shape, bool), np.empty(letters.shape, bool)
    for letter in wanted:
        np.equal(letters, letter, out=equal)
        found |= equal
    return found


def runs(text: bytes, dialect: Dialect, *, inside: bool = False, before: int = NEWLINE) -> Runs:
    """The runs of quotes in `text`, which starts in the state `inside` after the byte `before`."""
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == ord(dialect.quote))
    first = np.flatnonzero(np.diff(quotes, prepend=-2) != 1)
    starts = quotes[first]
    lengths = np.diff(first, append=len(quotes))
    odd = lengths % 2 == 1
    previous = np.where(starts > 0, letters[starts - 1], before) if len(starts) else starts
    opening = is_any(previous, (ord(dialect.delimiter), NEWLINE, RETURN))
    turns = np.cumsum(odd & opening)
    since = np.maximum.accumulate(np.where(odd & ~opening, turns, -1)) if len(starts) else turns
    inside_after = np.where(since < 0, turns + inside, turns - since) % 2 == 1
    return Runs(starts, starts + lengths, opening, inside_after, inside)


def record_ends(text: bytes, dialect: Dialect, *, inside: bool = False, before: int = NEWLINE) -> np.ndarray:
    """Where each record of `text` ends, just after its line feed: int64 [records]."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == NEWLINE)
    if dialect.quote.encode() in text:
        ends = ends[~runs(text, dialect, inside=inside, before=before).inside_at(ends)]
    elif inside:
        ends = ends[:0]
    return ends + 1


def last_record_end(text: bytes, found: Runs | None) -> int:
    """Where the last whole record of `text` ends, which starts with a record; 0 if there is none. found: its runs, if
    it has quotes.
    """
    if found is None:
        return text.rfind(b"\n") + 1
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == NEWLINE)
    ends = ends[~found.inside_at(ends)]
    return int(ends[-1]) + 1 if len(ends) else 0


def ends_inside(text: bytes, dialect: Dialect, *, inside: bool = False, before: int = NEWLINE) -> bool:
    """Whether `text` ends inside quotes."""
    if dialect.quote.encode() not in text:
        return inside
    return runs(text, dialect, inside=inside, before=before).inside_at_end


def fields(text: bytes, dialect: Dialect) -> int:
    """How many fields `text` has, which is a record or starts one."""
    delimiters = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(dialect.delimiter))
    return 1 + int((~runs(text, dialect).inside_at(delimiters)).sum())
