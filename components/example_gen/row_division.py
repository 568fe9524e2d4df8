"""What a pass over the rows decides before they are written: where they are divided by time, or class by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.components.example_gen.required import RequiredColumn, with_value
from headrace.components.example_gen.shards.stratified_split import StratifiedSplit, hashes_by_class
from headrace.components.example_gen.shards.time_split import TimeSplit, count_times
from headrace.components.example_gen.shards.write import ReadPart
from headrace.components.examples.parts import files_of_part, split_of_part
from headrace.components.sources import ParallelMap, ScanResult
from headrace.components.spans.manifest import Span
from headrace.configs.schema.data import DataConfig


@dataclass(frozen=True)
class RowsToDivide:
    """The rows of one span.

    Attributes:
        data: the config.
        parts: the parts of the rows.
        read: reads a part.
        parallel_map: runs the pass over the parts.
        required: the column without a value in which a row is dropped; None for none.
    """

    data: DataConfig
    parts: Sequence[object]
    read: ReadPart
    parallel_map: ParallelMap
    required: RequiredColumn | None = None

    def by_time(self) -> TimeSplit | None:
        """What divides the rows by time; None without `data.split_by`."""
        column = self.data.split_by
        if column is None:
            return None
        count = partial(_count_times, read=self.read, column=column, required=self.required)
        return TimeSplit.of(column, self.parallel_map("Times", count, list(enumerate(self.parts))), self.data.splits)

    def by_class(self, span: Span) -> StratifiedSplit | None:
        """What divides the rows of each class; None without `data.stratify`."""
        data, column = self.data, self.data.stratify
        if not isinstance(column, str):
            return None
        seed = data.shuffle_seed
        read_hashes = partial(_hashes_by_class, read=self.read, column=column, seed=seed, required=self.required)
        hashed = [(number, part) for number, part in enumerate(self.parts) if split_of_part(part) in {"", "train"}]
        buckets = {split: data.hashed_splits.get(split, 0) for split in data.splits}
        number = span.number if span.name else None
        return StratifiedSplit.of(column, seed, self.parallel_map("Classes", read_hashes, hashed), buckets, number)


def shares_of_splits(data: DataConfig, scan: ScanResult, only: str) -> Mapping[str, float]:
    """How much of the rows each split gets. only: the split of all rows; "" if they are divided."""
    own: Mapping[str, int] = {only: 1} if only else scan.splits
    if not own:
        return data.splits
    hashed = data.hashed_splits
    bucket = own.get("train", 0) / sum(hashed.values())
    return {split: bucket * hashed[split] if split in hashed else own.get(split, 0) for split in data.splits}


def _count_times(
    numbered: tuple[int, object], read: ReadPart, column: str, required: RequiredColumn | None
) -> pa.Table:
    number, part = numbered
    rows = (with_value(batch, required) for batch in read(number, part))
    return count_times(rows, column, files_of_part(part))


def _hashes_by_class(
    numbered: tuple[int, object], read: ReadPart, column: str, seed: int, required: RequiredColumn | None
) -> Mapping[str, Any]:
    number, part = numbered
    rows = (with_value(batch, required) for batch in read(number, part))
    return hashes_by_class(rows, column, seed, files_of_part(part))
