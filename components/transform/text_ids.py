"""Numbers of known texts, looked up for many texts at a time.

    ids = TextIds([b"red", b"green"])
    ids.look_up(pa.array([b"green", b"blue"]))      # 1, 2: the number of known texts stands for an unknown one

A Python dictionary takes most of a microsecond for each look-up among many texts, since it follows four pointers into
memory that is in no cache. Here hashes are looked up in two NumPy arrays, and what they find is compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.row_hash import text_hash

Hashes = NDArray[np.uint64]


class TextIds:
    """The place of each text in a list; of a text that occurs several times, the last."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = pa.array(texts, pa.binary())
        hashes = text_hash(self._texts)
        self._places = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._places]
        alike = self._hashes[1:] == self._hashes[:-1]
        self._by_text = {text: place for place, text in enumerate(texts)} if alike.any() else None
        bits = max(1, len(texts).bit_length())
        self._shift = np.uint64(64 - bits)
        edges = np.arange(1 << bits, dtype=np.uint64) << self._shift
        self._starts = np.append(np.searchsorted(self._hashes, edges), len(texts))
        """Where the hashes with the same first bits start: about one of them on average."""

    def __len__(self) -> int:
        return len(self._texts)

    def look_up(self, texts: pa.Array) -> NDArray[np.int64]:
        """The number of each text, `len(self)` if it is not known: int64 [texts]. None of them may be null."""
        unknown, texts = len(self), texts.cast(pa.binary())
        if self._by_text is not None:  # two texts are the same, or have the same hash
            values = texts.to_numpy(zero_copy_only=False).tolist()
            return np.fromiter(map(self._by_text.get, values, repeat(unknown)), np.int64, len(values))
        rows, places = self._found(text_hash(texts))
        same = pc.equal(self._texts.take(pa.array(places)), texts.take(pa.array(rows)))
        confirmed = np.asarray(same)
        ids = np.full(len(texts), unknown, np.int64)
        ids[rows[confirmed]] = places[confirmed]
        return ids

    def _found(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The texts whose hash is known, and the place of the known text that has it."""
        first_bits = (hashes >> self._shift).astype(np.int64)
        at, ends, rows = self._starts[first_bits], self._starts[first_bits + 1], np.arange(len(hashes))
        found, where = [], []
        while True:
            left = at < ends
            rows, at, ends = rows[left], at[left], ends[left]
            if not len(rows):
                break
            match = self._hashes[at] == hashes[rows]
            found.append(rows[match])
            where.append(self._places[at[match]])
            rows, at, ends = rows[~match], at[~match] + 1, ends[~match]
        none = np.zeros(0, np.int64)
        return np.concatenate([none, *found]), np.concatenate([none, *where])
