"""A gzip file that may have been cut off, read to its very end."""

from __future__ import annotations

from typing import Any, BinaryIO

from zlib_ng import zlib_ng

_GZIP = 16 + 15
_CHUNK = 1 << 18


class Unpacked:
    """The unpacked bytes of gzip members one after the other.

    gzip's own readers raise EOFError where the data ends too early, and what they had unpacked by then is lost. Here it
    is read, and then `cut_off` is True.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder: Any = zlib_ng.decompressobj(_GZIP)
        self._packed, self._inside = b"", False
        self.cut_off = False

    def read(self, size: int) -> bytes:
        """Some bytes, `size` at most; none at the end. Raises zlib_ng.error for what is no gzip data."""
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
        """Step over the first `offset` bytes; only before the first `read`."""
        while offset > 0 and (text := self.read(min(offset, _CHUNK))):
            offset -= len(text)

    def _next_member(self) -> bool:
        """Whether another member follows; zeros between members are padding."""
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest and (more := self._stream.read(_CHUNK)):
            rest = more.lstrip(b"\0")
        self._decoder, self._packed, self._inside = zlib_ng.decompressobj(_GZIP), rest, False
        return bool(rest)
