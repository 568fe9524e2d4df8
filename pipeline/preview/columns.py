"""Columns of the first rows in messages: those with the same mistake are in one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from headrace.common.names import join_names
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.section import KeyPath

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.components.inference.facts import ColumnFacts
    from headrace.components.sources.types import Kind

ALONE = 3
"""Columns with the same mistake that are reported one by one, each at its line; more are in one message."""
LISTED = 12
"""Names that such a message lists."""


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
    """One message for each violation, or one for all of a kind if it concerns many columns, at the first setting."""
    alike: dict[Hashable, list[ColumnViolation]] = {}
    for each in violations:
        alike.setdefault(each.mistake, []).append(each)
    for group in alike.values():
        names = [*dict.fromkeys(each.column for each in group)]
        if len(names) > ALONE:
            yield group[0].where, columns_that(names, group[0].one, group[0].several)
        else:
            yield from ((each.where, columns_that([each.column], each.one, each.several)) for each in group)


def by_message(names: Sequence[str]) -> list[Sequence[str]]:
    """The columns with one mistake, by message: each alone if there are few, else all together."""
    return [[name] for name in names] if len(names) <= ALONE else [names]


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
