"""CRC32C of rows that are made of pieces, from the pieces' own, without a loop over rows (see `checksum`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headrace.components.example_gen import checksum
from headrace.components.example_gen.pieces import Coded, Fixed, Piece, Single, Stacked, Varied
from headrace.components.example_gen.stacks import FEW_ROWS
from headrace.components.example_gen.wire import letters_of, offsets_of

SHORT = 10
"""Bytes of a varied value up to which its checksum is made byte by byte, for all rows at once."""

MOST_SIZES = 256
"""Different lengths of a piece, each of which needs a table."""


def states(pieces: Sequence[Piece], rows: int) -> checksum.States | None:
    """The state of a CRC32C behind the last piece: uint32 [rows]; None where it is quicker made of the joined rows: for
    few rows, the calls for each piece cost more than to read each joined byte once more.

    A run of pieces of which only the first varies in length is stepped over at once.
    """
    alone = [piece for piece in pieces if not isinstance(piece, Stacked)]
    if rows < FEW_ROWS or len(alone) < len(pieces) or not all(map(_is_short, alone)):
        return None
    state = np.full(rows, checksum.START, np.uint32)
    for run in _runs(alone):
        following = sum(int(piece.lengths) for piece in run[1:])
        state = _moved(run[0], following, state)
        state ^= _added(run[0], following)
        for piece in run[1:]:
            following -= int(piece.lengths)
            state ^= _added(piece, following)
    return state


def _runs(pieces: Sequence[Single]) -> Iterator[list[Single]]:
    """Neighbours, of which all but the first take as many bytes in each row."""
    run: list[Single] = []
    for piece in pieces:
        if run and not isinstance(piece.lengths, int):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def _is_short(piece: Single) -> bool:
    sizes = piece.sizes if not isinstance(piece, Fixed) else np.zeros(0, np.int32)
    if isinstance(piece, Varied):
        return int(sizes.max(initial=0)) <= SHORT
    return len(sizes) <= MOST_SIZES or len(np.unique(sizes)) <= MOST_SIZES


def _moved(piece: Single, following: int, before: checksum.States) -> checksum.States:
    """The states over as many bytes of zeros as the piece has, and `following` more."""
    if isinstance(piece, Coded):
        return checksum.moved_by(before, piece.sizes + following, piece.which)
    if isinstance(piece, Varied):
        return checksum.moved_by(before, np.arange(SHORT + 1) + following, piece.sizes)
    out = checksum.moved(before, piece.width + following)
    if piece.valid is not None:
        rows = np.flatnonzero(~piece.valid)
        out[rows] = checksum.moved(before[rows], len(piece.missing) + following)
    return out


def _added(piece: Single, following: int) -> checksum.States:
    """What the bytes of the piece add to the states `following` bytes behind it."""
    if isinstance(piece, Coded):
        return checksum.moved(piece.codes.checks, following).take(piece.which)
    if isinstance(piece, Varied):
        return checksum.moved(_added_by_varied(piece), following)
    out, behind = np.zeros(1, np.uint32), following + piece.width
    for field in piece.fields:
        behind -= field.width
        out = out ^ checksum.of_text_before(field.before, behind + field.own.shape[1])
        if field.own.shape[1]:
            out = out ^ checksum.of_bytes(field.own, behind)
    return out if piece.valid is None else np.where(piece.valid, out, checksum.of_text_before(piece.missing, following))


def _added_by_varied(piece: Varied) -> checksum.States:
    letters, offsets = letters_of(piece.values), offsets_of(piece.values)
    starts, sizes, step = offsets[:-1] - offsets[0], piece.sizes, checksum.after(1)[0]
    state = np.zeros(len(sizes), np.uint32)
    for place in range(int(sizes.max(initial=0))):
        own = letters.take(starts + place, mode="clip")
        state = np.where(sizes > place, step.take((state & 255) ^ own) ^ (state >> np.uint32(8)), state)
    return state
