"""Compression of the shard files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from isal import isal_zlib
from zlib_ng import zlib_ng

_GZIP = 16 + zlib_ng.MAX_WBITS

_HEAD = 8
"""Bytes that ISA-L compresses on their own at the start of a stream."""


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
        found in the same way on every run and in every thread.
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
    """Intel's ISA-L, 1.5 times as fast as level 1 of zlib-ng, with smaller output.

    Its fast loop takes the hash of a stream's third byte from a register that still holds an address on the stack
    (`.write_first_byte` in igzip_icf_body_h1_gr_bt.asm, as of 2.32), so that of short texts one in a hundred came out
    in other bytes in another thread. The loop for the last 16 bytes of a block does not: given a block of their own,
    the first bytes go through that one, at a cost of 5 bytes.
    """

    def __init__(self) -> None:
        self._stream, self._head = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP), b""

    def compress(self, data: bytes | memoryview, /) -> bytes:
        if len(self._head) == _HEAD:
            return self._stream.compress(data)
        missing = _HEAD - len(self._head)
        self._head += bytes(data[:missing])
        if len(self._head) < _HEAD:
            return b""
        first = self._stream.compress(self._head) + self._stream.flush(isal_zlib.Z_SYNC_FLUSH)
        return first + self._stream.compress(data[missing:])

    def flush(self) -> bytes:
        return (self._stream.compress(self._head) if len(self._head) < _HEAD else b"") + self._stream.flush()
