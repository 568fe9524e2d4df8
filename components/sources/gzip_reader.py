"""Reading a gzip file to its very end, even if it is truncated."""

from __future__ import annotations

from typing import Any, BinaryIO

from zlib_ng import zlib_ng

_GZIP = 16 + 15
_CHUNK = 1 << 18


class GzipReader:
    """The decompressed bytes of concatenated gzip members.

    The readers of the standard library raise EOFError if the data ends early, and lose what they had decompressed by
    then. Here it is returned, and `cut_off` is True afterwards.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: Any = zlib_ng.decompressobj(_GZIP)
        self._packed, self._inside = b"", False
        self.cut_off = False

    def read(self, size: int) -> bytes:
        """Some bytes, at most `size`; none at the end. Raises zlib_ng.error for data that is not gzip."""
        while not self.cut_off:
            if self._decoder.eof and not self._next_member():
                return b""
            packed = self._packed or self._stream.read(_CHUNK)
            if not packed:
                self.cut_off = self._inside
                return b""
            self._inside = True
            text = self._decoder.decompress(packed, size)
            self._packed = self._decoder.unconsumed_tail
            if text:
                return bytes(text)
        return b""

    def seek(self, offset: int) -> None:
        """Skip the first `offset` bytes; only before the first `read`."""
        while offset > 0 and (text := self.read(min(offset, _CHUNK))):
            offset -= len(text)

    def _next_member(self) -> bool:
        """Whether another member follows; zeros between members are padding."""
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest and (more := self._stream.read(_CHUNK)):
            rest = more.lstrip(b"\0")
        self._decoder, self._packed, self._inside = zlib_ng.decompressobj(_GZIP), rest, False
        return bool(rest)
