"""Dividing the data into parts of similar size, which depend on the data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

MOST_PARTS = 64
SMALLEST_PART, LARGEST_PART = 1 << 24, 1 << 29
"""Bytes of a part. Few parts, because each contributes a chunk to every partition of every shard."""

Piece = TypeVar("Piece")

MANY_COLUMNS, OF_A_COLUMN = 1000, 2 << 10
"""From this many columns on, at least this many bytes of each column are processed at a time: a call for a column costs
as much as a few hundred values."""
NAMED = 4 * OF_A_COLUMN
"""The same for formats that repeat the column's name with each value."""


@dataclass(frozen=True)
class PartOfSplit:
    """A part of the data of a split that has its own."""

    split: str
    part: Any


def split_of_part(part: object) -> str:
    """The split that has a part; "" if splits have no data of their own."""
    return part.split if isinstance(part, PartOfSplit) else ""


def room(size: int, columns: int, of_a_column: int = OF_A_COLUMN) -> int:
    """Bytes to process at a time: `size`, or more if many columns would otherwise have few values each.

    Otherwise the number of calls, one for each column and each `size` bytes, would grow with the square of the columns.
    """
    return size if columns < MANY_COLUMNS else max(size, columns * of_a_column)


def part_length(size: int, columns: int = 1, of_a_column: int = OF_A_COLUMN) -> int:
    """The target size of a part, in bytes, for data of `size` bytes with this many columns."""
    return min(max(size // MOST_PARTS, room(SMALLEST_PART, columns, of_a_column)), LARGEST_PART)


def cut(size: int, length: int) -> list[tuple[int, int | None]]:
    """`size` bytes cut into ranges of about `length` bytes, as (start, end); the last has no end."""
    number = max(round(size / length), 1)
    starts = [place * size // number for place in range(number)]
    return list(zip(starts, [*starts[1:], None], strict=True))


def grouped(pieces: Sequence[Piece], sizes: Sequence[int], length: int) -> list[tuple[Piece, ...]]:
    """Adjacent pieces grouped into parts of about `length` bytes."""
    parts: list[tuple[Piece, ...]] = []
    group: list[Piece] = []
    held = 0
    for piece, size in zip(pieces, sizes, strict=True):
        if group and held + size > length * 1.1:
            parts.append(tuple(group))
            group, held = [], 0
        group.append(piece)
        held += size
    return [*parts, tuple(group)] if group else parts


def files_of_part(part: object) -> str | None:
    """The file that a part is read from, or "first to last" if there are several; None if it has no files."""
    part = part.part if isinstance(part, PartOfSplit) else part
    pieces = part if isinstance(part, tuple) else getattr(part, "pieces", (part,))
    paths = list(dict.fromkeys(str(piece.path) for piece in pieces if hasattr(piece, "path")))
    return f"{paths[0]} to {paths[-1]}" if len(paths) > 1 else next(iter(paths), None)
