"""Columns of the first rows in messages: those with the same mistake are in one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from headrace.common.names import join_names
from headrace.configs.rules.rule import Violation, about
from headrace.configs.schema.section import KeyPath

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.inference.facts import ColumnFacts
    from headrace.components.sources.types import Kind

Item = TypeVar("Item")

LISTED = 12
"""Names that a message lists."""
SHOWN = 5
"""Ways out that it lists, if they differ."""


class ColumnViolation(NamedTuple):
    """What is wrong with a column.

    where: the setting to change; mistake: the same for all columns with the same mistake; one: what follows
    `column "a"` in a message about it; several: what follows `columns "a", "b"`, of which it is the first.
    """

    where: KeyPath
    column: str
    mistake: Hashable
    one: str
    several: str


def group_alike(violations: Iterable[ColumnViolation]) -> Iterator[Violation]:
    """One message for all columns with the same mistake, at the first setting."""
    for group in rounds(violations, lambda each: each.mistake, lambda each: each.column):
        what = columns_that([each.column for each in group], group[0].one, group[0].several)
        yield about([each.where for each in group], what)


def rounds(
    items: Iterable[Item], mistake: Callable[[Item], Hashable], column: Callable[[Item], Hashable]
) -> Iterator[list[Item]]:
    """The items of each mistake. A column is in a group once, so that a second feature over it has its own message."""
    alike: dict[Hashable, list[dict[Hashable, Item]]] = {}
    for item in items:
        groups = alike.setdefault(mistake(item), [])
        group = next((each for each in groups if column(item) not in each), None)
        if group is None:
            groups.append(group := {})
        group[column(item)] = item
    for groups in alike.values():
        yield from ([*group.values()] for group in groups)


def ways_out(ways: Mapping[str, str], rest: str = "") -> str:
    """The way out of all columns; if they differ, `for "a", "b", use ...; for "c", use ...`.

    ways: of each column; rest: what follows the number of further columns, if there are too many to list.
    """
    by_way: dict[str, list[str]] = {}
    for name, way in ways.items():
        by_way.setdefault(way, []).append(f'"{name}"')
    if len(by_way) < 2:
        return next(iter(by_way), "")
    listed = [f"for {join_names(names, LISTED)}, {way}" for way, names in [*by_way.items()][:SHOWN]]
    more = len(ways) - sum(len(names) for names in [*by_way.values()][:SHOWN])
    return "; ".join([*listed, *([f"and so on for {more:,} more{rest}"] if more else [])])


def columns_that(names: Sequence[str], one: str, several: str) -> str:
    """`column "a" holds`, or `columns "a", "b" hold`, for the verb in both forms."""
    listed = join_names((f'"{name}"' for name in names), LISTED)
    return f"columns {listed} {several}" if len(names) > 1 else f"column {listed} {one}"


def facts_in(rows: pa.Table, name: str, kind: Kind) -> ColumnFacts:
    """What is true of the values of a column, which has this kind."""
    from headrace.components.inference.facts import facts_of

    return facts_of(name, kind, plain_column(rows, name))


def known_facts(rows: pa.Table, kinds: Mapping[str, Kind]) -> Callable[[str], ColumnFacts]:
    """The same for any column of these kinds, computed once for all checks."""
    return cache(lambda name: facts_in(rows, name, kinds[name]))


def plain_column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """The values of a column, of which a dictionary may have stored each once."""
    import pyarrow as pa

    column = rows.column(name)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
