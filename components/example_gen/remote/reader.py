"""An object as a stream of bytes, read in ranges."""

from __future__ import annotations

import io
import os
from typing import Any

from headrace.components.example_gen.remote.errors import NO_OBJECT, explained, telling
from headrace.components.example_gen.remote.filesystems import filesystem
from headrace.components.example_gen.remote.place import place_of
from headrace.configs.errors import DataError

FIRST, LARGEST = 1 << 16, 1 << 23
"""Bytes fetched at once: few at first, for a header; twice as many each time that the reading goes on."""

CHANGED = "Run again when nothing writes to it"


def open_object(path: str) -> Any:
    """The object as a pyarrow.NativeFile, which raises OSErrors as pyarrow words them (see `errors.telling`)."""
    place = place_of(path)
    with telling(path):
        return filesystem(place).open_input_file(place.arrow)


def state(path: str) -> tuple[int, str]:
    """Size of the object, and a mark that changes when it does: ETag, generation, or time of change."""
    with open_object(path) as file:
        return file.size(), _mark(file.metadata() or {})


class RemoteFile(io.RawIOBase):
    """A seekable stream. What goes wrong while it is read is a DataError that names the object; so is the object
    changing meanwhile.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.name = path
        self._file = open_object(path)
        self._size: int = self._file.size()
        self._mark = _mark(self._file.metadata() or {})
        self._at = 0
        self._window, self._window_at, self._next = b"", 0, FIRST

    def readable(self) -> bool:
        """As every reader."""
        return True

    def seekable(self) -> bool:
        """Everywhere."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to an offset; costs nothing before the next read."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes, fewer only at the end; all that is left for -1 or None."""
        left = max(self._size - self._at, 0)
        size = left if size is None or size < 0 else min(size, left)
        if size <= 0:
            return b""
        start = self._at - self._window_at
        if not 0 <= start <= len(self._window) - size:
            self._fetch(size)
            start = 0
        self._at += size
        return self._window[start : start + size]

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; returns how many bytes there were."""
        view = memoryview(buffer).cast("B")
        found = self.read(len(view))
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Let go of the connection."""
        if not self.closed:
            self._window = b""
            self._file.close()
        super().close()

    def _fetch(self, size: int) -> None:
        """Make `_window` start at `_at` and hold at least `size` bytes."""
        goes_on = self._at == self._window_at + len(self._window)
        self._next = min(self._next * 2, LARGEST) if goes_on and self._window else FIRST
        wanted = min(max(size, self._next), self._size - self._at)
        try:
            self._file.seek(self._at)
            found = self._file.read(wanted)
        except OSError as error:
            self._check()
            done = f"after {self._at:,} of {self._size:,} bytes"
            why = explained(error, self.name)
            raise DataError(f"the reading broke off {done}: {why.what}", file=self.name, hint=why.hint) from error
        if len(found) < wanted or (self._at > 0 and self._at + wanted == self._size):
            self._check()
        if len(found) < wanted:
            raise DataError(f"ends after {self._at + len(found):,} of {self._size:,} bytes", file=self.name)
        self._window, self._window_at = found, self._at

    def _check(self) -> None:
        """Raise DataError if the object is no longer the one that was opened."""
        try:
            now = state(self.name)
        except DataError as error:
            if error.what != NO_OBJECT:
                return
            raise DataError("the object vanished while it was read", file=self.name, hint=CHANGED) from None
        if now != (self._size, self._mark):
            raise DataError("the object changed while it was read", file=self.name, hint=CHANGED)


def _mark(metadata: dict[str, bytes]) -> str:
    own = {name.lower(): value.decode(errors="replace") for name, value in metadata.items()}
    return own.get("generation") or own.get("etag", "").strip('"') or own.get("last-modified", "")
