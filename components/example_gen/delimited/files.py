"""A text file as a stream of bytes: plain, or gzip by its ending; and the line at an offset, for messages."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from zlib_ng import gzip_ng, zlib_ng

from headrace.components.example_gen.storage import is_remote, open_file
from headrace.configs.errors import DataError

_UNSOUND = cast(type[Exception], zlib_ng.error)

CHUNK = 1 << 21
"""Bytes read at a time: two MiB stay in a core's cache from the parser to the compressor."""


def is_gzip(path: str) -> bool:
    """Whether the file is read as gzip: by its ending."""
    return path.endswith(".gz")


@contextmanager
def opened(path: str, unpack: Callable[[BinaryIO], BinaryIO] | None = None) -> Iterator[BinaryIO]:
    """The bytes of the text. What goes wrong while it is read becomes a DataError that names the file; so does a local
    file being written to meanwhile (objects tell that themselves).

    unpack: what reads a packed stream; None: gzip's reader where the file's name says gzip.
    """
    with open_file(path) as stream:
        before = None if is_remote(path) else os.fstat(stream.fileno())
        try:
            unpack = unpack or (_unpacked if is_gzip(path) else None)
            yield unpack(stream) if unpack else stream
        except (EOFError, gzip.BadGzipFile, _UNSOUND) as error:
            _check_same(path, before)
            raise _gzip_error(path, error) from error
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
        _check_same(path, before)


def _unpacked(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip_ng.GzipNGFile(fileobj=stream, mode="rb"))  # type: ignore[no-untyped-call]


def _gzip_error(path: str, error: Exception) -> DataError:
    if isinstance(error, EOFError):
        return DataError("the gzip data ends too early: the file was cut off", file=path, hint="Copy the file again")
    return DataError(
        f"is not sound gzip data: {error}",
        file=path,
        hint="Files that end in .gz are read as gzip: rename the file if it is plain text, else copy it again",
    )


def _check_same(path: str, before: os.stat_result | None) -> None:
    """Raise DataError if a local file has been written to since it was opened, or is gone."""
    if before is None:
        return
    hint = "Run again when nothing writes to it"
    try:
        now = Path(path).stat()
    except FileNotFoundError:
        raise DataError("the file vanished while it was read", file=path, hint=hint) from None
    if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
        raise DataError("the file changed while it was read", file=path, hint=hint)


def read_fully(stream: BinaryIO, size: int) -> bytes:
    """`size` bytes, fewer only at the end of the file."""
    parts = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def line_at(path: str, offset: int, open_text: Callable[[str], AbstractContextManager[BinaryIO]] = opened) -> int:
    """The 1-based number of the line that the byte at `offset` stands in, as an editor counts (LF, CRLF or CR)."""
    lines, ended_with_return = 1, False
    with open_text(path) as stream:
        while offset > 0 and (text := read_fully(stream, min(CHUNK, offset))):
            offset -= len(text)
            lines += text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
            lines -= ended_with_return and text.startswith(b"\n")
            ended_with_return = text.endswith(b"\r")
    return lines
