"""CRC32C by linear algebra.

A CRC without its usual start and end is linear: what a byte does to it depends on the byte and on how many bytes
follow, whatever those are. So a state is moved on over `n` bytes of zeros by four look-ups, one for each of its bytes,
and what the bytes really are is added by exclusive or. No place is out of its table; mode="wrap" is quicker than to
check that.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from google_crc32c import value as crc32c
from numpy.typing import NDArray

START = 0xFFFFFFFF
"""The state before the first byte; and what is added to the last one."""

_REFLECTED = 0x82F63B78
_KEPT = 2048
"""Tables of four KB."""

States = NDArray[np.uint32]


def moved(states: States, count: int) -> States:
    """Each state after `count` bytes of zeros."""
    if not count:
        return states.copy()
    return _looked_up(after(count), states)


def moved_by(states: States, counts: NDArray[np.integer], which: NDArray[np.integer]) -> States:
    """Each state after as many bytes of zeros as counts[which] says; few counts differ."""
    present, place = np.unique(counts, return_inverse=True)
    if len(present) == 1:
        return moved(states, int(present[0]))
    tables = np.stack([after(int(count)) for count in present])
    start = (place << 10).take(which)
    digits = _digits(states)
    flat = tables.reshape(-1)
    out = flat.take(start + digits[:, 0], mode="wrap")
    for number in range(1, 4):
        start += 256
        out ^= flat.take(start + digits[:, number], mode="wrap")
    return out


@lru_cache(maxsize=_KEPT)
def after(count: int) -> NDArray[np.uint32]:
    """What each value of each byte of a state becomes after `count` bytes of zeros: uint32 [4, 256]."""
    if count == 0:
        return np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    if count == 1:
        return _after_one(after(0))
    half = after(count // 2)
    table = _looked_up(half, half.reshape(-1)).reshape(4, 256)
    return _looked_up(after(1), table.reshape(-1)).reshape(4, 256) if count % 2 else table


def of_bytes(digits: NDArray[np.uint8], following: int) -> States:
    """What bytes (uint8 [n, width]) add to a state, where `following` bytes come after them."""
    width = digits.shape[1]
    out = after(following + width)[0].take(digits[:, 0], mode="wrap")
    for place in range(1, width):
        out ^= after(following + width - place)[0].take(digits[:, place], mode="wrap")
    return out


def of_text(text: bytes) -> int:
    """What a text adds to a state at its end."""
    return int(crc32c(text)) ^ int(crc32c(bytes(len(text))))


@lru_cache(maxsize=_KEPT)
def of_text_before(text: bytes, following: int) -> np.uint32:
    """What a text adds to a state `following` bytes behind it; for texts that come again and again."""
    return np.uint32(moved(np.array([of_text(text)], np.uint32), following)[0])


def masked(states: States) -> NDArray[np.uint32]:
    """The checksums of TFRecords from the states behind the last byte: uint32 [n], little endian."""
    crc = states ^ np.uint32(START)
    return (((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)).astype("<u4")


def _after_one(states: NDArray[np.uint32]) -> NDArray[np.uint32]:
    for _ in range(8):
        states = (states >> np.uint32(1)) ^ (states & np.uint32(1)) * np.uint32(_REFLECTED)
    return states


def _looked_up(table: NDArray[np.uint32], states: States) -> States:
    digits = _digits(states)
    out = table[0].take(digits[:, 0], mode="wrap")
    for number in range(1, 4):
        out ^= table[number].take(digits[:, number], mode="wrap")
    return out


def _digits(states: States) -> NDArray[np.uint8]:
    return np.ascontiguousarray(states).astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)
