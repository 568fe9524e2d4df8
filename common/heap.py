"""Gives back to the system what the C library's heap holds free between pieces that are in use.

    trim = HeapTrim(every=16)
    for batch in batches:
        ...
        trim.count()

Statistics of 2 million rows of 12 numbers and 3 texts held 27 MB after a tenth of the rows and 101 MB at their end, of
which 67 MB were free: small objects that stay, between large ones that come and go, keep glibc from returning them.
"""

from __future__ import annotations

import ctypes
from functools import cache


class HeapTrim:
    """Trims the heap each time so many batches have been counted, in whatever threads. Without glibc it does nothing.

    every: batches between two trims, each of which takes about 2 ms.
    """

    def __init__(self, every: int) -> None:
        self._every, self._counted = every, 0

    def count(self) -> None:
        self._counted += 1
        if self._counted % self._every == 0:
            trim_heap()


def trim_heap() -> None:
    """Return the free pages of the heap to the system."""
    if trim := _malloc_trim():
        trim(0)


@cache
def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
