"""CRC32C of many rows at a time, by linear algebra.

Without its initial and final inversion a CRC is linear over GF(2): a byte's contribution depends only on the byte and
on the number of bytes that follow, whatever they are. So a state is advanced over `n` zero bytes by four table
look-ups, one for each of its bytes, and the contributions of the actual bytes are added by exclusive or.

Every index below is within its table; `mode="wrap"` is used because it is faster than the bounds check.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from google_crc32c import value as crc32c
from numpy.typing import NDArray

INITIAL = 0xFFFFFFFF
"""The state before the first byte; also inverts the state after the last."""

_REFLECTED = 0x82F63B78
"""Castagnoli's polynomial, with its bits reversed."""
_MAX_TABLES = 2048
"""Each table takes 4 KiB."""

States = NDArray[np.uint32]


def advanced(states: States, count: int) -> States:
    """Each state after `count` zero bytes."""
    if not count:
        return states.copy()
    return _looked_up(after(count), states)


def advanced_by(states: States, counts: NDArray[np.integer], which: NDArray[np.integer]) -> States:
    """Each state after `counts[which]` zero bytes. `counts` should have few distinct values: each takes a table."""
    present, place = np.unique(counts, return_inverse=True)
    if len(present) == 1:
        return advanced(states, int(present[0]))
    tables = np.stack([after(int(count)) for count in present])
    start = (place << 10).take(which)  # 4 x 256 entries per table
    digits = _digits(states)
    flat = tables.reshape(-1)
    out = flat.take(start + digits[:, 0], mode="wrap")
    for number in range(1, 4):
        start += 256
        out ^= flat.take(start + digits[:, number], mode="wrap")
    return out


@lru_cache(maxsize=_MAX_TABLES)
def after(count: int) -> NDArray[np.uint32]:
    """What each value of each byte of a state becomes after `count` zero bytes: uint32 [4, 256].

    The table of 2n zero bytes is that of n applied twice, so `count` bytes take log2(count) steps.
    """
    if count == 0:
        return np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    if count == 1:
        return _after_one(after(0))
    half = after(count // 2)
    table = _looked_up(half, half.reshape(-1)).reshape(4, 256)
    return _looked_up(after(1), table.reshape(-1)).reshape(4, 256) if count % 2 else table


def of_bytes(digits: NDArray[np.uint8], following: int) -> States:
    """The contributions of rows of bytes (uint8 [n, width]) that are followed by `following` bytes."""
    width = digits.shape[1]
    out = after(following + width)[0].take(digits[:, 0], mode="wrap")
    for place in range(1, width):
        out ^= after(following + width - place)[0].take(digits[:, place], mode="wrap")
    return out


def of_string(text: bytes) -> int:
    """The contribution of a byte string that nothing follows."""
    return int(crc32c(text)) ^ int(crc32c(bytes(len(text))))


def of_strings(texts: Sequence[bytes]) -> States:
    """The same of each of many byte strings: uint32 [n]."""
    sizes, which = np.unique(np.fromiter(map(len, texts), np.int64, len(texts)), return_inverse=True)
    zeros = np.array([crc32c(bytes(size)) for size in sizes.tolist()], np.uint32)
    return np.fromiter(map(crc32c, texts), np.uint32, len(texts)) ^ zeros.take(which)


@lru_cache(maxsize=_MAX_TABLES)
def of_string_before(text: bytes, following: int) -> np.uint32:
    """The contribution of a byte string that is followed by `following` bytes; cached, for strings that recur."""
    return np.uint32(advanced(np.array([of_string(text)], np.uint32), following)[0])


def masked(states: States) -> NDArray[np.uint32]:
    """The masked checksums that TFRecords store, from the states after the last byte: uint32 [n], little endian."""
    crc = states ^ np.uint32(INITIAL)
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
