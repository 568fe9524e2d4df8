"""Avro files block by block, from any place in a file.

The records of a block follow a sync marker, 16 bytes that are the same in the whole file. A range of bytes has the
blocks that start in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from headrace.common.errors import DataError
from headrace.components.sources.streams import LineRange, open_stream

MAGIC = b"Obj\x01"
SYNC = 16
"""Bytes of a sync marker."""
BUFFER = 1 << 20


@dataclass(frozen=True)
class Header:
    """The start of a file: its bytes, which end with the sync marker, and the schema as fastavro parses it."""

    content: bytes
    schema: Any


@dataclass(frozen=True)
class AvroBlock:
    """Records that are stored together. offset: where they start in the file."""

    offset: int
    records: list[dict[str, Any]]


def read_header(path: str) -> Header:
    """The header of a file. Raises DataError for one that is not an Avro file."""
    with _open(path) as stream:
        return _header(path, stream)


def read_blocks(part: LineRange) -> Iterator[AvroBlock]:
    """The blocks that start in a range of a file. Raises DataError for a damaged file."""
    from fastavro import block_reader

    with _open(part.path) as stream:
        header = _header(part.path, stream)
        if part.start and not _seek_block(stream, max(part.start, len(header.content)), header.content[-SYNC:]):
            return
        offset = stream.tell()
        with _explained(part.path, lambda: offset):
            for block in block_reader(cast(BinaryIO, _AfterHeader(header.content, stream))):
                offset = block.offset
                if part.end is not None and offset >= part.end:
                    return
                yield AvroBlock(offset, cast(list[dict[str, Any]], list(block)))


class _AfterHeader:
    """A stream that has the header before its position."""

    def __init__(self, header: bytes, stream: BinaryIO) -> None:
        self._header, self._stream = io.BytesIO(header), stream

    def read(self, size: int = -1) -> bytes:
        return self._header.read(size) or self._stream.read(size)

    def tell(self) -> int:
        return self._stream.tell()


def _open(path: str) -> Any:
    return open_stream(path, lambda stream: cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, stream), BUFFER)))


def _header(path: str, stream: BinaryIO) -> Header:
    """Read the header. The stream is then at the first block."""
    from fastavro import block_reader

    start = stream.read(len(MAGIC))
    if start != MAGIC:
        what = f"it starts with {start!r}, not {MAGIC!r}" if start else "the file is empty"
        hint = "Avro compresses its blocks by itself. Decompress the file" if path.endswith(".gz") else ""
        raise DataError(f"is not an Avro file: {what}", file=path, hint=hint)
    stream.seek(0)
    with _explained(path, lambda: 0):
        schema = block_reader(stream).writer_schema
    end = stream.tell()
    stream.seek(0)
    return Header(stream.read(end), schema)


def _seek_block(stream: BinaryIO, start: int, sync: bytes) -> bool:
    """Go to the first block that starts at `start` or after it; False if there is none."""
    place, rest = start - SYNC, b""
    stream.seek(place)
    while chunk := stream.read(BUFFER):
        text = rest + chunk
        found = text.find(sync)
        if found >= 0:
            stream.seek(place - len(rest) + found + SYNC)
            return True
        place, rest = place + len(chunk), text[-SYNC + 1 :]
    return False


@contextmanager
def _explained(path: str, offset: Any) -> Iterator[None]:
    """Turn what fastavro raises for damaged bytes, which may be any error, into a DataError."""
    try:
        yield
    except (DataError, OSError, MemoryError, GeneratorExit):
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if "codec is supported but" in str(error) or "Unrecognized codec" in str(error):
            hint = "Install it, for example: pip install 'fastavro[codecs]'"
            raise DataError(f"its codec cannot be read: {error}", file=path, hint=hint) from error
        what = f"is a damaged Avro file, in or after the block at byte {offset():,}: {why}"
        raise DataError(what, file=path, hint="Copy or write the file again") from error
