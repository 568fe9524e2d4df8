"""Splits by group: all rows with the same value of a key, such as a customer, get the same split.

split = GroupSplit(("shop", "customer"), 0, {"train": 8, "eval": 1, "test": 1})
numbers, groups = split.numbers(batch)     # the number of each row's split, and how many rows each group has

The hash of a group's values alone decides its split. So a group has the same split in every file, in every span and in
every run, and nothing has to be known about other groups. Its number of rows decides nothing either: a split has its
share of the groups, and its share of the rows as far as no group is huge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.common.names import join_names
from headrace.components.examples.arrow_columns import missing_of
from headrace.components.examples.row_hash import row_hash, split_numbers, spread_copies

MOST_GROUPS, LARGEST = 1000, 500
"""Groups whose rows are counted; of more, only so many of the largest are remembered."""
FAR_OFF = 0.5
"""A split is far from its share of the rows if it has this fraction of it more or less."""


@dataclass(frozen=True)
class GroupRows:
    """How many rows the groups have.

    Attributes:
        rows: of each group, by the hash of its values (hexadecimal). If there are too many groups, only those of large
            ones, each of them too low by at most 1 in 500 of all rows for each time that small ones were left out.
        missing: the rows that are in no group, because they have no value in a column of the key.
        complete: whether all groups are in `rows`.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0
    complete: bool = True

    def __add__(self, other: GroupRows) -> GroupRows:
        rows = Counter(self.rows)
        rows.update(other.rows)
        complete = self.complete and other.complete
        if len(rows) > MOST_GROUPS:
            rows = Counter(dict(sorted(rows.items(), key=lambda group: (-group[1], group[0]))[:LARGEST]))
            complete = False
        return GroupRows(dict(rows), self.missing + other.missing, complete)

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], missing: int) -> GroupRows:
        """Count the rows of groups. hashes: of the rows that are in a group, uint64 [rows]."""
        coded = pa.array(hashes).dictionary_encode()
        different = coded.dictionary.to_numpy()
        counts = np.bincount(coded.indices.to_numpy(), minlength=len(different))
        complete = len(different) <= MOST_GROUPS
        if not complete:
            largest = np.lexsort((different, -counts))[:LARGEST]
            different, counts = different[largest], counts[largest]
        named = (f"{value:x}" for value in different.tolist())
        return cls(dict(zip(named, counts.tolist(), strict=True)), missing, complete)

    @property
    def number(self) -> str:
        """How many groups there are, in words."""
        return f"{len(self.rows):,}" if self.complete else f"over {MOST_GROUPS:,}"


@dataclass(frozen=True)
class GroupSplit:
    """Where groups go.

    Attributes:
        names: the columns of the key.
        seed: of the hash.
        buckets: the hash buckets of each split.
    """

    names: Sequence[str]
    seed: int
    buckets: Mapping[str, int]

    def numbers(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], GroupRows]:
        """The number of each row's split, int64 [rows], and the rows of each group.

        A row without a value in one of the columns is in no group. It is split as all rows are without a key.
        """
        hashes = row_hash(batch, sorted(self.names), self.seed)
        missing = np.zeros(batch.num_rows, np.bool_)
        for name in self.names:
            column = batch.column(name)
            missing |= missing_of(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
        groups = GroupRows.of(hashes[~missing], int(missing.sum()))
        if groups.missing:
            alone = batch.filter(pa.array(missing))
            hashes[missing] = spread_copies(row_hash(alone, sorted(alone.schema.names), self.seed))
        return split_numbers(hashes, self.buckets), groups


def group_lines(
    key: Sequence[str], groups: GroupRows, rows: Mapping[str, int], buckets: Mapping[str, int]
) -> Iterator[str]:
    """Lines about rows in no group, and about splits that are far from their share of the rows.

    No line names a group, because many keys stand for people.

    Args:
        key: the columns of the key.
        groups: the rows of the groups.
        rows: the rows of each split.
        buckets: the hash buckets of each split that groups are divided into.
    """
    every, names = sum(rows.get(split, 0) for split in buckets), key_name(key)
    if groups.missing:
        what = f"{groups.missing:,} of {every:,} rows have no value in {names}, and so are in no group"
        yield f"{what}: each of them is split by itself"
    shares = {
        split: (rows.get(split, 0) / max(every, 1), own / sum(buckets.values())) for split, own in buckets.items()
    }
    off = [split for split, (found, wanted) in shares.items() if abs(found - wanted) > FAR_OFF * wanted]
    largest = largest_groups(groups, buckets)
    if off and largest:
        where = max(largest, key=lambda split: shares[split][0] - shares[split][1])
        each = join_names(f"{split} {shares[split][0]:.1%} instead of {shares[split][1]:.1%}" for split in off)
        huge = f"of {groups.number} groups the largest in {where} has {largest[where] / every:.1%}"
        alike = f"rows with the same {names} stay together"
        yield f"splits are far from their share of the rows: {each}; {alike}, and {huge}"


def largest_groups(groups: GroupRows, buckets: Mapping[str, int]) -> dict[str, int]:
    """The rows of the largest group of each split that has one."""
    found: dict[str, int] = {}
    hashes = np.array([int(value, 16) for value in groups.rows], np.uint64)
    for number, rows in zip(split_numbers(hashes, buckets).tolist(), groups.rows.values(), strict=True):
        split = [*buckets][number]
        found[split] = max(found.get(split, 0), rows)
    return found


def key_name(key: Sequence[str]) -> str:
    """The columns of a key, for messages."""
    return " and ".join(map(repr, key))
