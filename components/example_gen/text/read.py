"""Texts as they stand in files: lines of a stretch of a file, or whole files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.components.example_gen.delimited.files import CHUNK, line_at, opened, read_fully
from headrace.components.example_gen.sources.base import TOLD, Skipped
from headrace.configs.errors import DataError

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some editors put first."""

LARGEST_TEXT = 1 << 28
"""Bytes in one text."""


@dataclass(frozen=True)
class Stretch:
    """Some of a file: the lines that start at `start` or behind it and before `end`; None: to the end of the file."""

    path: str
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Texts:
    """Some texts, as bytes; `paths` and `offsets` [n]: the file of each, and the byte at which it starts there."""

    values: pa.BinaryArray
    paths: Sequence[str]
    offsets: np.ndarray


def lines(stretch: Stretch) -> Iterator[Texts]:
    """The lines, with their ends, about two megabytes at a time. A line ends in LF or CRLF."""
    for offset, text in _blocks(stretch):
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        if not len(ends) or ends[-1] < len(text):
            ends = np.append(ends, len(text))
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        values = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(text)])
        yield Texts(values, [stretch.path] * len(ends), offset + offsets[:-1].astype(np.int64))


def whole(paths: Sequence[str]) -> Iterator[Texts]:
    """The files, some of them at a time."""
    held: list[bytes] = []
    size = 0
    for place, path in enumerate(paths):
        with opened(path) as stream:
            text = read_fully(stream, LARGEST_TEXT + 1)
        if len(text) > LARGEST_TEXT:
            raise DataError(f"the text is longer than {LARGEST_TEXT >> 20} MiB", file=path, hint="Cut it into several")
        held.append(text.removeprefix(MARK))
        size += len(text)
        if size > CHUNK or place == len(paths) - 1:
            own = paths[place + 1 - len(held) : place + 1]
            yield Texts(pa.array(held, pa.binary()), own, np.zeros(len(held), np.int64))
            held, size = [], 0


def decoded(texts: Texts, *, skip_bad: bool) -> tuple[pa.StringArray, np.ndarray, Skipped]:
    """The texts as UTF-8, their places among `texts`, and those left out. Raises DataError for the first that is not
    UTF-8, unless it is to be left out.
    """
    try:
        return texts.values.cast(pa.string()), np.arange(len(texts.values)), Skipped()
    except pa.ArrowInvalid:
        pass
    good: list[int] = []
    told: list[DataError] = []
    count = 0
    for place, text in enumerate(texts.values):
        try:
            text.as_py().decode()
            good.append(place)
        except UnicodeDecodeError as error:
            count += 1
            if not skip_bad or len(told) < TOLD:
                told.append(_not_utf8(texts, place, error))
            if not skip_bad:
                raise told[0] from None
    places = np.array(good, np.int64)
    values = texts.values.take(pa.array(places)).cast(pa.string())
    return values, places, Skipped(count, tuple(error.args[0].partition("\n")[0] for error in told))


def _not_utf8(texts: Texts, place: int, error: UnicodeDecodeError) -> DataError:
    path = texts.paths[place]
    return DataError(
        f"is not UTF-8: byte 0x{error.object[error.start]:02x} ({error.reason})",
        file=path,
        line=line_at(path, int(texts.offsets[place]) + error.start),
        hint="Convert the file, such as with `iconv -f latin1 -t utf-8`, or leave such texts out with"
        " `data.on_bad_record: skip`",
    )


def _blocks(stretch: Stretch) -> Iterator[tuple[int, bytes]]:
    """(offset, whole lines)."""
    rest, offset, inside = b"", stretch.start, stretch.start > 0
    with opened(stretch.path) as stream:
        stream.seek(stretch.start - inside)  # whether a line starts at `start` shows in the byte before
        offset -= inside
        while more := read_fully(stream, CHUNK):
            text = rest + more
            if inside:
                text, offset, inside = _after_line(text, offset)
            if stretch.end is not None and not inside and offset + len(text) >= stretch.end:
                if offset >= stretch.end:
                    return
                end = text.find(b"\n", max(stretch.end - 1 - offset, 0)) + 1
                if end:
                    yield _unmarked(offset, text[:end])
                    return
            end = 0 if stretch.end is not None and offset + len(text) >= stretch.end else text.rfind(b"\n") + 1
            if end:
                yield _unmarked(offset, text[:end])
            rest, offset = text[end:], offset + end
            _check_length(stretch.path, offset, rest)
    if rest and not inside:
        yield _unmarked(offset, rest)


def _after_line(text: bytes, offset: int) -> tuple[bytes, int, bool]:
    """What stands behind the end of the line, its offset, and whether the line is still to end."""
    end = text.find(b"\n") + 1
    return (text[end:], offset + end, False) if end else (b"", offset + len(text), True)


def _unmarked(offset: int, text: bytes) -> tuple[int, bytes]:
    """Without the byte order mark at the start of a file."""
    return (len(MARK), text[len(MARK) :]) if offset == 0 and text.startswith(MARK) else (offset, text)


def _check_length(path: str, offset: int, rest: bytes) -> None:
    if len(rest) > LARGEST_TEXT:
        raise DataError(
            f"a line starts here that is longer than {LARGEST_TEXT >> 20} MiB",
            file=path,
            line=line_at(path, offset),
            hint="Lines end in LF or CRLF; with `data.source.unit: file` a file is one text",
        )
