"""Whether the parsed examples of a split fit in memory or on disk, estimated before reading them."""

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
from headrace.trainer.input.reading import records_of
from headrace.trainer.input.transformed_columns import are_columns, open_columns

SAMPLE_EXAMPLES = 4096
"""Examples that are parsed to measure how much memory one takes."""
STRING_BYTES = 24
"""Overhead in bytes of a string; one of up to 22 bytes is stored inside this."""
SAMPLE_BYTES = 4 << 20
"""Bytes of records that are read to estimate how many there are."""
CHUNK = 1 << 16
"""Bytes of a file that are read at a time."""
MEMORY_SHARE = 4
"""Parsed examples may take one part in this many of the free memory."""
DISK_SHARE = 2
"""Parsed examples may take one part in this many of the free disk space."""
CacheKind = Literal["memory", "disk", "none"]
CACHE_WORDS: dict[CacheKind, str] = {
    "memory": "they stay in memory",
    "disk": "they stay on disk for the duration of the training",
    "none": "examples are read and parsed in every epoch",
}
COLUMNS_WORDS: dict[CacheKind, str] = {
    "memory": "and examples are taken from all of them",
    "none": "and examples pass through the pool of `train.input.shuffle`",
}
SNAPSHOT_WORDS = {"for the duration of the training": "in the snapshot", "read and parsed": "read from the snapshot"}
"""Replacements in CACHE_WORDS if a snapshot stores the examples."""
_CGROUP = Path("/sys/fs/cgroup")


class FreeSpace(NamedTuple):
    """The size of an example, and the free memory and disk space, in bytes."""

    each: int
    memory: int
    disk: int

    @classmethod
    def here(cls, each: int) -> FreeSpace:
        """Measure this machine; the disk is that of temporary files."""
        return cls(each, free_memory(), shutil.disk_usage(tempfile.gettempdir()).free)


class CacheChoice(NamedTuple):
    """Where the parsed examples are cached, and why, for the training record."""

    kind: CacheKind
    why: str

    def with_snapshot(self) -> CacheChoice:
        """Use a snapshot in place of a disk cache: what does not fit in memory is read from the snapshot."""
        if self.kind == "memory":
            return self
        why = self.why
        for words, replacement in SNAPSHOT_WORDS.items():
            why = why.replace(words, replacement)
        return CacheChoice("none", why)


def choose_cache(
    choice: Literal["auto"] | CacheKind, files: Sequence[str], space: FreeSpace | None = None
) -> CacheChoice:
    """Decide on the cache as `train.input.cache` says.

    Args:
        choice: The setting.
        files: The files of all splits that would be cached.
        space: The size of an example and the free space, which only `auto` needs.
    """
    if are_columns(files):
        return _choose_for_columns(choice, files, space)
    if choice != "auto" or space is None:
        kind: CacheKind = "none" if choice == "auto" else choice
        what = CACHE_WORDS[kind].replace("they", "parsed examples")
        return CacheChoice(kind, f"{what}, as `train.input.cache: {choice}` says")
    examples = estimate_examples(files)
    size = examples * space.each
    memory, disk = format_bytes(space.memory), format_bytes(space.disk)
    words = f"about {format_bytes(size)} ({examples:,} times {space.each} bytes)"
    if size * MEMORY_SHARE <= space.memory:
        return CacheChoice("memory", f"{words} fit in a quarter of {memory} free: {CACHE_WORDS['memory']}")
    words = f"{words} take more than a quarter of {memory} free"
    if size * DISK_SHARE <= space.disk:
        return CacheChoice("disk", f"{words}, and fit in half of the {disk} free on disk: {CACHE_WORDS['disk']}")
    return CacheChoice("none", f"{words}, and more than half of the {disk} free on disk: {CACHE_WORDS['none']}")


def _choose_for_columns(
    choice: Literal["auto"] | CacheKind, files: Sequence[str], space: FreeSpace | None
) -> CacheChoice:
    """Columns need no cache. `memory` is said of those that may all be used at the same time."""
    fits = (
        choice == "auto" and space is not None and estimate_examples(files) * space.each * MEMORY_SHARE <= space.memory
    )
    kind: CacheKind = "memory" if fits or choice == "memory" else "none"
    return CacheChoice(kind, f"columns are mapped into memory, {COLUMNS_WORDS[kind]}")


def estimate_examples(files: Sequence[str]) -> int:
    """Estimate the number of examples from the first few megabytes; exact for small data, and for columns."""
    if are_columns(files):
        return sum(open_columns(file).num_rows for file in files)
    seen = compressed = 0
    sizes = [tf.io.gfile.stat(file).length for file in files]
    for file, size in zip(files, sizes, strict=True):
        records, consumed = _count_records(file)
        seen, compressed = seen + records, compressed + min(consumed, size)
        if consumed < size:
            break
    return round(seen * sum(sizes) / compressed) if compressed else 0


class ExampleSample(NamedTuple):
    """Measurements of the first examples after parsing."""

    bytes_each: int
    """Bytes of memory per example, rounded up."""
    lengths: np.ndarray | None
    """Values of each example in the column that has most; None if all columns are of fixed size."""

    @classmethod
    def of(cls, files: Sequence[str], packing: Packing) -> ExampleSample:
        """Measure the first SAMPLE_EXAMPLES examples in the files."""
        batches = list(_first(files, packing))
        lengths = [one.numpy() for packed in batches if (one := packing.lengths(packed)) is not None]
        examples = sum(int(packing.rows(packed)) for packed in batches)
        each = -(-sum(map(packed_bytes, batches)) // examples) if examples else 0
        return cls(each, np.concatenate(lengths) if lengths else None)


def _first(files: Sequence[str], packing: Packing) -> Iterator[Packed]:
    left = SAMPLE_EXAMPLES
    for file in files:
        records = records_of(file).take(left)
        for serialized in records.batch(SAMPLE_EXAMPLES):
            yield packing.parse(serialized)
            left -= len(serialized)
        if left <= 0:
            return


def packed_bytes(packed: Packed) -> int:
    """Bytes of memory that packed examples take."""
    return sum(
        _string_bytes(part) if part.dtype == tf.string else part.dtype.size * int(tf.size(part)) for part in packed
    )


def _string_bytes(strings: tf.Tensor) -> int:
    outside = tf.strings.length(strings)
    return STRING_BYTES * int(tf.size(strings)) + int(tf.reduce_sum(tf.where(outside < STRING_BYTES - 1, 0, outside)))


def _count_records(file: str) -> tuple[int, int]:
    """The number of records in the first part of the file, and the bytes of the file that they take."""
    unpack = _unpacker() if file.endswith(".gz") else bytes
    data, consumed = bytearray(), 0
    with tf.io.gfile.GFile(file, "rb") as raw:
        while len(data) < SAMPLE_BYTES and (chunk := raw.read(CHUNK)):
            data += unpack(chunk)
            consumed += len(chunk)
    return _count_framed(bytes(data)), consumed


def _unpacker() -> Callable[[bytes], bytes]:
    """Return a function that decompresses a gzip file in pieces; the file may consist of several members."""
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


def _count_framed(data: bytes) -> int:
    """The number of records in TFRecord framing: length (8 bytes), its checksum (4), the record, its checksum (4)."""
    position = records = 0
    while position + 12 <= len(data):
        position += 16 + struct.unpack_from("<Q", data, position)[0]
        records += 1
    return records


def free_memory() -> int:
    """Bytes that this process can still allocate: the free memory of the machine, within the container's limit."""
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


def format_bytes(size: int) -> str:
    """Format a size as `21.3 GB`, in powers of ten."""
    value, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:,.0f} {units[0]}" if units[0] == "bytes" else f"{value:,.1f} {units[0]}"
