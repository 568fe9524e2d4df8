"""Whether a split's parsed examples fit in memory, found out before they are read."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import tensorflow as tf

from trainer.packing import Packed, Packing

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
_CGROUP = Path("/sys/fs/cgroup")


class Cache(NamedTuple):
    """Where the parsed examples are kept, and why, in words for the training record."""

    memory: bool
    why: str


def choose_cache(
    choice: Literal["auto", "memory", "none"],
    files: Sequence[str],
    measure: Callable[[], int],
    free: int | None = None,
) -> Cache:
    """Decide for `train.input.cache`.

    files: of all the splits that would be kept; measure: bytes of a parsed example, asked for with `auto` alone; free:
    bytes of memory, looked up if None.
    """
    if choice != "auto":
        kept = "parsed examples stay in memory" if choice == "memory" else "examples are read and parsed in every epoch"
        return Cache(choice == "memory", f"{kept}, as `train.input.cache: {choice}` says")
    examples = estimate_examples(files)
    free = free_memory() if free is None else free
    each = measure()
    size = examples * each
    fits = size * SHARE <= free
    verb = "fit in a quarter" if fits else "take more than a quarter"
    does = "they stay in memory" if fits else "examples are read and parsed in every epoch"
    sizes = f"{in_words(size)} ({examples:,} times {each} bytes) {verb} of {in_words(free)} free"
    return Cache(fits, f"about {sizes}: {does}")


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


def bytes_per_example(files: Sequence[str], packing: Packing) -> int:
    """Of the first examples in the files when they are parsed, rounded up; 0 if there are none."""
    size = examples = 0
    for file in files:
        records = tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else "").take(PARSED - examples)
        for serialized in records.batch(PARSED):
            packed = packing.parse(serialized)
            size, examples = size + _bytes(packed), examples + int(packing.rows(packed))
        if examples >= PARSED:
            break
    return -(-size // examples) if examples else 0


def _bytes(packed: Packed) -> int:
    return sum(
        _string_bytes(part) if part.dtype == tf.string else part.dtype.size * int(tf.size(part)) for part in packed
    )


def _string_bytes(strings: tf.Tensor) -> int:
    outside = tf.strings.length(strings)
    return POINTER * int(tf.size(strings)) + int(tf.reduce_sum(tf.where(outside < POINTER - 1, 0, outside)))


def _count_records(file: str) -> tuple[int, int]:
    """Records in the first part of the file, and the bytes of the file that they take."""
    packed = file.endswith(".gz")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    data, consumed = bytearray(), 0
    with tf.io.gfile.GFile(file, "rb") as raw:
        while len(data) < SAMPLE and (chunk := raw.read(CHUNK)):
            data += unpacker.decompress(chunk) if packed else chunk
            consumed += len(chunk)
    return _framed(bytes(data)), consumed


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
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux: assume that half of it is taken
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def _free_in_container() -> int:
    try:
        limit = int((_CGROUP / "memory.max").read_text())  # the word `max` where there is no limit
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 1 << 62
    return max(limit - used + int(stat.get("inactive_file", 0)), 0)


def in_words(size: int) -> str:
    """`21.3 GB`, in powers of ten."""
    value, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:,.0f} {units[0]}" if units[0] == "bytes" else f"{value:,.1f} {units[0]}"
