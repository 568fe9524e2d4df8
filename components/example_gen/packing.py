"""How shards are packed on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from isal import igzip_lib
from zlib_ng import zlib_ng

_GZIP = 16 + zlib_ng.MAX_WBITS

MEMBER = 1 << 20
"""Bytes that are packed together at least."""


class Stream(Protocol):
    """Packs bytes as they come."""

    def compress(self, data: bytes | memoryview, /) -> bytes | memoryview:
        """Packed bytes, perhaps of data given earlier."""

    def flush(self) -> bytes:
        """The packed bytes still held back, and the end mark."""


@dataclass(frozen=True)
class Packing:
    """Compression of the shards: gzip at a level from 1 to 9, or none."""

    compression: Literal["gzip", "none"] = "gzip"
    level: int = 1

    @property
    def ending(self) -> str:
        """What the names of files end in; readers tell from it how to read them."""
        return ".gz" if self.compression == "gzip" else ""

    @property
    def usual_ratio(self) -> float:
        """How much smaller than columns' text and names packed examples usually are, for what is too small to try."""
        return 6 if self.compression == "gzip" else 0.8

    def stream(self) -> Stream:
        """A packer whose bytes depend on the data: no time and no name in the header, and the same matches found on
        every run and in every thread; by ISA-L all but always.
        """
        if self.compression == "none":
            return _Plain()
        return _Fastest() if self.level == 1 else zlib_ng.compressobj(self.level, zlib_ng.DEFLATED, _GZIP)


class _Plain:
    def compress(self, data: bytes | memoryview, /) -> bytes | memoryview:
        return data

    def flush(self) -> bytes:
        return b""


class _Fastest:
    """Intel's ISA-L, half as fast again as zlib-ng's level 1, and smaller: gzip members one behind the other, each
    packed by one call. Of streams, packed by several, a few in a hundred thousand come out in other bytes; of members,
    one has so far.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size, self._started = 0, False

    def compress(self, data: bytes | memoryview, /) -> bytes:
        if not self._held and len(data) >= MEMBER:
            return self._member(data)
        self._held.append(bytes(data))
        self._size += len(data)
        return self._member(b"".join(self._held)) if self._size >= MEMBER else b""

    def flush(self) -> bytes:
        return self._member(b"".join(self._held)) if self._held or not self._started else b""

    def _member(self, data: bytes | memoryview) -> bytes:
        self._held, self._size, self._started = [], 0, True
        return igzip_lib.compress(data, 1, igzip_lib.COMP_GZIP)
