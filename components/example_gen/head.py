"""A check of the first rows of the data before a run, which fails with the errors that the run would fail with.

head = read_head(data, source, numbers=["fare"])      # raises DataError
head.kinds["fare"]                                    # "string": it contains a text
why_not_numbers(data, head, "fare")                   # where the first text is
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import BadRecordError, DataError
from headrace.components.example_gen.checks import check_rows
from headrace.components.examples.parts import files_of_part
from headrace.components.examples.skips import MAX_SKIPPED, Skipped, others_of
from headrace.components.examples.tfexample.rounding import RoundingAccumulator
from headrace.components.sources.base import HasHead, Head, ReadOptions, Source, first_pieces
from headrace.components.sources.types import Kind, declared_types
from headrace.configs.loading.alike import ColumnMistake
from headrace.configs.schema.data import DataConfig

NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
"""A number as programs write it."""
INTEGER = r"^\s*[-+]?\d+\s*$"


@dataclass(frozen=True)
class FirstRows:
    """The first rows of some data.

    kinds: the declared kinds of the columns, or those found in these rows; rows: a bounded number of them, of those
    kinds, and all of them if `head.whole`; complete: whether they have all columns; infinite: the columns that must be
    numbers and contain an infinite one; skipped: the records that were skipped because they cannot be read;
    readable: the number of the others.
    """

    head: Head
    kinds: Mapping[str, Kind]
    rows: pa.Table
    complete: bool = True
    infinite: Collection[str] = ()
    skipped: Skipped = field(default_factory=Skipped)
    readable: int = 0


def read_head(
    data: DataConfig, source: Source, numbers: Collection[str], *, alone: bool = True, may_lack: bool = False
) -> FirstRows | None:
    """Read the first rows, and check that a run would accept them. None for a source without quick access to them.

    Raises DataError, as a run would, for a record that cannot be read, a value that is not of its declared type, and a
    number beyond float32.

    Args:
        data: the config. A missing schema file and types of missing columns are ignored.
        source: the data, or one span of it.
        numbers: the columns that must be numbers.
        alone: whether the source is all of the data.
        may_lack: whether the source may be without rows.
    """
    if not isinstance(source, HasHead):
        return None
    head = source.head()
    declared = _declared(data, head.source.columns())
    scan = head.source.scan(head.part if head.scanned is None else head.scanned, declared)
    if head.whole and not may_lack:
        check_rows(scan)
    kinds = {name: declared.get(name) or kind for name, kind in scan.kinds.items()}
    certain = kinds if head.settled and alone else {*declared, *numbers}
    roundings = RoundingAccumulator(skip_bad=data.on_bad_record == "skip", file=files_of_part(head.part))
    doubles = [name for name in numbers if kinds.get(name) == "float"]
    infinite: list[str] = []
    batches: list[pa.RecordBatch] = []
    rows = head.source.batches(head.part, kinds) if any(scan.rows.values()) else iter(())
    for batch in rows if head.whole else first_pieces((batch, len(batch), batch.nbytes) for batch in rows)[0]:
        checked = roundings.checked(batch.select([name for name in batch.schema.names if name in certain]))
        infinite += [name for name in doubles if pc.any(pc.is_inf(checked.column(name))).as_py()]
        batches.append(batch)
    complete = {*head.source.columns()} >= {*source.columns()}
    table = pa.Table.from_batches(batches) if batches else pa.table({})
    return FirstRows(head, kinds, table, complete, infinite, scan.skipped, sum(scan.rows.values()))


def mistyped_values(data: DataConfig, source: Source, error: DataError) -> ColumnMistake:
    """The first value of a column that is not of its declared type, and the others if few are.

    source: the data, of which only this column is read, without records that cannot be read.
    """
    if not isinstance(source, HasHead):
        return ColumnMistake.of(error)
    head = source.head()
    return _with_others_of_column(error, head.source, head.part, _declared(data, head.source.columns()))


def misdeclared(data: DataConfig, source: Source) -> dict[str, ColumnMistake]:
    """The columns that are declared as numbers, but are texts, or fractions where integers are declared.

    source: the data without records that cannot be read.
    """
    mistakes = dict[str, ColumnMistake]()
    if not isinstance(source, HasHead) or not (data.types or data.schema_file):
        return mistakes
    with suppress(DataError):
        given = source.head()
        kinds = given.source.scan(given.part, {}).kinds
        for name, kind in _declared(data, given.source.columns()).items():
            found = kinds.get(name, "missing")
            if (kind in {"int", "float"} and found.startswith("string")) or (kind, found) == ("int", "float"):
                skipped = given.source.scan(given.part, {name: kind}).skipped.reported
                first = next((each for each in skipped if f"column {name!r}: " in each), None)
                way_out = "Correct the values, or declare another type in `data.types.{column}`"
                mistakes |= {} if first is None else {name: ColumnMistake(first, (way_out,))}
    return mistakes


def _with_others_of_column(
    error: DataError, source: Source, part: object, declared: Mapping[str, Kind]
) -> ColumnMistake:
    """The first value, and the others, unless these are many, or costly to find."""
    others = list[str]()
    with suppress(DataError):
        if all(_are_mostly_numbers(source, part, name, kind) for name, kind in declared.items()):
            scan = source.scan(part, declared)
            readable = sum(scan.rows.values())
            if scan.skipped.are_few(readable):
                others = others_of(error, scan.skipped, readable, of_column=True)
    return ColumnMistake.of(error, others)


def _are_mostly_numbers(source: Source, part: object, column: str, kind: Kind) -> bool:
    """Whether a column is read as numbers, or integers, but for a few values."""
    number = INTEGER if kind == "int" else NUMBER
    texts = [batch.column(0).cast(pa.string()) for batch in source.batches(part, {column: "string"})]
    found = pc.mean(pc.match_substring_regex(pa.chunked_array(texts, pa.string()), number)).as_py()
    return found is not None and found >= 1 - MAX_SKIPPED


def why_not_numbers(data: DataConfig, first_rows: FirstRows, column: str) -> ColumnMistake:
    """Why a column is not read as numbers: the first value that is not a number, or else how to read it as numbers."""
    source: Any = first_rows.head.source
    strict: Source = replace(source, options=replace(source.options, skip_bad=False))
    kinds: dict[str, Kind] = {**first_rows.kinds, column: "float"}
    try:
        strict.scan(first_rows.head.part, {**_declared(data, strict.columns()), column: "float"})
        for _ in islice(strict.batches(first_rows.head.part, kinds), 1):
            pass
    except DataError as error:
        error = error.stopping() if isinstance(error, BadRecordError) else error  # as a text, the value is read
        alone: Source = replace(source, options=ReadOptions((column,), skip_bad=True))
        return _with_others_of_column(error, alone, first_rows.head.part, {column: "float"})
    what = "its first values are numbers, but stored as text, beyond int64, or written like codes, such as 007"
    return ColumnMistake(f"{what}; set `data.types.{column}: float` to read them as numbers")


def _declared(data: DataConfig, columns: Collection[str]) -> dict[str, Kind]:
    """The declared types of existing columns, from the config and from the schema file if it exists."""
    types = {name: kind for name, kind in data.types.items() if name in columns}
    schema = data.schema_file if data.schema_file and Path(data.schema_file).is_file() else None
    return declared_types(data.model_copy(update={"types": types, "schema_file": schema}), [*columns])
