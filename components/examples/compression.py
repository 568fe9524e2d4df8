"""Compression of the shard files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from isal import igzip_lib
from zlib_ng import zlib_ng

_GZIP = 16 + zlib_ng.MAX_WBITS

MEMBER_BYTES = 1 << 20
"""Least number of bytes in a gzip member, other than the last."""


class Compressor(Protocol):
    """Compresses bytes as they come."""

    def compress(self, data: bytes | memoryview, /) -> bytes | memoryview:
        """Compressed bytes, perhaps of data that was given earlier."""

    def flush(self) -> bytes:
        """The compressed bytes still held back, and the end mark."""


@dataclass(frozen=True)
class Compression:
    """Compression of the shard files: gzip at a level from 1 to 9, or none."""

    compression: Literal["gzip", "none"] = "gzip"
    level: int = 1

    @property
    def suffix(self) -> str:
        """The end of the file names; readers infer the compression from it."""
        return ".gz" if self.compression == "gzip" else ""

    @property
    def usual_ratio(self) -> float:
        """The usual ratio of the size of columns, with their names, to that of shard files; for data too small to
        sample.
        """
        return 6 if self.compression == "gzip" else 0.8

    def compressor(self) -> Compressor:
        """A compressor whose output depends on the data alone: the header has no time and no name, and matches are
        found in the same way on every run and in every thread (with ISA-L, almost always).
        """
        if self.compression == "none":
            return _Uncompressed()
        return _IsalGzip() if self.level == 1 else zlib_ng.compressobj(self.level, zlib_ng.DEFLATED, _GZIP)


class _Uncompressed:
    def compress(self, data: bytes | memoryview, /) -> bytes | memoryview:
        return data

    def flush(self) -> bytes:
        return b""


class _IsalGzip:
    """Intel's ISA-L, 1.5 times as fast as level 1 of zlib-ng, with smaller output: gzip members one after the other,
    each compressed by one call. A stream compressed by several calls comes out in different bytes a few times in a
    hundred thousand; of members, one has been seen to.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size, self._started = 0, False

    def compress(self, data: bytes | memoryview, /) -> bytes:
        if not self._held and len(data) >= MEMBER_BYTES:
            return self._member(data)
        self._held.append(bytes(data))
        self._size += len(data)
        return self._member(b"".join(self._held)) if self._size >= MEMBER_BYTES else b""

    def flush(self) -> bytes:
        return self._member(b"".join(self._held)) if self._held or not self._started else b""

    def _member(self, data: bytes | memoryview) -> bytes:
        self._held, self._size, self._started = [], 0, True
        return igzip_lib.compress(data, 1, igzip_lib.COMP_GZIP)
