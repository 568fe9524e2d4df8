"""Where records end in delimited text whose quoted fields may contain line breaks.

The rules are those of pyarrow's reader and of Python's `csv`: a quote opens a quoted field only at the start of a
field; within one, two quotes stand for one; a single quote ends the quoting. So a run of n consecutive quotes changes
the state ("outside" or "inside" quotes) in one of three ways:

    n even                                no change
    n odd, at the start of a field        toggle: outside becomes inside, inside becomes outside
    n odd, elsewhere                      reset: the state becomes outside, whatever it was

These compose: the state at any offset is the parity of the toggles since the last reset, which is a running sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

NEWLINE, RETURN = 10, 13


@dataclass(frozen=True)
class Dialect:
    """The delimiter and the quote, one ASCII character each."""

    delimiter: str
    quote: str


@dataclass(frozen=True)
class QuoteRuns:
    """The runs of quotes in a text.

    starts, ends (int64 [runs]): the offsets of each run; at_field_start (bool [runs]): whether a field can start after
    the byte before the run; inside_after (bool [runs]): whether the text after the run is inside quotes;
    inside_before: whether the text starts inside quotes.
    """

    starts: np.ndarray
    ends: np.ndarray
    at_field_start: np.ndarray
    inside_after: np.ndarray
    inside_before: bool

    def inside_at(self, offsets: np.ndarray) -> np.ndarray:
        """Whether each offset, which must not be that of a quote, is inside quotes."""
        before = np.searchsorted(self.starts, offsets)
        return np.concatenate([[self.inside_before], self.inside_after])[before]

    def bad_close(self, text: bytes, dialect: Dialect) -> int | None:
        """The first run that closes a quoted field although the field continues after it; None if there is none.

        pyarrow's reader appends the rest to the field. But if the opening quote is a stray one, the next quote at the
        start of a field closes it, and everything between the two, even whole records, would become one value.
        """
        closing = np.flatnonzero(~self.inside_after & (self._inside_each() | self.at_field_start))
        closing = closing[: np.searchsorted(self.ends[closing], len(text))]
        after = np.frombuffer(text, np.uint8)[self.ends[closing]]
        bad = (after != ord(dialect.delimiter)) & (after != NEWLINE) & (after != RETURN)
        return int(closing[bad.argmax()]) if bad.any() else None

    def opened_at(self, last: int | None = None) -> int | None:
        """The offset of the quote that opens the field which the run `last` closes or, by default, which the text ends
        in; None if the field starts before the text.
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
    """Whether each letter is one of the wanted ones (bool, like `letters`).

    Works in place: new arrays of the size of a block would cost more time than the comparison.
    """
    found, equal = np.zeros(letters.shape, bool), np.empty(letters.shape, bool)
    for letter in wanted:
        np.equal(letters, letter, out=equal)
        found |= equal
    return found


def quote_runs(text: bytes, dialect: Dialect, *, inside: bool = False, before: int = NEWLINE) -> QuoteRuns:
    """Find the runs of quotes in `text`.

    inside: whether the text starts inside quotes; before: the byte before the text.
    """
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == ord(dialect.quote))
    first = np.flatnonzero(np.diff(quotes, prepend=-2) != 1)
    starts = quotes[first]
    lengths = np.diff(first, append=len(quotes))
    odd = lengths % 2 == 1
    previous = np.where(starts > 0, letters[starts - 1], before) if len(starts) else starts
    opening = is_any(previous, (ord(dialect.delimiter), NEWLINE, RETURN))
    toggles = np.cumsum(odd & opening)
    # The number of toggles up to the last reset before each run; -1 where there was no reset yet.
    at_reset = np.maximum.accumulate(np.where(odd & ~opening, toggles, -1)) if len(starts) else toggles
    inside_after = np.where(at_reset < 0, toggles + inside, toggles - at_reset) % 2 == 1
    return QuoteRuns(starts, starts + lengths, opening, inside_after, inside)


def record_ends(text: bytes, dialect: Dialect, *, inside: bool = False, before: int = NEWLINE) -> np.ndarray:
    """The offset after the line feed of each record of `text`: int64 [records]."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == NEWLINE)
    if dialect.quote.encode() in text:
        ends = ends[~quote_runs(text, dialect, inside=inside, before=before).inside_at(ends)]
    elif inside:
        ends = ends[:0]
    return ends + 1


def last_record_end(text: bytes, found: QuoteRuns | None) -> int:
    """The end of the last whole record of `text`, which starts with a record; 0 if there is none. `found`: the runs of
    quotes in the text; None if it has no quotes.
    """
    if found is None:
        return text.rfind(b"\n") + 1
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == NEWLINE)
    ends = ends[~found.inside_at(ends)]
    return int(ends[-1]) + 1 if len(ends) else 0


def ends_in_quotes(text: bytes, dialect: Dialect, *, inside: bool = False, before: int = NEWLINE) -> bool:
    """Whether `text` ends inside quotes."""
    if dialect.quote.encode() not in text:
        return inside
    return quote_runs(text, dialect, inside=inside, before=before).inside_at_end


def count_fields(text: bytes, dialect: Dialect) -> int:
    """The number of fields in `text`, which is a record or the start of one."""
    delimiters = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(dialect.delimiter))
    return 1 + int((~quote_runs(text, dialect).inside_at(delimiters)).sum())
