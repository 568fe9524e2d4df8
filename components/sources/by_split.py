"""A source of which each split has data of its own: one reader for each split, and parts that know their split.

source = SourceBySplit.of({"train": CsvFiles(...), "test": CsvFiles(...)}, options)
source.parts(parallel_map)[0].split     # "train"
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.components.examples.parts import PartOfSplit
from headrace.components.sources.base import (
    ParallelMap,
    ReadOptions,
    Result,
    ScanResult,
    Source,
    Task,
)
from headrace.components.sources.types import Kind


@dataclass(frozen=True)
class SourceBySplit:
    """The data of all splits.

    Attributes:
        sources: the data of each split.
        unselected: the same with all columns.
        names: what each of them is called in messages.
        options: how they are read.
    """

    sources: Mapping[str, Source]
    unselected: Mapping[str, Source]
    names: Mapping[str, str]
    options: ReadOptions

    def columns(self, needed: Collection[str] | None = None) -> list[str]:
        """The columns of all splits, in the order of the first one that has them.

        Raises DataError if a split lacks one, unless records of this kind of source may lack columns.

        needed: the columns that all splits need to have; None for those that are read.
        """
        if not any(getattr(source, "open_ended", False) for source in self.sources.values()):
            all_columns = {split: source.columns() for split, source in self.unselected.items()}
            check_columns_agree(all_columns, self.names, self.options.columns if needed is None else needed)
        return list(dict.fromkeys(name for source in self.sources.values() for name in source.columns()))

    def parts(self, parallel_map: ParallelMap) -> list[PartOfSplit]:
        """The parts of each split, one after the other."""
        parts = {split: source.parts(_Labelled(parallel_map, split)) for split, source in self.sources.items()}
        check = next((getattr(source, "check_splits", None) for source in self.sources.values()), None)
        if check is not None:
            check(parts)
        return [PartOfSplit(split, part) for split, own in parts.items() for part in own]

    def scan(self, part: PartOfSplit, declared: Mapping[str, Kind]) -> ScanResult:
        """Scan a part, whose rows count for its split."""
        return _counted(part, self.sources[part.split].scan(part.part, declared))

    def batches(self, part: PartOfSplit, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        return self.sources[part.split].batches(part.part, kinds)


class RowScannerBySplit(SourceBySplit):
    """The same for sources whose scan reads every column."""

    def scan_rows(
        self, part: PartOfSplit, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """Like `scan`; `on_batch` receives the columns."""
        source: Any = self.sources[part.split]
        return _counted(part, source.scan_rows(part.part, declared, on_batch))


def check_columns_agree(
    columns: Mapping[str, Sequence[str]], names: Mapping[str, str], needed: Collection[str] | None
) -> None:
    """Raise DataError if a split lacks a column that another has.

    columns: of each split; names: what each split's data is called; needed: the columns that matter, None for all.
    """
    for split, own in columns.items():
        known = frozenset(own)
        for other, theirs in columns.items():
            lacking = (name for name in theirs if name not in known)
            missing = next((name for name in lacking if needed is None or name in needed), None)
            if missing is not None:
                raise DataError(
                    f"there is no such column in the data of {split}, but {names[other]} has one, for {other}",
                    file=names[split],
                    column=missing,
                    hint="All splits need the columns that are read; `data.columns: used` leaves out those that the"
                    " config does not name. If this is the label, the rows are for `headrace predict`, and not for"
                    f" training and evaluation: take {split} out of `data.source`",
                )


def _counted(part: PartOfSplit, result: ScanResult) -> ScanResult:
    return replace(result, splits={part.split: sum(result.rows.values())})


@dataclass(frozen=True)
class _Labelled:
    """A parallel map whose labels contain the split, because Beam's must differ."""

    parallel_map: ParallelMap
    split: str

    def __call__(self, label: str, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> list[Result]:
        return self.parallel_map(f"{label}-{self.split}", function, tasks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parallel_map, name)
