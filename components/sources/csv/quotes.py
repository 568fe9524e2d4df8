"""Where records end in delimited text whose quoted fields may contain line breaks.

The rules are those of pyarrow's reader and of Python's `csv`: a quote opens a quoted field only at the start of a
field; within one, two quotes stand for one; a single quote ends the quoting. So a run of n consecutive quotes changes
the state ("outside" or "inside" quotes) in one of three ways:

    n even                                no change
    n odd, at the start of a field        toggle: outside becomes inside, inside becomes outside
    n odd, elsewhere                      reset: the state becomes outside, whatever it was

These compose: the state at any offset is the parity of the toggles since the last reset, which is a running sum.

A line that starts outside quotes with the character of a comment is a comment, and its quotes change nothing. So the
texts given to these functions must not start within a comment; they may end in one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

NEWLINE, RETURN = 10, 13


@dataclass(frozen=True)
class Dialect:
    """The delimiter, the quote, and what lines that are comments start with: one ASCII character each.

    section: that of the source in the config, for messages.
    """

    delimiter: str
    quote: str
    comment: str | None = None
    section: str = "data.source"


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

    def outside_at_each(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether each line is outside quotes at its start, if those that are do not count (bool [lines]).

        starts, ends: the offsets of the lines, each of which is a comment if it starts outside.
        """
        odd = (self.ends - self.starts) % 2 == 1
        toggles = np.concatenate([[0], np.cumsum(odd & self.at_field_start)]).tolist()
        resets = np.where(odd & ~self.at_field_start, np.arange(1, len(odd) + 1), 0)
        last_resets = np.concatenate([[0], np.maximum.accumulate(resets)]).tolist()
        firsts, nexts = (np.searchsorted(self.starts, edges).tolist() for edges in (starts, ends))
        outside, since, inside = np.zeros(len(starts), bool), 0, self.inside_before
        for line, (first, following) in enumerate(zip(firsts, nexts, strict=True)):
            reset = last_resets[first]
            base, state = (reset, False) if reset > since else (since, inside)
            if (toggles[first] - toggles[base]) % 2 == state:
                outside[line], since, inside = True, following, False
        return outside

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
    found = _runs(letters, quotes, dialect, inside=inside, before=before)
    starts, ends = _comments(letters, found, dialect, before)
    if not len(starts):
        return found
    line = np.searchsorted(starts, quotes, "right") - 1
    within = (line >= 0) & (quotes < ends[line])
    return _runs(letters, quotes[~within], dialect, inside=inside, before=before)


def without_comments(text: bytes, dialect: Dialect) -> bytes:
    """The text, which starts with a record, with line feeds in place of all comments: offsets stay the same."""
    if dialect.comment is None or dialect.comment.encode() not in text:
        return text
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == ord(dialect.quote))
    found = _runs(letters, quotes, dialect, inside=False, before=NEWLINE)
    masked = bytearray(text)
    for start, end in zip(*(edges.tolist() for edges in _comments(letters, found, dialect, NEWLINE)), strict=True):
        masked[start:end] = b"\n" * (end - start)
    return bytes(masked)


def _comments(letters: np.ndarray, found: QuoteRuns, dialect: Dialect, before: int) -> tuple[np.ndarray, np.ndarray]:
    """The start and the end of each comment. found: all runs of quotes, those within comments too."""
    marks = np.flatnonzero(letters == ord(dialect.comment)) if dialect.comment is not None else np.zeros(0, np.int64)
    starts = marks[np.where(marks > 0, letters[marks - 1], before) == NEWLINE] if len(marks) else marks
    if not len(starts):
        return starts, starts
    lines = np.flatnonzero(letters == NEWLINE)
    ends = np.append(lines + 1, len(letters))[np.searchsorted(lines, starts)]
    if len(found.starts):
        outside = found.outside_at_each(starts, ends)
        return starts[outside], ends[outside]
    return (starts[:0], ends[:0]) if found.inside_before else (starts, ends)


def _runs(letters: np.ndarray, quotes: np.ndarray, dialect: Dialect, *, inside: bool, before: int) -> QuoteRuns:
    """The runs of the quotes at some offsets, which are the only ones that count."""
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
    if dialect.quote.encode() not in text:
        return inside
    return quote_runs(text, dialect, inside=inside, before=before).inside_at_end


def count_fields(text: bytes, dialect: Dialect) -> int:
    """The number of fields in `text`, which is a record or the start of one."""
    delimiters = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(dialect.delimiter))
    return 1 + int((~quote_runs(text, dialect).inside_at(delimiters)).sum())
