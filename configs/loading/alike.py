"""Mistakes that several features or columns share, as one message at the first of them, which names the others.

located_alike(tree, [(("features", "a", "separator"), "needs a CSV file"), (("features", "b", "separator"), ...)])
# one LocatedProblem: 'features.a.separator: needs a CSV file; the same goes for "b"', with the line of the other

Messages that differ in nothing but the name of the feature, or of its column, are of the same mistake.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.common.errors import DataError
from headrace.common.names import join_names
from headrace.configs.loading.tree import LocatedProblem, Tree, descend, dotted, location_of
from headrace.configs.rules.rule import SharedMessage, Violation, others_of
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
    return [_located(tree, each, keys) for each in merge_alike(tree, violations)]


def merge_alike(tree: Tree, violations: Iterable[Violation]) -> list[Violation]:
    """One violation for all with the same mistake, in the order of the first of each."""
    alike: dict[object, list[Violation]] = {}
    for number, (where, what) in enumerate(dict.fromkeys(violations)):
        is_shared = isinstance(what, SharedMessage)
        alike.setdefault(number if is_shared else _mistake(tree, where, what) or number, []).append((where, what))
    return [group[0] if len(group) == 1 else _merged(tree, group) for group in alike.values()]


class ColumnMistake(NamedTuple):
    """What is wrong with the values of a column.

    found: where the first of them is, and what it is; mistake: the same for the same mistake; ways_out: what to change;
    others: lines about further records.
    """

    found: str
    mistake: Hashable = None
    ways_out: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: DataError, others: Iterable[str] = ()) -> ColumnMistake:
        """An error about the first value, whose last word is the type that the value is not of."""
        ways_out = tuple(way.replace(f".{error.column}:", ".\0:") for way in error.ways_out)
        return cls(error.found, (error.found.rpartition(" ")[2], ways_out), error.ways_out, (*others,))


def merge_columns(mistakes: Mapping[str, ColumnMistake]) -> list[str]:
    """What is wrong with values of columns, by column, with the ways out once for all with the same mistake."""
    alike: dict[Hashable, list[str]] = {}
    for column, each in mistakes.items():
        alike.setdefault(each.mistake, []).append(column)
    messages = list[str]()
    for names in alike.values():
        group = [mistakes[name] for name in names]
        found = "; ".join(each.found for each in group[:LISTED])
        more = f"; and {len(group) - LISTED} more" if len(group) > LISTED else ""
        others = join_names((f'"{name}"' for name in names[1:]), LISTED)
        first, *further = group[0].ways_out or ("",)
        ways_out = [f"{first}; the same goes for {others}" if names[1:] else first, *further] if first else []
        records = (line for each in group for line in each.others)
        messages.append("\n  ".join([f"{found}{more}", *ways_out, *records]))
    return messages


def _mistake(tree: Tree, where: KeyPath, what: str) -> object:
    """The same for the same mistake of other names; None for a setting that is not one of several columns."""
    holder = next((above for above in _NAMED if where[: len(above)] == above and len(where) > len(above)), None)
    if holder is None:
        return None
    at = len(holder)
    given = (where[at], descend(tree, (*where[: at + 1], "key")).value, descend(tree, where).value)
    names = [each for each in given if isinstance(each, str)]
    rest = tuple("" if isinstance(each, int) else each for each in where[at + 1 :])
    found = _without_names(what, names)
    return holder, rest, re.sub(r"\d[\d,]*", "0", found) if holder == ("label", "tasks") else found


def _without_names(what: str, names: Sequence[str]) -> str:
    """The message with a mark in place of these names, where they are quoted or within code."""
    for name in names:
        own, plain = re.escape(name), re.escape(re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower())
        what = re.sub(rf'"{own}"|(?<=`){own}(?=[`:])|(?<=\bkey: ){own}\b|(?<=[.]){own}(?=\W)', "\0", what)
        what = re.sub(rf"\b{own}(?=_bucket\b)|(?<=such as ){plain}\b", "\0", what)
    return what


def _merged(tree: Tree, group: Sequence[Violation]) -> Violation:
    (where, what), *others = group
    first = descend(tree, where).value
    shown = ((path, descend(tree, path).value, found) for path, found in others)
    names = join_names(
        (
            _called(path) + (f' ("{value}")' if value != first and f'"{value}"' in found else "")
            for path, value, found in shown
        ),
        LISTED,
    )
    too = "likewise" if where[0] == "label" else "the same goes for"
    mark = f"{' ' + too.capitalize()}" if what.endswith("?") else f"; {too}"
    return where, SharedMessage(f"{what}{mark} {names}", [other for other, _ in others])


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
