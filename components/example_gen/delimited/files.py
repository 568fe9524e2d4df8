"""A text file as a stream of bytes: plain, or gzip by its ending; and the line at an offset, for messages."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from components.example_gen.storage import is_remote, open_file
from configs.errors import DataError

CHUNK = 1 << 21
"""Bytes read at a time: two MiB stay in a core's cache from the parser to the compressor."""


def is_gzip(path: str) -> bool:
    """Whether the file is read as gzip: by its ending."""
    return path.endswith(".gz")


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of the text. What goes wrong while it is read becomes a DataError that names the file."""
    try:
        with open_file(path) as stream:
            before = None if is_remote(path) else os.fstat(stream.fileno())
            yield cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if is_gzip(path) else stream
            if before is not None:
                _check_same(path, before)
    except EOFError as error:
        raise DataError(
            "the gzip data ends too early: the file was cut off", file=path, hint="Copy the file again"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"is not sound gzip data: {error}",
            file=path,
            hint="Files that end in .gz are read as gzip: rename the file if it is plain text, else copy it again",
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error


def _check_same(path: str, before: os.stat_result) -> None:
    """Raise DataError if a local file has been written to since it was opened, or is gone."""
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


def line_at(path: str, offset: int) -> int:
    """The 1-based number of the line that the byte at `offset` stands in, as an editor counts (LF, CRLF or CR)."""
    lines, ended_with_return = 1, False
    with opened(path) as stream:
        while offset > 0 and (text := read_fully(stream, min(CHUNK, offset))):
            offset -= len(text)
            lines += text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
            lines -= ended_with_return and text.startswith(b"\n")
            ended_with_return = text.endswith(b"\r")
    return lines
