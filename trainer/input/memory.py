"""Whether a split's parsed examples fit in memory or on disk, found out before they are read."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import tensorflow as tf

from headrace.trainer.input.packing import Packed, Packing

PARSED = 4096
"""Examples that are parsed to see how much memory one takes."""
POINTER = 24
"""Bytes that a string takes besides its own; those up to 22 are kept within them."""
SAMPLE = 4 << 20
"""Bytes of records that are looked at to estimate how many there are."""
CHUNK = 1 << 16
"""Bytes of a file that are looked at at a time."""
SHARE = 4
"""Parsed examples may take one part in so many of the free memory."""
DISK_SHARE = 2
"""And one in so many of what is free on disk."""
Where = Literal["memory", "disk", "none"]
KEPT: dict[Where, str] = {
    "memory": "they stay in memory",
    "disk": "they stay on disk while the training lasts",
    "none": "examples are read and parsed in every epoch",
}
IN_SNAPSHOT = {"while the training lasts": "in the snapshot", "read and parsed": "read from the snapshot"}
"""What is said of them where a snapshot keeps them."""
_CGROUP = Path("/sys/fs/cgroup")


class Room(NamedTuple):
    """What an example takes, and what there is to take, in bytes."""

    each: int
    memory: int
    disk: int

    @classmethod
    def here(cls, each: int) -> Room:
        """On this machine, where temporary files go."""
        return cls(each, free_memory(), shutil.disk_usage(tempfile.gettempdir()).free)


class Cache(NamedTuple):
    """Where the parsed examples are kept, and why, in words for the training record."""

    where: Where
    why: str

    def by_snapshot(self) -> Cache:
        """Where a snapshot keeps them on disk: what does not fit in memory is read back from it."""
        if self.where == "memory":
            return self
        why = self.why
        for words, instead in IN_SNAPSHOT.items():
            why = why.replace(words, instead)
        return Cache("none", why)


def choose_cache(choice: Literal["auto"] | Where, files: Sequence[str], room: Room | None = None) -> Cache:
    """Decide for `train.input.cache`.

    files: of all the splits that would be kept; room: what an example takes and what there is, for `auto` alone, which
    needs to know.
    """
    if choice != "auto" or room is None:
        where: Where = "none" if choice == "auto" else choice
        return Cache(where, f"{KEPT[where].replace('they', 'parsed examples')}, as `train.input.cache: {choice}` says")
    examples = estimate_examples(files)
    size = examples * room.each
    told = f"about {in_words(size)} ({examples:,} times {room.each} bytes)"
    if size * SHARE <= room.memory:
        return Cache("memory", f"{told} fit in a quarter of {in_words(room.memory)} free: {KEPT['memory']}")
    told = f"{told} take more than a quarter of {in_words(room.memory)} free"
    if size * DISK_SHARE <= room.disk:
        return Cache("disk", f"{told}, and fit in half of the {in_words(room.disk)} free on disk: {KEPT['disk']}")
    return Cache("none", f"{told}, and more than half of the {in_words(room.disk)} free on disk: {KEPT['none']}")


def estimate_examples(files: Sequence[str]) -> int:
    """Number of records in the TFRecord files, from the first few megabytes: exact for small data."""
    seen = compressed = 0
    sizes = [tf.io.gfile.stat(file).length for file in files]
    for file, size in zip(files, sizes, strict=True):
        records, consumed = _count_records(file)
        seen, compressed = seen + records, compressed + min(consumed, size)
        if consumed < size:
            break
    return round(seen * sum(sizes) / compressed) if compressed else 0


class Sample(NamedTuple):
    """What the first examples look like when they are parsed."""

    bytes_each: int
    """Bytes of memory, rounded up."""
    lengths: np.ndarray | None
    """Values in the column that has most, of each example; None if all are of fixed size."""

    @classmethod
    def of(cls, files: Sequence[str], packing: Packing) -> Sample:
        """Of the first PARSED examples in the files."""
        batches = list(_first(files, packing))
        lengths = [one.numpy() for packed in batches if (one := packing.lengths(packed)) is not None]
        examples = sum(int(packing.rows(packed)) for packed in batches)
        each = -(-sum(map(taken, batches)) // examples) if examples else 0
        return cls(each, np.concatenate(lengths) if lengths else None)


def _first(files: Sequence[str], packing: Packing) -> Iterator[Packed]:
    left = PARSED
    for file in files:
        records = tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else "").take(left)
        for serialized in records.batch(PARSED):
            yield packing.parse(serialized)
            left -= len(serialized)
        if left <= 0:
            return


def taken(packed: Packed) -> int:
    """Bytes of memory that the examples take."""
    return sum(
        _string_bytes(part) if part.dtype == tf.string else part.dtype.size * int(tf.size(part)) for part in packed
    )


def _string_bytes(strings: tf.Tensor) -> int:
    outside = tf.strings.length(strings)
    return POINTER * int(tf.size(strings)) + int(tf.reduce_sum(tf.where(outside < POINTER - 1, 0, outside)))


def _count_records(file: str) -> tuple[int, int]:
    """Records in the first part of the file, and the bytes of the file that they take."""
    unpack = _unpacker() if file.endswith(".gz") else bytes
    data, consumed = bytearray(), 0
    with tf.io.gfile.GFile(file, "rb") as raw:
        while len(data) < SAMPLE and (chunk := raw.read(CHUNK)):
            data += unpack(chunk)
            consumed += len(chunk)
    return _framed(bytes(data)), consumed


def _unpacker() -> Callable[[bytes], bytes]:
    """Unpacks a gzip file that comes in pieces; it may be made of several members, one behind the other."""
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def unpack(piece: bytes) -> bytes:
        nonlocal member
        data = b""
        while piece:
            if member.eof:
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            data += member.decompress(piece)
            piece = member.unused_data
        return data

    return unpack


def _framed(data: bytes) -> int:
    """Records in TFRecord framing: length (8 bytes), its checksum (4), the record, its checksum (4)."""
    position = records = 0
    while position + 12 <= len(data):
        position += 16 + struct.unpack_from("<Q", data, position)[0]
        records += 1
    return records


def free_memory() -> int:
    """Bytes that this process can still take: what the machine has free, within the limit of the container."""
    return min(_free_on_machine(), _free_in_container())


def _free_on_machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux: assume that half of it is taken
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def _free_in_container() -> int:
    try:
        limit = int((_CGROUP / "memory.max").read_text(encoding="utf-8"))  # the word `max` where there is no limit
        used = int((_CGROUP / "memory.current").read_text(encoding="utf-8"))
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return 1 << 62
    return max(limit - used + int(stat.get("inactive_file", 0)), 0)


def in_words(size: int) -> str:
    """`21.3 GB`, in powers of ten."""
    value, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:,.0f} {units[0]}" if units[0] == "bytes" else f"{value:,.1f} {units[0]}"
