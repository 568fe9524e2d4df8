"""Check how the first rows of the data are split, as ExampleGen will split them.

violations = split_violations(config, rows, whole=True)     # splits without rows, values that name no split
notes = split_notes(config, rows)                           # classes too rare for every split, groups too large
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.common.errors import DataError
from headrace.configs.config import PipelineConfig
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.data import DataConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.example_gen.shards.group_split import GroupRows
    from headrace.components.example_gen.shards.stratified_split import StratifiedSplit
    from headrace.components.example_gen.shards.time_split import TimeSplit

MANY_ROWS = 10_000


def split_violations(
    config: PipelineConfig, rows: pa.Table, *, whole: bool, complete: bool = True
) -> Iterator[Violation]:
    """Values by which rows cannot be split; and splits that get none of the rows, if these are all (`whole`).

    complete: whether the rows have all columns, which decide their hashes.
    """
    yield from _splits(config, rows, whole=whole, complete=complete)
    if config.stratified in rows.column_names:
        yield from _stratified(config, rows)


def split_notes(config: PipelineConfig, rows: pa.Table) -> Iterator[Violation]:
    """What is odd about the splits of all rows, which have passed `split_violations`."""
    from headrace.components.example_gen.checks import thin_classes
    from headrace.components.example_gen.shards.group_split import group_lines

    data = config.data
    if config.stratified in rows.column_names:
        classes = _stratified_split(config, rows).rows
        for line in thin_classes(str(config.stratified), classes, [*data.hashed_splits]):
            yield ("data", "stratify"), line
    if data.split_keys and not data.own_splits and {*data.split_keys} <= {*rows.column_names}:
        count, groups = _divided(config, rows)
        for line in group_lines(data.split_keys, groups, count, data.splits):
            yield ("data", "split_key"), line


def _splits(config: PipelineConfig, rows: pa.Table, *, whole: bool, complete: bool) -> Iterator[Violation]:
    """Values that name no split; and splits that get none of the rows, if these are all.

    Many rows, which are rarely all equal, reach every split unless a column decides.
    """
    data = config.data
    by_value = data.split_column or data.split_by
    decides = {by_value} if by_value else {*data.split_keys}
    if data.own_splits or config.stratified:
        return
    if (not decides and (rows.num_rows > MANY_ROWS or not complete)) or not (whole or by_value):
        return
    from headrace.components.example_gen.checks import check_splits

    if not rows.num_rows or not (decides or {rows.column_names[0]}) <= {*rows.column_names}:
        return
    try:
        count, groups = _divided(config, rows)
    except DataError as error:
        yield ("data", "split_column" if data.split_column else "split_by"), str(error)
        return
    try:
        check_splits(data, count if whole else data.splits, rows.num_rows - count.total(), groups)
    except DataError as error:
        yield ("data", "splits"), str(error)


def _divided(config: PipelineConfig, rows: pa.Table) -> tuple[Counter[str], GroupRows]:
    """The number of rows of each split, and of each group. Rows without a label are left out if the run drops them."""
    from headrace.components.example_gen.required import RequiredColumn, with_value
    from headrace.components.example_gen.shards.group_split import GroupRows
    from headrace.components.example_gen.shards.layout import ShardLayout, SplitColumn

    data, names = config.data, [*config.data.splits]
    required = RequiredColumn.of(config.label)
    batches = [with_value(batch, required) for batch in rows.to_batches()]
    by_column = _time_split(data, batches) or SplitColumn.of(data)
    layout = ShardLayout(data.splits, {}, data.split_keys, data.shuffle_seed, split_column=by_column)
    count, groups = Counter[str](), GroupRows()
    for batch in batches:
        numbers, own = layout.split_numbers(batch)
        count.update(names[number] for number in numbers)
        groups += own
    return count, groups


def _stratified(config: PipelineConfig, rows: pa.Table) -> Iterator[Violation]:
    """Values that are not classes."""
    try:
        _stratified_split(config, rows)
    except DataError as error:
        yield ("data", "stratify"), str(error)


def _stratified_split(config: PipelineConfig, rows: pa.Table) -> StratifiedSplit:
    from headrace.components.example_gen.required import RequiredColumn, with_value
    from headrace.components.example_gen.shards.stratified_split import StratifiedSplit, hashes_by_class

    data, column = config.data, str(config.stratified)
    required = RequiredColumn.of(config.label)
    hashes = hashes_by_class((with_value(batch, required) for batch in rows.to_batches()), column, data.shuffle_seed)
    return StratifiedSplit.of(column, data.shuffle_seed, [hashes], data.hashed_splits)


def _time_split(data: DataConfig, batches: Sequence[pa.RecordBatch]) -> TimeSplit | None:
    """How these rows are divided by time; None if the config does not say so."""
    from headrace.components.example_gen.shards.time_split import TimeSplit, count_times

    if data.split_by is None:
        return None
    return TimeSplit.of(data.split_by, [count_times(batches, data.split_by)], data.splits)
