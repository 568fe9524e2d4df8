"""Checks of the data as a whole, before and after it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from headrace.common.errors import DataError
from headrace.common.names import join_names, join_or
from headrace.components.example_gen.shards.group_split import GroupRows, key_name
from headrace.components.sources import ScanResult, Skipped
from headrace.components.sources.base import suggest_columns
from headrace.configs.schema.data import DataConfig

MOST_CLASSES = 8
"""Classes that a message lists."""


def check_key(data: DataConfig, columns: Sequence[str]) -> None:
    """Raise DataError if a column that decides the split is not a column of the data."""
    for setting, name in (
        *(("split_key", name) for name in data.split_keys),
        ("split_by", data.split_by),
        ("split_column", data.split_column),
        ("stratify", data.stratify if isinstance(data.stratify, str) else None),
    ):
        if name is not None and name not in columns:
            what = f"`data.{setting}` {'has' if setting == 'split_key' and len(data.split_keys) > 1 else 'is'} {name!r}"
            what = f"{what}, which is not a column"
            raise DataError(what, hint=suggest_columns(name, tuple(columns)))


def check_rows(scan: ScanResult) -> None:
    """Raise DataError if a file has no rows."""
    for file, rows in scan.rows.items():
        if not rows:
            raise DataError("the file has no rows, or none that can be read", file=file, hint="Remove it, or add rows")


def check_columns(data: DataConfig, columns: Collection[str]) -> None:
    """Raise DataError if a column in `data.columns` is nowhere in the data."""
    known = frozenset(columns)
    for name in data.columns if isinstance(data.columns, tuple) else ():
        if name not in known:
            what = f"`data.columns` names {name!r}, which is not a column"
            raise DataError(what, hint=suggest_columns(name, tuple(columns)))


def check_written(scan: ScanResult, rows: Mapping[str, int], files: str, skipped: int = 0) -> None:
    """Raise DataError if the number of rows changed between scanning and writing; `skipped` were left out."""
    found, written = sum(scan.rows.values()), sum(rows.values()) + skipped
    if found != written:
        what = f"the scan found {found:,} rows, but {written:,} were there when they were written"
        raise DataError(what, file=files, hint="Run again when nothing writes to the data")


def thin_classes(column: str, classes: Mapping[str, Mapping[str, int]], splits: Sequence[str]) -> Iterator[str]:
    """A line about the classes of which a split has no row, the largest first.

    Args:
        column: the column of the classes.
        classes: the rows of each class in each split.
        splits: the splits that should have every class.
    """
    lacking = {value: [split for split in splits if not rows.get(split)] for value, rows in classes.items()}
    thin = sorted(
        (value for value, absent in lacking.items() if absent), key=lambda value: -sum(classes[value].values())
    )
    each = [
        f"{value!r} ({sum(classes[value].values())} row{'s'[: sum(classes[value].values()) != 1]}, none in"
        f" {join_or(lacking[value])})"
        for value in thin
    ]
    if each:
        yield f"too few rows for each split to have some of every class of {column!r}: {join_names(each, MOST_CLASSES)}"


def check_fraction(data: DataConfig, skipped: Skipped, rows: int) -> None:
    """Raise DataError if more records were skipped than `data.max_bad_fraction` allows."""
    if skipped.count > data.max_bad_fraction * (rows + skipped.count):
        first = "\n  ".join(skipped.reported[:5])
        raise DataError(
            f"{skipped.count:,} of {rows + skipped.count:,} records cannot be read, more than"
            f" `data.max_bad_fraction` ({data.max_bad_fraction:g}) allows; the first ones:\n  {first}",
            hint="Correct the data, or raise `data.max_bad_fraction`",
        )


def check_splits(data: DataConfig, rows: Mapping[str, int], dropped: int = 0, groups: GroupRows | None = None) -> None:
    """Raise DataError if a split has no rows.

    Args:
        data: says how rows are split.
        rows: of each split.
        dropped: the rows that were dropped before, because they have no label.
        groups: the rows of each group, with `data.split_key`.
    """
    without = f", besides {dropped:,} without a label, which `label.missing: drop` leaves out" if dropped else ""
    hint = (
        "All equal rows go to the same split, so there may be too few distinct ones: use more data, give the split more"
        " hash buckets in `data.splits`, or try another `data.shuffle_seed`"
    )
    if data.split_keys:
        number = groups.number if groups and groups.rows else "no"
        hint = (
            f"All rows with the same {key_name(data.split_keys)} (`data.split_key`) go to the same split, and there"
            f" {'is' if number == '1' else 'are'} {number} such group{'s'[: number != '1']}: use data of more, give the"
            " split more hash buckets in `data.splits`, or try another `data.shuffle_seed`"
        )
    if data.split_by is not None:
        hint = f"Rows with the same {data.split_by!r} (`data.split_by`) stay together, and too many have the same"
    if data.split_column is not None:
        hint = f"No row names it in {data.split_column!r} (`data.split_column`): remove it from `data.splits`, or list"
        hint += " its values in `data.split_values`"
    for split in data.splits:
        if not rows.get(split):
            raise DataError(
                f"split {split!r} is empty, out of {sum(rows.values())} rows in all{without}",
                hint=hint,
            )
