"""Mistakes that several features or columns share, as one message at the first of them, which names the others.

located_alike(tree, [(("features", "a", "separator"), "needs a CSV file"), (("features", "b", "separator"), ...)])
# one LocatedProblem: 'features.a.separator: needs a CSV file; the same goes for "b"', with the line of the other

Messages that say the same are of the same mistake, and those whose `mistake` is (configs/rules/rule.py): the names in
them may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.common.errors import DataError
from headrace.common.names import join_names
from headrace.configs.loading.tree import LocatedProblem, Tree, dotted, location_of
from headrace.configs.rules.rule import Violation, ViolationMessage, mistake_of, others_of, own_of
from headrace.configs.schema.section import KeyPath

LISTED = 12
"""Names that a message lists."""
_NAMED: tuple[KeyPath, ...] = (
    ("features",),
    ("data", "types"),
    ("data", "columns"),
    ("evaluate", "slices"),
    ("label", "tasks"),
)
"""What holds settings of several columns, by their names or in a list."""


def located_alike(tree: Tree, violations: Iterable[Violation], keys: Collection[KeyPath] = ()) -> list[LocatedProblem]:
    """Violations with their locations, those with the same mistake as one.

    keys: the settings whose name is the mistake, not their value.
    """
    return [_located(tree, each, keys) for each in merge_alike(violations)]


def merge_alike(violations: Iterable[Violation]) -> list[Violation]:
    """One violation for all with the same mistake, in the order of the first of each."""
    alike: dict[Hashable, list[Violation]] = {}
    for number, (where, what) in enumerate(dict.fromkeys(violations)):
        alike.setdefault(_mistake(where, what) or number, []).append((where, what))
    return [group[0] if len(group) == 1 else _merged(group) for group in alike.values()]


class ColumnMistake(NamedTuple):
    """What is wrong with the values of a column.

    found: where the first of them is, and what it is; remedies: what to change, the same for all columns with the same
    mistake, with `{column}` for the name; others: lines about further records.
    """

    found: str
    remedies: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: DataError, others: Iterable[str] = ()) -> ColumnMistake:
        """An error about the first value."""
        return cls(error.found, error.remedies, (*others,))


def merge_columns(mistakes: Mapping[str, ColumnMistake]) -> list[str]:
    """What is wrong with values of columns, by column, with the ways out once for all with the same mistake."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for column, each in mistakes.items():
        alike.setdefault(each.remedies, []).append(column)
    messages = list[str]()
    for remedies, names in alike.items():
        group = [mistakes[name] for name in names]
        found = "; ".join(each.found for each in group[:LISTED])
        more = f"; and {len(group) - LISTED} more" if len(group) > LISTED else ""
        others = join_names((f'"{name}"' for name in names[1:]), LISTED)
        first, *further = [way.replace("{column}", names[0]) for way in remedies] or [""]
        ways_out = [f"{first}; the same goes for {others}" if names[1:] else first, *further] if first else []
        records = (line for each in group for line in each.others)
        messages.append("\n  ".join([f"{found}{more}", *ways_out, *records]))
    return messages


def _mistake(where: KeyPath, what: str) -> Hashable:
    """The same for the same mistake of other names; None for a setting that is not one of several columns."""
    mistake = mistake_of(what)
    holder = next((above for above in _NAMED if where[: len(above)] == above and len(where) > len(above)), None)
    if holder is None or mistake is None:
        return None
    rest = tuple("" if isinstance(each, int) else each for each in where[len(holder) + 1 :])
    return holder, rest, mistake


def _merged(group: Sequence[Violation]) -> Violation:
    (where, what), *others = group
    own = [(path, own_of(found)) for path, found in others]
    names = join_names((_called(path) + (f" ({one})" if one != own_of(what) else "") for path, one in own), LISTED)
    too = "likewise" if where[0] == "label" else "the same goes for"
    mark = f"{' ' + too.capitalize()}" if what.endswith("?") else f"; {too}"
    return where, ViolationMessage(f"{what}{mark} {names}", others=[other for other, _ in others])


def _called(where: KeyPath) -> str:
    return f'"{where[1]}"' if where[0] == "features" else dotted(where)


def _located(tree: Tree, violation: Violation, keys: Collection[KeyPath]) -> LocatedProblem:
    where, what = violation
    locations = (location_of(tree, other, key=other in keys) for other in others_of(what))
    return LocatedProblem(
        location_of(tree, where, key=where in keys),
        f"{dotted(where) or 'the config'}: {what}",
        tuple(dict.fromkeys(locations)),
    )
