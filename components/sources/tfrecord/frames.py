"""TFRecord files read in blocks of whole records with valid checksums (the format: `tfexample.framing`)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import BinaryIO, cast

import numpy as np
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from headrace.common.errors import BadRecordError, DataError
from headrace.common.storage.files import open_file
from headrace.components.examples.parts import NAMED, room
from headrace.components.examples.skips import Skips
from headrace.components.examples.tfexample.framing import checksums_match
from headrace.components.sources.gzip_reader import GzipReader
from headrace.components.sources.streams import is_truncated, open_stream, read_fully

CHUNK = 1 << 21
"""Bytes read at a time."""
LARGEST_RECORD = 1 << 30

BEFORE, AFTER = 12, 4
"""Bytes around a record: its length and the checksum of the length before it, its own checksum after it."""

_length = struct.Struct("<Q").unpack_from
_checksum = struct.Struct("<I").unpack_from
_COPY_AGAIN = "Copy the file again, or write it again"


@dataclass(frozen=True)
class Frames:
    """Some records of a file: record i is data[starts[i] : ends[i]], and its number in the file is numbers[i], from 1.

    offset: the offset of `data` in the unpacked file.
    """

    path: str
    offset: int
    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def records(self) -> list[bytes]:
        edges = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.data[start:end] for start, end in edges]

    def filter(self, mask: NDArray[np.bool_]) -> Frames:
        """The records for which `mask` is True."""
        return replace(self, starts=self.starts[mask], ends=self.ends[mask], numbers=self.numbers[mask])

    def error(self, index: int, what: str, *, column: str | None = None, hint: str = "") -> BadRecordError:
        """The error for one record, with its number and its offset."""
        record = _describe(int(self.numbers[index]), self.offset + int(self.starts[index]) - BEFORE)
        return BadRecordError(f"{record} {what}", file=self.path, column=column, hint=hint)


def frames(path: str, skips: Skips | None = None, *, columns: int = 1) -> Iterator[Frames]:
    """All records of a file, plain or gzip, in order, about CHUNK bytes at a time, or more for very many columns.

    skips: counts damaged records and the truncated end of the file; None: they are errors. A damaged length is always
    an error because it hides where the next record starts.
    """
    rest, offset, number, truncated = b"", 0, 1, False
    size = room(CHUNK, columns, NAMED)
    with open_stream(path, _unpacker(path)) as stream:
        while block := read_fully(stream, max(size, len(rest))):
            data = rest + block
            edges = _edges(path, data, offset, number, skips)
            if len(edges) > 1:
                starts, ends = np.array(edges[:-1]) + BEFORE, np.array(edges[1:]) - AFTER
                yield _undamaged(Frames(path, offset, data, starts, ends, number + np.arange(len(starts))), skips)
                number += len(starts)
            rest, offset = data[edges[-1] :], offset + edges[-1]
        truncated = is_truncated(stream)
    if rest or truncated:
        error = partial(_truncated, path, number, offset, packed=truncated)
        if skips is None:
            raise error()
        skips.add(error)


def _edges(path: str, data: bytes, offset: int, number: int, skips: Skips | None) -> list[int]:
    """The offset of each whole record, length included, and the end of the last one."""
    edges, start = [0], 0
    while start + BEFORE <= len(data):
        length = _length(data, start)[0]
        end = start + BEFORE + length + AFTER
        if not _is_length_valid(data, start + BEFORE) and (skips is None or not _is_record_valid(data, start, end)):
            raise _damaged_length(path, number + len(edges) - 1, offset + start)
        if length > LARGEST_RECORD:
            what = f"{_describe(number + len(edges) - 1, offset + start)} is longer than {LARGEST_RECORD >> 20} MiB"
            raise DataError(what, file=path)
        if end > len(data):
            break
        edges.append(end)
        start = end
    return edges


def _is_record_valid(data: bytes, start: int, end: int) -> bool:
    """Whether the checksum of the record itself is right, so that its length is right too, whatever its checksum."""
    return end <= len(data) and _checksum(data, end - AFTER)[0] == _masked(data[start + BEFORE : end - AFTER])


def _undamaged(found: Frames, skips: Skips | None) -> Frames:
    """The records with valid checksums."""
    if skips is None and _all_match(found):  # with `skips`, the checksum of a length may be wrong too
        return found
    checksums = map(_masked, found.records())
    valid = np.array(
        [
            checksum == _checksum(found.data, end)[0] and _is_length_valid(found.data, start)
            for checksum, start, end in zip(checksums, found.starts.tolist(), found.ends.tolist(), strict=True)
        ]
    )
    for index in np.flatnonzero(~valid):
        error = partial(found.error, int(index), "has a wrong checksum: its bytes are damaged", hint=_COPY_AGAIN)
        if skips is None:
            raise error()
        skips.add(error)
    return found if valid.all() else found.filter(valid)


def _all_match(found: Frames) -> bool:
    """Whether all records have their checksums; False of data that is too long to compare all of them at once."""
    edges = np.append(found.starts - BEFORE, found.ends[-1] + AFTER)
    return len(found.data) <= LARGEST_RECORD and checksums_match(found.data, edges)


def _is_length_valid(data: bytes, start: int) -> bool:
    """Whether the checksum of the length before the record at `start` is right."""
    return _is_header_valid(data[start - BEFORE : start])


@lru_cache(maxsize=1 << 16)
def _is_header_valid(header: bytes) -> bool:
    """Whether a length has the checksum that follows it. Records of one file have few lengths."""
    return bool(_checksum(header, 8)[0] == _masked(header[:8]))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _unpacker(path: str) -> Callable[[BinaryIO], BinaryIO]:
    """What unpacks a file, whatever its name is: gzip if its first bytes are gzip's and not a valid length."""
    with open_file(path) as stream:
        first = stream.read(BEFORE)
    if first[:3] == b"\x1f\x8b\x08" and not (len(first) == BEFORE and _is_length_valid(first, BEFORE)):
        return lambda stream: cast(BinaryIO, GzipReader(stream))
    return lambda stream: stream


def _describe(number: int, offset: int) -> str:
    return f"record {number:,}, which starts at byte {offset:,},"


def _damaged_length(path: str, number: int, offset: int) -> DataError:
    if number == 1:
        what = "is not a TFRecord file: the checksum of its first length is wrong"
        return DataError(what, file=path, hint="TFRecord files contain records with their lengths, plain or gzip")
    what = f"{_describe(number, offset)} has a damaged length, so the records after it cannot be found"
    return DataError(what, file=path, hint=_COPY_AGAIN)


def _truncated(path: str, number: int, offset: int, *, packed: bool) -> DataError:
    what = "the gzip file" if packed else "the file"
    return BadRecordError(
        f"{what} is truncated in or before {_describe(number, offset)[:-1]}", file=path, hint=_COPY_AGAIN
    )
