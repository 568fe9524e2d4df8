"""Rows of bytes, made of pieces that stand side by side.

    join([Coded.of([b"a", b"b"], which), Fixed((Field(b"=", numbers),))], rows)  ->  pa.BinaryArray

All that occurs anywhere in the rows lies once in one array of byte strings; the rows are that array's values taken in
the rows' order, which copies each byte once and calls nothing for a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.example_gen import checksum
from headrace.components.example_gen.wire import binary, letters_of, offsets_of

SHARE = 8
"""Two neighbours are put together if this many rows, on average, have the same bytes in both."""

Index: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Codes:
    """A few byte strings. `product`: each string of one with each of the other behind it, if they are that."""

    values: pa.BinaryArray
    product: tuple[Codes, Codes] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def sizes(self) -> Index:
        """Of the strings."""
        return np.diff(offsets_of(self.values))

    @cached_property
    def size(self) -> int | None:
        """Of each string, if all have the same."""
        return int(self.sizes[0]) if (self.sizes == self.sizes[0]).all() else None

    @cached_property
    def checks(self) -> checksum.States:
        """What each string adds to a checksum."""
        if self.product is None:
            return np.array([checksum.of_text(value) for value in self.values.to_pylist()], np.uint32)
        left, right = self.product
        every = np.tile(np.arange(len(right)), len(left))
        return checksum.moved_by(np.repeat(left.checks, len(right)), right.sizes, every) ^ right.checks[every]


@dataclass(frozen=True)
class Coded:
    """In each row one of a few byte strings: codes.values[which]."""

    codes: Codes
    which: Index

    @classmethod
    def of(cls, values: Sequence[bytes], which: NDArray[np.integer]) -> Coded:
        """From bytes."""
        return cls(Codes(pa.array(values, pa.binary())), which.astype(np.int32, copy=False))

    @classmethod
    def same(cls, value: bytes, rows: int) -> Coded:
        """The same bytes in every row."""
        return cls.of([value], np.zeros(rows, np.int32))

    @property
    def values(self) -> pa.BinaryArray:
        """All that there are."""
        return self.codes.values

    @property
    def sizes(self) -> Index:
        """Of the values."""
        return self.codes.sizes

    @property
    def lengths(self) -> NDArray[np.integer] | int:
        """Of each row's value."""
        return self.codes.size if self.codes.size is not None else self.sizes.take(self.which)

    def with_next(self, other: Coded) -> Coded | None:
        """Both as one piece, if that has few values too."""
        count, more = len(self.codes), len(other.codes)
        if count * more > max(count, more, len(self.which) // SHARE):
            return None
        which = self.which if more == 1 else other.which if count == 1 else self.which * np.int32(more) + other.which
        return Coded(_product(self.codes, other.codes), which)


@lru_cache(maxsize=64)
def _product(left: Codes, right: Codes) -> Codes:
    before = left.values.take(pa.array(np.repeat(np.arange(len(left)), len(right))))
    behind = right.values.take(pa.array(np.tile(np.arange(len(right)), len(left))))
    return Codes(pc.binary_join_element_wise(before, behind, b""), (left, right))


@dataclass(frozen=True)
class Field:
    """The same bytes in each row, and then as many of each row's own: uint8 [rows, width]."""

    before: bytes
    own: NDArray[np.uint8]

    @property
    def width(self) -> int:
        """Of both."""
        return len(self.before) + self.own.shape[1]


@dataclass(frozen=True)
class Fixed:
    """In each row as many bytes, but for those that are not `valid`, which have the bytes `missing` instead."""

    fields: tuple[Field, ...]
    valid: Mask | None = None
    missing: bytes = b""

    @property
    def width(self) -> int:
        """Of a row."""
        return sum(field.width for field in self.fields)

    @property
    def lengths(self) -> NDArray[np.integer] | int:
        """Of each row's value."""
        return self.width if self.valid is None else np.where(self.valid, self.width, len(self.missing))

    def with_next(self, other: Fixed) -> Fixed | None:
        """Both as one piece, if no row lacks them."""
        return Fixed((*self.fields, *other.fields)) if self.valid is None is other.valid else None

    def write(self, rows: NDArray[np.uint8]) -> None:
        """Into uint8 [rows, width]."""
        empty = b"".join(field.before + bytes(field.own.shape[1]) for field in self.fields)
        rows[:] = np.frombuffer(empty, np.uint8)
        end = 0
        for field in self.fields:
            end += field.width
            _write_columns(rows[:, end - field.own.shape[1] : end], field.own)


@dataclass(frozen=True)
class Varied:
    """In each row any bytes."""

    values: pa.BinaryArray

    @property
    def sizes(self) -> Index:
        """Of the values."""
        return np.diff(offsets_of(self.values))

    @property
    def lengths(self) -> NDArray[np.integer] | int:
        """Of each row's value."""
        return self.sizes


@dataclass(frozen=True)
class Stacked:
    """In each row several of some byte strings one behind the other. which: int32 [rows, strings in a row]."""

    values: pa.BinaryArray
    which: Index

    @cached_property
    def sizes(self) -> Index:
        """Of the values."""
        return np.diff(offsets_of(self.values))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Of each row's strings together."""
        return self.sizes.take(self.which).sum(axis=1, dtype=np.int64)


Single: TypeAlias = Coded | Fixed | Varied
Piece: TypeAlias = Single | Stacked


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours put together where that makes fewer pieces of the same bytes."""
    out: list[Piece] = []
    for piece in pieces:
        both = _both(out[-1], piece) if out else None
        if both is None:
            out.append(piece)
        else:
            out[-1] = both
    return out


def join(pieces: Sequence[Piece], rows: int) -> pa.BinaryArray:
    """The pieces one behind the other, row by row. All have `rows` rows, and there is at least one of each."""
    sizes = [_pool_sizes(piece, rows) for piece in pieces]
    ends = np.cumsum([own.sum() for own in sizes])
    letters = np.frombuffer(pa.allocate_buffer(int(ends[-1])), np.uint8)
    edges = np.cumsum([0, *map(_in_a_row, pieces)])
    which = np.empty((rows, edges[-1]), np.int32)
    first, start, every = 0, 0, np.arange(rows, dtype=np.int32)
    for number, (piece, own, end) in enumerate(zip(pieces, sizes, ends.tolist(), strict=True)):
        _write_pool(piece, letters[start:end], rows)
        places = _pool_places(piece, every) + np.int32(first)
        which[:, edges[number] : edges[number + 1]] = places.reshape(rows, -1)
        first, start = first + len(own), end
    pool = binary(letters, np.concatenate(sizes))
    taken = pc.take(pool, pa.array(which.reshape(-1)), boundscheck=False)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets_of(taken)[:: which.shape[1]].copy()), taken.buffers()[2]]
    )


def _both(left: Piece, right: Piece) -> Piece | None:
    if isinstance(left, Coded) and isinstance(right, Coded):
        return left.with_next(right)
    if isinstance(left, Fixed) and isinstance(right, Fixed):
        return left.with_next(right)
    return None


def _in_a_row(piece: Piece) -> int:
    return piece.which.shape[1] if isinstance(piece, Stacked) else 1


def _pool_sizes(piece: Piece, rows: int) -> NDArray[np.integer]:
    if not isinstance(piece, Fixed):
        return piece.sizes
    sizes = np.full(rows + (piece.valid is not None), piece.width, np.int32)
    if piece.valid is not None:
        sizes[-1] = len(piece.missing)
    return sizes


def _write_pool(piece: Piece, letters: NDArray[np.uint8], rows: int) -> None:
    if isinstance(piece, Fixed):
        size = rows * piece.width
        piece.write(letters[:size].reshape(rows, piece.width))
        letters[size:] = np.frombuffer(piece.missing if piece.valid is not None else b"", np.uint8)
    else:
        letters[:] = letters_of(piece.values)


def _pool_places(piece: Piece, every: Index) -> Index:
    if isinstance(piece, Coded | Stacked):
        return piece.which
    if isinstance(piece, Fixed) and piece.valid is not None:
        return np.where(piece.valid, every, np.int32(len(every)))
    return every


def _write_columns(into: NDArray[np.uint8], own: NDArray[np.uint8]) -> None:
    width = own.shape[1]
    if width in (2, 4, 8) and own.flags.c_contiguous:  # a number at a time
        into.view(f"<u{width}")[:, 0] = own.view(f"<u{width}")[:, 0]
    else:
        for place in range(width):
            into[:, place] = own[:, place]
