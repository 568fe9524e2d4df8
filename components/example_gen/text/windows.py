"""Windows of words: examples for training a model that tells the next word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH = 1 << 21
"""Bytes of words in a batch."""


@dataclass(frozen=True)
class Windows:
    """All the windows of some texts. `words`: those of all texts, one after the other; `starts` [n]: where among them
    each window starts; `texts` [n]: the text that it is of.
    """

    words: pa.StringArray
    starts: np.ndarray
    texts: np.ndarray
    width: int

    @property
    def size(self) -> int:
        """Bytes of all the words in all the windows, about."""
        return len(self.starts) * (self.width + 1) * self._word_size

    @property
    def _word_size(self) -> int:
        return self.words.nbytes // max(len(self.words), 1)

    def batches(self) -> Iterator[tuple[pa.ListArray, pa.StringArray, np.ndarray]]:
        """(words [n, width], the word after them [n], the number of the text [n]), two megabytes at a time."""
        step = max(BATCH // ((self.width + 1) * max(self._word_size, 1)), 1)
        for first in range(0, len(self.starts), step):
            starts = self.starts[first : first + step]
            places = (starts[:, None] + np.arange(self.width)).ravel()
            offsets = np.arange(len(starts) + 1, dtype=np.int32) * self.width
            windows = pa.ListArray.from_arrays(pa.array(offsets), self.words.take(pa.array(places)))
            yield windows, self.words.take(pa.array(starts + self.width)), self.texts[first : first + step]


def windows(texts: pa.StringArray, width: int, stride: int, *, lowercase: bool) -> Windows:
    """Every window of `width` words that has a word behind it in its own text, `stride` words apart."""
    split = pc.utf8_split_whitespace(pc.utf8_lower(texts) if lowercase else texts)
    offsets = np.asarray(split.offsets)
    counts = np.maximum((np.diff(offsets) - width - 1) // stride + 1, 0)
    own = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Windows(split.values, offsets[:-1][own] + number * stride, own, width)
