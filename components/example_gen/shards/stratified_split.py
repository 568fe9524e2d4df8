"""Splitting by hash, class by class: each split gets the same share of every class, as closely as their rows allow.

hashes = [hashes_by_class(batches, "tip", seed=0) for batches in parts]
split = StratifiedSplit.of("tip", 0, hashes, {"train": 8, "eval": 1, "test": 1})
split.numbers(batch)                       # the number of each row's split
split.rows["1"]                            # {"train": 4, "eval": 1, "test": 1}

The rows of a class are ordered by their hash, and cut where the shares say. So the result depends on the rows alone and
not on their order, on files or on workers, and equal rows stay together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.common.errors import DataError
from headrace.components.examples.arrow_columns import is_list
from headrace.components.examples.row_hash import row_hash

BITS = 32
"""Bits of a hash by which rows are ordered, so that they take four bytes of memory each, of all rows together."""
MAX_CLASSES = 10_000
"""More different values than this are not classes."""


@dataclass(frozen=True)
class StratifiedSplit:
    """Where the rows of each class are cut.

    Attributes:
        name: the column of the classes.
        seed: of the hash.
        classes: the row of `limits` for each class.
        limits: the first hash after each split but the last: int64 [classes, splits - 1].
        splits: the number of each split among all splits: int64 [splits].
        rows: how many rows of each class each split gets.
    """

    name: str
    seed: int
    classes: Mapping[str, int]
    limits: NDArray[np.int64]
    splits: NDArray[np.int64]
    rows: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(
        cls,
        name: str,
        seed: int,
        hashes: Sequence[Mapping[str, NDArray[np.uint32]]],
        buckets: Mapping[str, int],
        span: int | None = None,
    ) -> StratifiedSplit:
        """Divide the rows of each class in the proportions of `buckets`. Raises DataError for too many classes.

        Args:
            name: the column of the classes.
            seed: of the hash.
            hashes: of the rows of each part, as `hashes_by_class` returns them.
            buckets: the share of each split in any unit; a split with 0 gets no rows.
            span: the number of the span that these rows are; None if they are all rows.
        """
        values = sorted({value for part in hashes for value in part})
        if len(values) > MAX_CLASSES:
            raise _error(f"there are {len(values):,} different values", name, None)
        ordered = [np.sort(np.concatenate([part[value] for part in hashes if value in part])) for value in values]
        sizes = np.array([len(own) for own in ordered], np.int64)
        named = [split for split, share in buckets.items() if share]
        order = np.argsort(sizes, kind="stable")  # the rarest class is rounded first
        wanted = np.empty((len(values), len(named)), np.int64)
        wanted[order] = apportion(sizes[order], [buckets[split] for split in named], span)
        cuts = [_cuts(*each) for each in zip(ordered, wanted, strict=True)]
        limits = np.array([[limit for limit, _ in own] for own in cuts], np.int64)
        limits = limits.reshape(len(values), len(named) - 1)
        rows = {}
        for value, own, size in zip(values, cuts, sizes.tolist(), strict=True):
            ends = [0, *(end for _, end in own), size]
            rows[value] = dict(zip(named, np.diff(ends).tolist(), strict=True))
        codes = {value: code for code, value in enumerate(values)}
        numbers = np.array([[*buckets].index(split) for split in named], np.int64)
        return cls(name, seed, codes, limits, numbers, rows)

    def numbers(self, batch: pa.RecordBatch, file: str | None = None) -> NDArray[np.int64]:
        """The number of each row's split: int64 [rows]."""
        values, codes = _classes(batch, self.name, file)
        limits = self.limits[np.array([self.classes[value] for value in values], np.int64)]
        after = _hashes(batch, self.seed)[:, None] >= limits[codes]
        return self.splits[after.sum(axis=1)]


def apportion(sizes: NDArray[np.int64], shares: Sequence[float], span: int | None = None) -> NDArray[np.int64]:
    """How many rows of each class each split gets: int64 [classes, splits].

    The splits are cut off one after the other, the last one first. Each takes its share of the rows that are left of a
    class, rounded up or down so that the sums over the classes so far are rounded too. Of all rows, each split gets one
    row of each class that has enough. Of a span, of which there will be more, that would give small splits too many:
    there the first rounding is that of a sequence of low discrepancy (Roberts 2018, R_d), so that the sums over spans
    are close to the shares as well.

    Args:
        sizes: the rows of each class.
        shares: of each split, in any unit.
        span: the number of the span; None for all rows.
    """
    counts, left = np.zeros((len(sizes), len(shares)), np.int64), sizes.copy()
    ratio = 1.5
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / len(shares))
    for split in range(len(shares) - 1, 0, -1):
        offset = math.fmod(0.5 + (span or 0) * ratio**-split, 1)
        share = shares[split] / sum(shares[: split + 1])
        taken = np.diff(np.floor(offset + share * np.cumsum(left)), prepend=0).astype(np.int64)
        if span is None:
            least = (left > split).astype(np.int64)
            taken = np.clip(taken, least, left - split * least)
        counts[:, split], left = taken, left - taken
    counts[:, 0] = left
    return counts


def hashes_by_class(
    batches: Iterable[pa.RecordBatch], name: str, seed: int, file: str | None = None
) -> dict[str, NDArray[np.uint32]]:
    """The hashes of the rows of each class: uint32 [rows of the class].

    Raises DataError for a value that is not a class.

    Args:
        batches: the rows.
        name: the column of the classes.
        seed: of the hash.
        file: where the rows come from, for messages.
    """
    found: dict[str, list[NDArray[np.uint32]]] = defaultdict(list)
    for batch in batches:
        values, codes = _classes(batch, name, file)
        hashes, order = _hashes(batch, seed), np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(values)))[:-1]
        for value, own in zip(values, np.split(hashes[order], ends), strict=True):
            found[value].append(own)
        if len(found) > MAX_CLASSES:
            raise _error(f"there are more than {MAX_CLASSES:,} different values", name, file)
    return {value: np.concatenate(each) for value, each in found.items()}


def spelled(value: object) -> str | None:
    """A value as text: a whole number without a fraction, which a column with missing values may give it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value) if value.is_integer() else value)
    return None if value is None else str(value)


def _classes(batch: pa.RecordBatch, name: str, file: str | None) -> tuple[list[str], NDArray[np.int64]]:
    """The classes as text, "" for a missing value; and the number of each row's class: int64 [rows]."""
    column = batch.column(name)
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if is_list(column.type):
        raise _error("the column holds lists", name, file)
    if pa.types.is_floating(column.type):
        numbers = column.drop_null().to_numpy()
        if len(fractions := numbers[np.isfinite(numbers) & (numbers != np.floor(numbers))]):
            raise _error(f"{fractions[0]} has a fraction", name, file)
    coded = column.dictionary_encode(null_encoding="encode")
    return [spelled(value) or "" for value in coded.dictionary.to_pylist()], coded.indices.to_numpy().astype(np.int64)


def _hashes(batch: pa.RecordBatch, seed: int) -> NDArray[np.uint32]:
    hashes = row_hash(batch, sorted(batch.schema.names), seed)
    return (hashes >> np.uint64(64 - BITS)).astype(np.uint32)


def _cuts(ordered: NDArray[np.uint32], wanted: NDArray[np.int64]) -> list[tuple[int, int]]:
    """For each split but the last the first hash after it, and the rows up to there: as near to the wanted number as
    equal rows allow.
    """
    cuts = []
    for rows in np.cumsum(wanted)[:-1].tolist():
        last = ordered[max(rows, 1) - 1]
        before, after = (int(np.searchsorted(ordered, last, side)) for side in ("left", "right"))
        with_last = bool(rows) and after - rows <= rows - before
        cuts.append((int(last) + with_last, after if with_last else before))
    return cuts


def _error(what: str, name: str, file: str | None) -> DataError:
    hint = "`data.stratify` takes a column of classes: texts or whole numbers that repeat"
    return DataError(what, file=file, column=name, hint=hint)
