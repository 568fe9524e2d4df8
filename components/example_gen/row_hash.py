"""A 64-bit hash of every row, column by column.

The hash depends on the values and the columns' names alone: not on the order of rows or columns, on files, blocks or
workers, nor on whether a whole number was read as int or as float. So a row keeps its split when other rows make its
column's type wider.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: Knuth's multiplicative hashing
_EXACT = 2**53
_MISSING = np.uint64(0x6D697373696E6721)


def row_hash(batch: pa.RecordBatch, columns: Sequence[str], seed: int) -> np.ndarray:
    """uint64 [rows]: rows that agree in `columns` have the same hash."""
    total = np.full(batch.num_rows, _salt(str(seed)), np.uint64)
    for name in columns:
        total += mix(_column_hash(batch.column(name)) ^ _salt(name))
    return mix(total)


def mix(numbers: np.ndarray) -> np.ndarray:
    """MurmurHash3's finalizer: every bit of the input reaches every bit of the output."""
    numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return numbers ^ (numbers >> np.uint64(33))


def _salt(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def _column_hash(column: pa.Array) -> np.ndarray:
    if pa.types.is_null(column.type):
        return np.full(len(column), _MISSING, np.uint64)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        hashes = mix(_number_bits(column.fill_null(0).to_numpy(zero_copy_only=False)) + _ODD)
    else:
        hashes = _text_hash(column.fill_null("") if column.null_count else column)
    if column.null_count:
        hashes[~np.asarray(column.is_valid())] = _MISSING
    return hashes


def _number_bits(numbers: np.ndarray) -> np.ndarray:
    """The bits of the number as a double, the same for 3 and 3.0; an integer too large for one keeps its own."""
    doubles = numbers.astype(np.float64) + 0.0  # makes -0.0 the same as 0.0
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.uint64)
    if numbers.dtype.kind == "i":
        wide = (numbers > _EXACT) | (numbers < -_EXACT)
        bits[wide] = numbers[wide].view(np.uint64)
    return bits


def _text_hash(column: pa.Array) -> np.ndarray:
    """A polynomial over the bytes, modulo 2^64: the sum over i of table[byte i] * odd^i.

    One running sum over all the texts together gives each text's as a difference of two of its values; multiplying by
    the inverse power moves it to the text's own start.
    """
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = column.buffers()[2]
    if data is None or first == last:
        return mix(np.zeros(len(column), np.uint64))
    running = np.zeros(last - first + 1, np.uint64)
    letters = np.frombuffer(data, np.uint8)[first:last]
    np.cumsum(_TABLE[letters] * _powers(_ODD, len(letters)), out=running[1:])
    starts, ends = offsets[:-1] - first, offsets[1:] - first
    polynomial = (running[ends] - running[starts]) * _powers(_INVERSE, len(running))[starts]
    return mix(polynomial + (ends - starts).astype(np.uint64) * _ODD)


_TABLE = mix(np.arange(1, 257, dtype=np.uint64) * _ODD)
_INVERSE = np.uint64(pow(int(_ODD), -1, 2**64))
_power_tables: dict[int, np.ndarray] = {}


def _powers(base: np.uint64, count: int) -> np.ndarray:
    """base^0, base^1, ... modulo 2^64, kept between blocks."""
    table = _power_tables.get(int(base))
    if table is None or len(table) < count:
        table = np.full(max(count, 1 << 16), base, np.uint64)
        table[0] = 1
        np.multiply.accumulate(table, out=table)
        _power_tables[int(base)] = table
    return table[:count]
