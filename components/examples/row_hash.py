"""A 64-bit hash of every row, column by column.

The hash depends only on the values and on the names of the columns: not on the order of rows or columns, not on files,
blocks or workers, and not on whether an integer was read as int or as float. So a row keeps its split when other rows
widen the type of its column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.exact_integers import EXACT_IN_FLOAT64
from headrace.components.examples.arrow_columns import (
    IntegerRange,
    bytes_of,
    distinct_values,
    is_list,
    numbers_of,
    offsets_of,
    stacks,
    valid_of,
    worth_stacking,
)

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: Knuth's multiplicative hashing
_LOW_BITS = np.uint64(0xFFFF)
FEW_ROWS, COPIES = 1000, 10
"""A batch repeats its rows if it has at most this many different ones, each at least this many times on average."""
SHORT = 64
"""Longest texts, in bytes, whose hashes are computed letter by letter, for all texts at once, if they are as long."""
FIRST_ROWS = 8192
"""The rows whose low bits are counted before those of all rows are sorted."""
_SHIFT, _FACTORS = np.uint64(33), (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_NAN = np.float64(np.nan).view(np.uint64)
_MISSING, _EMPTY = np.uint64(0x6D697373696E6721), np.uint64(0x656D7074796C7374)


def row_hash(batch: pa.RecordBatch, columns: Sequence[str], seed: int) -> np.ndarray:
    """uint64 [rows]: rows that agree in `columns` have the same hash."""
    total = np.full(batch.num_rows, _salt(str(seed)), np.uint64)
    chosen = batch.select(columns) if worth_stacking(batch) else batch
    if worth_stacking(chosen):
        salts = np.array([_salt(name) for name in columns])
        for stack in stacks(chosen):
            hashes = stack.per_column(_column_hash(stack.values)) ^ salts[stack.positions, None]
            total += mix(hashes).sum(axis=0, dtype=np.uint64)
        return mix(total)
    for name in columns:
        column, salt = batch.column(name), _salt(name)
        distinct = distinct_values(column)
        if distinct is None:
            total += mix(_column_hash(column) ^ salt)
        else:
            values, which = distinct
            hashes = _column_hash(values.values if isinstance(values, IntegerRange) else values)
            total += mix(hashes ^ salt).take(which)
    return mix(total)


def spread_copies(hashes: np.ndarray) -> np.ndarray:
    """The hashes of a batch's rows, uint64 [rows]; of a table that repeats few different rows, one for each copy.

    A table of three categories may have 24 different rows among thousands. If all copies of a row went to one split,
    the train split would miss some of the rows altogether, and eval would judge on those. Copies of a row in a table
    of many different rows, which more likely are the same event twice, keep one hash.
    """
    if len(hashes) < COPIES or np.count_nonzero(np.bincount(hashes[:FIRST_ROWS] & _LOW_BITS)) > FEW_ROWS:
        return hashes  # more different low bits among the first rows, so more different rows
    different, which, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    if len(different) > FEW_ROWS or len(hashes) < COPIES * len(different):
        return hashes
    in_order = np.argsort(which, kind="stable")
    copy = np.empty(len(hashes), np.uint64)
    copy[in_order] = np.arange(len(hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.where(copy > 0, mix(hashes + copy * _ODD), hashes)


def split_numbers(hashes: np.ndarray, buckets: Mapping[str, int]) -> np.ndarray:
    """The number of the split that a hash belongs to, in the order of `buckets`: int64 [hashes]."""
    bounds = np.cumsum(list(buckets.values()))
    return np.searchsorted(bounds, (hashes % np.uint64(bounds[-1])).astype(np.int64), side="right")


def mix(numbers: np.ndarray) -> np.ndarray:
    """MurmurHash3's finalizer: every bit of the input reaches every bit of the output."""
    out = numbers >> _SHIFT
    out ^= numbers
    for factor in _FACTORS:
        out *= factor
        out ^= out >> _SHIFT
    return out


def _salt(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def _column_hash(column: pa.Array) -> np.ndarray:
    if pa.types.is_null(column.type):
        return np.full(len(column), _MISSING, np.uint64)
    if is_list(column.type):
        hashes = _list_hash(column)
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        hashes = mix(_number_bits(numbers_of(column)) + _ODD)
    else:
        hashes = text_hash(column.cast(pa.binary()).fill_null(b""))
    valid = valid_of(column)
    return hashes if valid is None else np.where(valid, hashes, _MISSING)


def _list_hash(column: pa.Array) -> np.ndarray:
    """The hash of a list combines those of its values, in order. A list of one value has the hash of the value, so that
    a row keeps its split when other rows make its column multivalued.
    """
    lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    values, offsets = _column_hash(column.flatten()), np.cumsum(np.append(0, lengths))
    hashes = _sequence_hash(values, offsets)
    single = lengths == 1
    hashes[single] = values[offsets[:-1][single]]
    hashes[lengths == 0] = _EMPTY
    return hashes


def _number_bits(numbers: np.ndarray) -> np.ndarray:
    """The bits of each number as a double, the same for 3 and 3.0; an integer too large for a double keeps its own."""
    doubles = numbers.astype(np.float64)
    doubles += 0.0  # makes -0.0 the same as 0.0
    bits = doubles.view(np.uint64)
    if numbers.dtype.kind == "f":
        bits[np.isnan(doubles)] = _NAN
    elif len(numbers) and (numbers.max() > EXACT_IN_FLOAT64 or numbers.min() < -EXACT_IN_FLOAT64):
        wide = (numbers > EXACT_IN_FLOAT64) | (numbers < -EXACT_IN_FLOAT64)
        bits[wide] = numbers[wide].view(np.uint64)
    return bits


def text_hash(column: pa.BinaryArray) -> np.ndarray:
    """uint64 [texts]: a hash of each text. None of them may be null."""
    if not len(column):
        return np.zeros(0, np.uint64)
    offsets, letters = offsets_of(column), bytes_of(column)
    sizes = np.diff(offsets)
    width, present = int(sizes.max()), np.flatnonzero(sizes)
    if len(column) >= FEW_ROWS and width <= SHORT and width * len(present) == len(letters):  # all but "" are alike
        hashes = np.zeros(len(column), np.uint64)
        hashes[present] = _hash_of_width(letters.reshape(len(present), width))
        return hashes
    return _sequence_hash(_TABLE.take(letters, mode="wrap"), offsets - offsets[0])


def _hash_of_width(letters: np.ndarray) -> np.ndarray:
    """What `_sequence_hash` returns for runs of one length: uint64 [texts] of uint8 [texts, width]."""
    width = letters.shape[1]
    polynomial = np.full(len(letters), width * int(_ODD) % 2**64, np.uint64)
    for place, power in enumerate(_powers(_ODD, width)):
        polynomial += (_TABLE * power).take(letters[:, place], mode="wrap")
    return mix(polynomial)


def _sequence_hash(items: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """A hash of each run of items (uint64) from one offset to the next: a polynomial, the sum of item i * odd^i.

    A cumulative sum over all runs gives each run's sum as the difference of two of its values; multiplying by the
    inverse power makes the exponents count from the run's own start. All modulo 2^64.
    """
    running = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(items * _powers(_ODD, len(items)), out=running[1:])
    starts, ends = offsets[:-1], offsets[1:]
    polynomial = (running[ends] - running[starts]) * _powers(_INVERSE, len(running))[starts]
    return mix(polynomial + (ends - starts).astype(np.uint64) * _ODD)


_TABLE = mix(np.arange(1, 257, dtype=np.uint64) * _ODD)
_INVERSE = np.uint64(pow(int(_ODD), -1, 2**64))
_power_tables: dict[int, np.ndarray] = {}


def _powers(base: np.uint64, count: int) -> np.ndarray:
    """base^0, base^1, ... modulo 2^64; cached between blocks."""
    table = _power_tables.get(int(base))
    if table is None or len(table) < count:
        table = np.full(max(count, 1 << 16), base, np.uint64)
        table[0] = 1
        np.multiply.accumulate(table, out=table)
        _power_tables[int(base)] = table
    return table[:count]
