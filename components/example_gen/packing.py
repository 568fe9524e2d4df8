"""How shards are packed on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from zlib_ng import zlib_ng

_GZIP = 16 + zlib_ng.MAX_WBITS


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
        """A packer whose bytes depend on the data alone: no time and no name in the header, and the same matches found
        on every run and in every thread. Intel's ISA-L is faster still, but not always the same.
        """
        return _Plain() if self.compression == "none" else zlib_ng.compressobj(self.level, zlib_ng.DEFLATED, _GZIP)


class _Plain:
    def compress(self, data: bytes | memoryview, /) -> bytes | memoryview:
        return data

    def flush(self) -> bytes:
        return b""
