"""Texts in files: lines, whole files, or the strings in Python files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from headrace.common.errors import BadRecordError, DataError
from headrace.components.examples.skips import Skipped, Skips
from headrace.components.sources.jsonl.blocks import LineBlock
from headrace.components.sources.streams import CHUNK, LineRange, line_at, open_stream, read_fully

MARK = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark that some editors put at the start of a file."""

LARGEST_TEXT = 1 << 28
"""The largest number of bytes in one text."""


@dataclass(frozen=True)
class Texts:
    """Some texts as bytes [n]. paths [n]: the file of each; offsets (int64 [n]): the byte at which it starts there."""

    values: pa.BinaryArray
    paths: Sequence[str]
    offsets: np.ndarray


def read_lines(lines: LineRange, section: str) -> Iterator[Texts]:
    """The lines with their line breaks (LF or CRLF), about CHUNK bytes at a time.

    section: that of the source, for messages.
    """
    for offset, text in _blocks(lines, section):
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        if not len(ends) or ends[-1] < len(text):
            ends = np.append(ends, len(text))
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        values = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(text)])
        yield Texts(values, [lines.path] * len(ends), offset + offsets[:-1].astype(np.int64))


def text_blocks(lines: LineRange, section: str) -> Iterator[LineBlock]:
    """The lines as blocks, about CHUNK bytes at a time. section: that of the source, for messages."""
    return (LineBlock(lines.path, offset, text) for offset, text in _blocks(lines, section))


def read_files(paths: Sequence[str]) -> Iterator[Texts]:
    """Whole files, about CHUNK bytes at a time."""
    texts: list[bytes] = []
    size = 0
    for number, path in enumerate(paths, 1):
        with open_stream(path) as stream:
            text = read_fully(stream, LARGEST_TEXT + 1)
        if len(text) > LARGEST_TEXT:
            raise DataError(f"the text is longer than {LARGEST_TEXT >> 20} MiB", file=path, hint="Split the file")
        texts.append(text.removeprefix(MARK))
        size += len(text)
        if size > CHUNK or number == len(paths):
            yield Texts(
                pa.array(texts, pa.binary()), paths[number - len(texts) : number], np.zeros(len(texts), np.int64)
            )
            texts, size = [], 0


def read_strings(paths: Sequence[str], section: str) -> Iterator[Texts]:
    """The string literals of Python files, docstrings included, in their order, some files at a time.

    Adjacent literals count as one, as in Python. Literals inside an f-string are left out.
    """
    for files in read_files(paths):
        texts, origins, offsets = [], [], []
        for path, source in zip(files.paths, files.values.to_pylist(), strict=True):
            for offset, text in _strings(source, path, section):
                texts.append(text)
                origins.append(path)
                offsets.append(offset)
        yield Texts(pa.array(texts, pa.binary()), origins, np.array(offsets, np.int64))


def decode(texts: Texts, *, skip_bad: bool) -> tuple[pa.StringArray, np.ndarray, Skipped]:
    """Decode UTF-8: the texts [n], their indices in `texts` (int64 [n]), and the texts that were skipped.

    Raises DataError for the first text that is not UTF-8, unless `skip_bad`.
    """
    try:
        return texts.values.cast(pa.string()), np.arange(len(texts.values)), Skipped()
    except pa.ArrowInvalid:
        pass
    good: list[int] = []
    skips = Skips()
    for index, text in enumerate(texts.values):
        try:
            text.as_py().decode()
            good.append(index)
        except UnicodeDecodeError as error:
            if not skip_bad:
                raise _not_utf8(texts, index, error) from None
            skips.add(partial(_not_utf8, texts, index, error))
    indices = np.array(good, np.int64)
    return texts.values.take(pa.array(indices)).cast(pa.string()), indices, skips.skipped


def _not_utf8(texts: Texts, index: int, error: UnicodeDecodeError) -> DataError:
    path = texts.paths[index]
    return BadRecordError(
        f"is not UTF-8: byte 0x{error.object[error.start]:02x} ({error.reason})",
        file=path,
        line=line_at(path, int(texts.offsets[index]) + error.start),
        hint="Convert the file, for example with `iconv -f latin1 -t utf-8`",
    )


def _blocks(lines: LineRange, section: str) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, whole lines)."""
    rest, offset, inside = b"", lines.start, lines.start > 0
    with open_stream(lines.path) as stream:
        stream.seek(lines.start - inside)  # the byte before shows whether a line starts at `start`
        offset -= inside
        while more := read_fully(stream, CHUNK):
            text = rest + more
            if inside:
                text, offset, inside = _after_line(text, offset)
            if lines.end is not None and not inside and offset + len(text) >= lines.end:
                if offset >= lines.end:
                    return
                end = text.find(b"\n", max(lines.end - 1 - offset, 0)) + 1
                if end:
                    yield _unmarked(offset, text[:end])
                    return
            end = 0 if lines.end is not None and offset + len(text) >= lines.end else text.rfind(b"\n") + 1
            if end:
                yield _unmarked(offset, text[:end])
            rest, offset = text[end:], offset + end
            _check_length(lines.path, offset, rest, section)
    if rest and not inside:
        yield _unmarked(offset, rest)


def _after_line(text: bytes, offset: int) -> tuple[bytes, int, bool]:
    """The text after the current line, its offset, and whether the line is still incomplete."""
    end = text.find(b"\n") + 1
    return (text[end:], offset + end, False) if end else (b"", offset + len(text), True)


def _unmarked(offset: int, text: bytes) -> tuple[int, bytes]:
    """The text without the byte order mark at the start of a file."""
    return (len(MARK), text[len(MARK) :]) if offset == 0 and text.startswith(MARK) else (offset, text)


def _check_length(path: str, offset: int, rest: bytes, section: str) -> None:
    if len(rest) > LARGEST_TEXT:
        raise DataError(
            f"the line that starts here is longer than {LARGEST_TEXT >> 20} MiB",
            file=path,
            line=line_at(path, offset),
            hint=f"Lines must end in LF or CRLF; with `{section}.unit: file`, a whole file is one text",
        )


def _strings(source: bytes, path: str, section: str) -> list[tuple[int, bytes]]:
    """The offset and the text of each string literal, in order."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        hint = f"With `{section}.unit: file`, a whole file is one text, whatever its content"
        raise DataError(f"is not valid in this version of Python: {error}", file=path, line=line, hint=hint) from None
    starts = np.cumsum([0, *map(len, source.splitlines(keepends=True))])
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    found = [
        (int(starts[node.lineno - 1]) + node.col_offset, node.value.encode("utf-8", "replace"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside
    ]
    return sorted(found)
