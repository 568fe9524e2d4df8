"""An object as a seekable stream of bytes, read in ranges."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.common.errors import DataError
from headrace.common.storage.errors import NO_OBJECT, object_error, object_errors
from headrace.common.storage.filesystems import filesystem, parse_location

FIRST, LARGEST = 1 << 16, 1 << 23
"""Bytes fetched at once: few at first, for a header, and twice as many each time that reading continues."""

CHANGED = "Run again when nothing writes to it"
READS = 20
"""How often `read_whole` reads an object that is replaced meanwhile."""
Content = TypeVar("Content")


def open_object(path: str) -> Any:
    """The object as a pyarrow.NativeFile, which raises pyarrow's OSErrors (see `errors.object_errors`)."""
    location = parse_location(path)
    with object_errors(path):
        return filesystem(location).open_input_file(location.arrow)


def object_state(path: str) -> tuple[int, str]:
    """The size of an object, and a mark that changes when it does: generation, ETag, or time of change."""
    with open_object(path) as file:
        return file.size(), object_mark(file)


def read_whole(system: Any, path: str, consume: Callable[[Any], Content]) -> Content:
    """What `consume` makes of a file's stream, from its start to its end, also if the file is replaced meanwhile.

    Of S3, PyArrow asks for the size, and then for that many bytes of what has the name by then: the start of a longer
    file, or parts of two. So a file that has another ETag or time afterwards is read again; the time, in seconds, tells
    of another content that was there in between. Raises OSError.
    """
    for _ in range(READS):
        # Without `compression=None`, PyArrow decompresses files named *.gz.
        with system.open_input_stream(path, compression=None) as stream:
            mark, failure = _whole_mark(stream), None
            try:
                content = consume(stream)
            except OSError as error:  # perhaps as the file is shorter now
                failure = error
        with system.open_input_stream(path, compression=None) as now:
            is_unchanged = _whole_mark(now) == mark
        if is_unchanged and failure is not None:
            raise failure
        if is_unchanged:
            return content
    raise OSError(f"{path} was replaced {READS} times while it was read. {CHANGED}")


def _whole_mark(stream: Any) -> tuple[str, str]:
    """The mark of an object and, of S3, when it was written."""
    metadata: dict[str, bytes] = stream.metadata() or {}
    times = [value.decode(errors="replace") for name, value in metadata.items() if name.lower() == "last-modified"]
    return object_mark(stream), "".join(times)


class RemoteFile(io.RawIOBase):
    """A seekable stream. Errors while it is read, and changes of the object meanwhile, are DataErrors that name it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.name = path
        self._file = open_object(path)
        self._size: int = self._file.size()
        self._mark = object_mark(self._file)
        self._at = 0
        self._window, self._window_at, self._next = b"", 0, FIRST

    def readable(self) -> bool:
        """Whether the stream can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether the stream can seek: always."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset. Nothing is fetched before the next read."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """`size` bytes, or fewer at the end; all the remaining bytes for -1 or None."""
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
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer and return the number of bytes read, which is smaller only at the end."""
        view = memoryview(buffer).cast("B")
        found = self.read(len(view))
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._window = b""
            self._file.close()
        super().close()

    def _fetch(self, size: int) -> None:
        """Make `_window` start at `_at` and contain at least `size` bytes."""
        continues = self._at == self._window_at + len(self._window)
        self._next = min(self._next * 2, LARGEST) if continues and self._window else FIRST
        wanted = min(max(size, self._next), self._size - self._at)
        try:
            self._file.seek(self._at)
            found = self._file.read(wanted)
        except OSError as error:
            self._check()
            progress = f"after {self._at:,} of {self._size:,} bytes"
            cause = object_error(error, self.name)
            raise DataError(f"reading failed {progress}: {cause.what}", file=self.name, hint=cause.hint) from error
        if len(found) < wanted or self._at + wanted == self._size:  # it has the size of one object, bytes of another
            self._check()
        if len(found) < wanted:
            raise DataError(f"ends after {self._at + len(found):,} of {self._size:,} bytes", file=self.name)
        self._window, self._window_at = found, self._at

    def _check(self) -> None:
        """Raise DataError if the object has changed since it was opened."""
        try:
            now = object_state(self.name)
        except DataError as error:
            if error.what != NO_OBJECT:
                return
            raise DataError("the object vanished while it was read", file=self.name, hint=CHANGED) from None
        if now != (self._size, self._mark):
            raise DataError("the object changed while it was read", file=self.name, hint=CHANGED)


def object_mark(file: Any) -> str:
    """What tells an open pyarrow.NativeFile from a later object of that name; "" for a file of this machine."""
    metadata: dict[str, bytes] = file.metadata() or {}
    values = {name.lower(): value.decode(errors="replace") for name, value in metadata.items()}
    return values.get("generation") or values.get("etag", "").strip('"') or values.get("last-modified", "")
