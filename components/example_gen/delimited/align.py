"""Cutting large plain files into segments between records, in parallel.

Where a record ends depends on all the quotes before it. So each range of a file is looked at for both states that it
may start in, which is one fast pass over its bytes; putting the ranges together in order then tells which state was
true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.components.example_gen.delimited.blocks import Segment, chunks, unclosed
from headrace.components.example_gen.delimited.quotes import Dialect, ends_inside, record_ends


@dataclass(frozen=True)
class Range:
    """The bytes from `start` to `end` of a file, cut without regard to records."""

    path: str
    start: int
    end: int
    first: bool = False
    """Whether it starts where the file's rows start."""


@dataclass(frozen=True)
class Seen:
    """What a range does, for one state at its start: where its first record starts, and the state at its end."""

    first_record: int | None
    inside_at_end: bool


def ranges(path: str, start: int, size: int, length: int) -> list[Range]:
    """The `size` bytes from `start` on in ranges of about `length` bytes; at least one, which may be empty."""
    count = max(1, round(size / length))
    cuts = [start + size * number // count for number in range(count + 1)]
    return [Range(path, *cut, first=not number) for number, cut in enumerate(pairwise(cuts))]


def look(piece: Range, dialect: Dialect) -> tuple[Seen, Seen]:
    """What the range does if it starts outside quotes, and if it starts inside."""
    firsts: list[int | None] = [None, None]
    states = [False, True]
    for offset, before, text in chunks(piece.path, piece.start, piece.end, dialect, first=piece.first):
        for which in (0, 1):
            if firsts[which] is None:
                ends = record_ends(text, dialect, inside=states[which], before=before)
                firsts[which] = offset + int(ends[0]) if len(ends) else None
        after = {state: ends_inside(text, dialect, inside=state, before=before) for state in set(states)}
        states = [after[state] for state in states]
    return Seen(firsts[0], states[0]), Seen(firsts[1], states[1])


def segments(pieces: Sequence[Range], seen: Sequence[tuple[Seen, Seen]], dialect: Dialect) -> list[Segment]:
    """The ranges of one file as segments of whole records. Raises DataError if a quote never closes."""
    path, starts, inside = pieces[0].path, [pieces[0].start], False
    for number, both in enumerate(seen):
        true = both[inside]
        if number and true.first_record is not None:
            starts.append(true.first_record)
        inside = true.inside_at_end
    if inside:
        raise unclosed(path, pieces[0].start, dialect)
    stops = [*starts[1:], pieces[-1].end]
    return [Segment(path, start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop]
