"""TFRecord files in pieces of whole records, each with its checksums right (the format: `example_gen.tfrecord`)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, cast

import numpy as np
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from headrace.components.example_gen.delimited.files import opened
from headrace.components.example_gen.parts import NAMED, room
from headrace.components.example_gen.skips import Skips
from headrace.components.example_gen.storage import open_file
from headrace.components.example_gen.unpack import Unpacked
from headrace.configs.errors import DataError

CHUNK = 1 << 21
"""Bytes read at a time."""
LARGEST_RECORD = 1 << 30

BEFORE, AFTER = 12, 4
"""Bytes around a record: its length and that one's checksum; its own checksum."""

_length = struct.Struct("<Q").unpack_from
_checksum = struct.Struct("<I").unpack_from
_COPY = "Copy the file again, or write it anew"


@dataclass(frozen=True)
class Frames:
    """Some records of a file: record i is data[starts[i] : ends[i]], and the numbers[i]-th of the file, from 1 on.

    data[0] is byte `offset` of the unpacked file.
    """

    path: str
    offset: int
    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def records(self) -> list[bytes]:
        """Each record's bytes."""
        spans = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.data[start:end] for start, end in spans]

    def only(self, kept: NDArray[np.bool_]) -> Frames:
        """Those records for which `kept` is True."""
        return replace(self, starts=self.starts[kept], ends=self.ends[kept], numbers=self.numbers[kept])

    def error(self, index: int, what: str, *, column: str | None = None, hint: str = "") -> DataError:
        """The error for one record, with its place."""
        place = _place(int(self.numbers[index]), self.offset + int(self.starts[index]) - BEFORE)
        return DataError(f"{place} {what}", file=self.path, column=column, hint=hint)


def frames(path: str, skips: Skips | None = None, *, columns: int = 1) -> Iterator[Frames]:
    """All records of a file, plain or gzip, in order, about CHUNK bytes at a time, more of very many columns.

    skips: takes the records that are damaged, and the end where the file is cut off; None: they are errors. A record
    of which the length is damaged is an error in any case: nobody knows where the next one starts.
    """
    rest, offset, number, cut_off = b"", 0, 1, False
    size = room(CHUNK, columns, NAMED)
    with opened(path, _unpacker(path)) as stream:
        while block := stream.read(max(size, len(rest))):
            data = rest + block
            edges = _edges(path, data, offset, number, skips)
            if len(edges) > 1:
                starts, ends = np.array(edges[:-1]) + BEFORE, np.array(edges[1:]) - AFTER
                yield _sound(Frames(path, offset, data, starts, ends, number + np.arange(len(starts))), skips)
                number += len(starts)
            rest, offset = data[edges[-1] :], offset + edges[-1]
        cut_off = getattr(stream, "cut_off", False)
    if rest or cut_off:
        error = partial(_cut_off, path, number, offset, packed=cut_off)
        if skips is None:
            raise error()
        skips.add(error)


def _edges(path: str, data: bytes, offset: int, number: int, skips: Skips | None) -> list[int]:
    """Where each whole record starts with its length, and where the last one ends."""
    edges, place = [0], 0
    while place + BEFORE <= len(data):
        length = _length(data, place)[0]
        end = place + BEFORE + length + AFTER
        if _checksum(data, place + 8)[0] != _masked(data[place : place + 8]) and (
            skips is None or not _ends(data, place, end)
        ):
            raise _damaged(path, number + len(edges) - 1, offset + place)
        if length > LARGEST_RECORD:
            what = f"{_place(number + len(edges) - 1, offset + place)} is longer than {LARGEST_RECORD >> 20} MiB"
            raise DataError(what, file=path)
        if end > len(data):
            break
        edges.append(end)
        place = end
    return edges


def _ends(data: bytes, place: int, end: int) -> bool:
    """Whether a record whose length has a wrong checksum ends there all the same: its own checksum is right."""
    return end <= len(data) and _checksum(data, end - AFTER)[0] == _masked(data[place + BEFORE : end - AFTER])


def _sound(found: Frames, skips: Skips | None) -> Frames:
    """The records whose checksums are right."""
    checksums = map(_masked, found.records())
    kept = np.array(
        [
            own == _checksum(found.data, end)[0] and _length_is_sound(found.data, start)
            for own, start, end in zip(checksums, found.starts.tolist(), found.ends.tolist(), strict=True)
        ]
    )
    for index in np.flatnonzero(~kept):
        error = partial(found.error, int(index), "has a wrong checksum: its bytes are damaged", hint=_COPY)
        if skips is None:
            raise error()
        skips.add(error)
    return found if kept.all() else found.only(kept)


def _length_is_sound(data: bytes, start: int) -> bool:
    return bool(_checksum(data, start - 4)[0] == _masked(data[start - BEFORE : start - 4]))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _unpacker(path: str) -> Callable[[BinaryIO], BinaryIO]:
    """What unpacks a file, whatever its name says: gzip where its first bytes say so, and are no sound length."""
    with open_file(path) as stream:
        first = stream.read(BEFORE)
    if first[:3] == b"\x1f\x8b\x08" and not (len(first) == BEFORE and _length_is_sound(first, BEFORE)):
        return lambda stream: cast(BinaryIO, Unpacked(stream))
    return lambda stream: stream


def _place(number: int, offset: int) -> str:
    return f"record {number:,}, which starts at byte {offset:,},"


def _damaged(path: str, number: int, offset: int) -> DataError:
    if number == 1:
        what = "is no TFRecord file: the checksum of its first length is wrong"
        return DataError(what, file=path, hint="TFRecord files hold records with their lengths, plain or gzip")
    what = f"{_place(number, offset)} has a damaged length, so that nothing behind it can be found"
    return DataError(what, file=path, hint=_COPY)


def _cut_off(path: str, number: int, offset: int, *, packed: bool) -> DataError:
    how = "the gzip data ends" if packed else "the file ends"
    return DataError(f"{how} inside of {_place(number, offset)} or before it: it was cut off", file=path, hint=_COPY)
