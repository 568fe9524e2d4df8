"""What must hold of the data as a whole before and after it is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headrace.components.example_gen.sources import ScanResult, Skipped
from headrace.components.example_gen.sources.base import suggest_columns
from headrace.configs.data import DataConfig
from headrace.configs.errors import DataError


def check_key(data: DataConfig, columns: Sequence[str]) -> None:
    """Raise DataError if the split key is no column."""
    if data.split_key is not None and data.split_key not in columns:
        raise DataError(
            f"`data.split_key` is {data.split_key!r}, which is no column",
            hint=suggest_columns(data.split_key, tuple(columns)),
        )


def check_rows(survey: ScanResult) -> None:
    """Raise DataError if a file has no rows."""
    for file, rows in survey.rows.items():
        if not rows:
            raise DataError("the file has no rows that can be read", file=file, hint="Remove it, or fill it")


def check_columns(data: DataConfig, columns: Collection[str]) -> None:
    """Raise DataError if a column that the config asks for is nowhere in the data."""
    known = frozenset(columns)
    for name in data.columns if isinstance(data.columns, tuple) else ():
        if name not in known:
            what = f"`data.columns` names {name!r}, which is no column"
            raise DataError(what, hint=suggest_columns(name, tuple(columns)))


def check_written(survey: ScanResult, rows: Mapping[str, int], files: str, skipped: int = 0) -> None:
    """Raise DataError if not all rows that were found have been written, or more; `skipped` were left out since."""
    found, written = sum(survey.rows.values()), sum(rows.values()) + skipped
    if found != written:
        what = f"{found:,} rows were found at the first look, and {written:,} while they were written"
        raise DataError(what, file=files, hint="Run again when nothing writes to the data")


def check_fraction(data: DataConfig, skipped: Skipped, rows: int) -> None:
    """Raise DataError if more records were left out than the config allows."""
    if skipped.count > data.max_bad_fraction * (rows + skipped.count):
        first = "\n  ".join(skipped.told[:5])
        raise DataError(
            f"{skipped.count:,} of {rows + skipped.count:,} records cannot be read, more than"
            f" `data.max_bad_fraction` ({data.max_bad_fraction:g}) allows; the first ones:\n  {first}",
            hint="Mend the data, or raise `data.max_bad_fraction`",
        )


def check_splits(data: DataConfig, rows: Mapping[str, int]) -> None:
    """Raise DataError if a split has no rows."""
    same = f"rows with the same value of {data.split_key!r} (`data.split_key`)"
    alike = same if data.split_key else "rows that are equal"
    for split in data.splits:
        if not rows.get(split):
            raise DataError(
                f"split {split!r} came out empty; rows in all: {sum(rows.values())}",
                hint=f"All {alike} go to the same split, so there may be too few different ones:"
                " use data with more of them, give the split more hash buckets in `data.splits`, or try another"
                " `data.shuffle_seed`",
            )
