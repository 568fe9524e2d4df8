"""Files as streams of bytes, plain or gzip; the line at an offset, for messages; and files cut into ranges of lines."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from zlib_ng import gzip_ng, zlib_ng

from headrace.common.errors import DataError
from headrace.common.storage.files import FileState, is_remote, open_file
from headrace.components.examples.parts import cut, grouped
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import first_pieces
from headrace.components.sources.gzip_reader import GzipReader

_ZLIB_ERROR = cast(type[Exception], zlib_ng.error)

CHUNK = 1 << 21
"""Bytes read at a time: two MiB stay in a core's cache from the parser to the compressor."""

GZIP_RATIO = 4
"""The assumed ratio of the size of a text to the size of its gzip file."""

AGAIN = "Run again when nothing writes to it"


class TextBlock(Protocol):
    """Some whole records of a file. `offset`: where they start in the unpacked text."""

    @property
    def path(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def text(self) -> bytes: ...


@dataclass(frozen=True)
class LineRange:
    """The lines of a file that start at byte `start` of its text or after it, and before `end`; None: to the end."""

    path: str
    start: int = 0
    end: int | None = None


def line_ranges(states: Sequence[FileState], length: int, *, splittable: bool = True) -> list[tuple[LineRange, ...]]:
    """The files in groups of about `length` bytes of text. Plain files are cut if they are `splittable`."""
    pieces: list[LineRange] = []
    sizes: list[int] = []
    for state in states:
        size = text_size(state)
        ranges = cut(size, length) if splittable and not is_gzip(state.path) else [(0, None)]
        pieces += [LineRange(state.path, start, end) for start, end in ranges]
        sizes += [size // len(ranges)] * len(ranges)
    return grouped(pieces, sizes, length)


def first_ranges(blocks: Iterable[TextBlock], rows_in: Callable[[TextBlock], int]) -> tuple[list[LineRange], bool]:
    """The first blocks of some files, as many as a check before a run looks at (see `first_pieces`), as one range of
    each file; and whether these are all.

    blocks: those of each file in their order; rows_in: how many rows one has.
    """
    sized = (
        (LineRange(one.path, one.offset, one.offset + len(one.text)), rows_in(one), len(one.text)) for one in blocks
    )
    found, everything = first_pieces(sized)
    by_file = {path: [*own] for path, own in groupby(found, key=lambda one: one.path)}
    return [LineRange(path, own[0].start, own[-1].end) for path, own in by_file.items()], everything


def text_size(state: FileState) -> int:
    """The bytes of a file's text; for a gzip file, an estimate."""
    return state.size * (GZIP_RATIO if is_gzip(state.path) else 1)


def is_gzip(path: str) -> bool:
    """Whether the file is read as gzip, which its extension decides."""
    return path.endswith(".gz")


@contextmanager
def open_stream(path: str, unpack: Callable[[BinaryIO], BinaryIO] | None = None) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file.

    Errors while reading become DataErrors that name the file, and so does a local file that is modified meanwhile.
    (Streams of remote objects detect that themselves.)

    unpack: wraps the raw stream; None: a gzip reader if the file's name ends in .gz.
    """
    with open_file(path) as stream:
        before = None if is_remote(path) else os.fstat(stream.fileno())
        try:
            unpack = unpack or (_gunzipped if is_gzip(path) else None)
            yield unpack(stream) if unpack else stream
        except (EOFError, gzip.BadGzipFile, _ZLIB_ERROR) as error:
            _check_unchanged(path, before)
            raise _gzip_error(path, error) from error
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
        _check_unchanged(path, before)


def open_truncated(path: str) -> AbstractContextManager[BinaryIO]:
    """Like `open_stream`, but a truncated gzip file is read as far as it goes (see `is_truncated`)."""
    return open_stream(path, (lambda stream: cast(BinaryIO, GzipReader(stream))) if is_gzip(path) else None)


def open_for(path: str, skips: Skips | None) -> AbstractContextManager[BinaryIO]:
    """`open_truncated` if bad records are skipped, else `open_stream`."""
    return open_stream(path) if skips is None else open_truncated(path)


def is_truncated(stream: BinaryIO) -> bool:
    """Whether a stream that has been read to its end is that of a truncated gzip file."""
    return getattr(stream, "cut_off", False)


def truncation_error(path: str, offset: int) -> DataError:
    """The error for the last record of a truncated gzip file, which starts at `offset` of the text."""
    return DataError(
        "the gzip file is truncated in or after the record that starts on this line",
        file=path,
        line=line_at(path, offset, open_truncated),
        hint="Copy the file again",
    )


def read_fully(stream: BinaryIO, size: int) -> bytes:
    """`size` bytes, or fewer at the end of the file."""
    chunks = []
    while size > 0 and (chunk := stream.read(size)):
        chunks.append(chunk)
        size -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def line_at(path: str, offset: int, open_text: Callable[[str], AbstractContextManager[BinaryIO]] = open_stream) -> int:
    """The 1-based number of the line that contains the byte at `offset`, as an editor counts (LF, CRLF or CR)."""
    lines, ended_with_return = 1, False
    with open_text(path) as stream:
        while offset > 0 and (text := read_fully(stream, min(CHUNK, offset))):
            offset -= len(text)
            lines += text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
            lines -= ended_with_return and text.startswith(b"\n")
            ended_with_return = text.endswith(b"\r")
    return lines


def line_start(path: str, offset: int) -> int:
    """The offset of the first line that starts at `offset` of a file, which is above 0, or after it."""
    with open_stream(path) as stream:
        stream.seek(offset - 1)
        while (text := read_fully(stream, 1 << 16)) and (end := text.find(b"\n")) < 0:
            offset += len(text)
        return offset + end if text else offset - 1


def _gunzipped(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, gzip_ng.GzipNGFile(fileobj=stream, mode="rb"))  # type: ignore[no-untyped-call]


def _gzip_error(path: str, error: Exception) -> DataError:
    if isinstance(error, EOFError):
        return DataError("the gzip file is truncated", file=path, hint="Copy the file again")
    return DataError(
        f"is not valid gzip data: {error}",
        file=path,
        hint="Files whose names end in .gz are read as gzip. Rename the file if it is plain text; else copy it again",
    )


def _check_unchanged(path: str, before: os.stat_result | None) -> None:
    """Raise DataError if a local file has been modified or removed since it was opened."""
    if before is None:
        return
    try:
        now = Path(path).stat()
    except FileNotFoundError:
        raise DataError("the file vanished while it was read", file=path, hint=AGAIN) from None
    if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
        raise DataError("the file changed while it was read", file=path, hint=AGAIN)
