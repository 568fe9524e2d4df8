"""Mistakes that several features or columns share, as one message at the first of them, which names the others.

located_alike(tree, [(("features", "a", "separator"), "needs a CSV file"), (("features", "b", "separator"), ...)])
# one LocatedProblem: 'features.a.separator: needs a CSV file; the same goes for "b"', with the line of the other

Messages that differ in nothing but the name of the feature, or of its column, are of the same mistake.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

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


def merge_errors(errors: Mapping[str, str]) -> list[str]:
    """What is wrong with values of columns, by column, with the way out once for all with the same mistake.

    errors: texts of DataErrors, `file:line: column 'a': 'x' is not an int`, the hint in a line of its own, and any
    further records in lines that follow.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for column, text in errors.items():
        found, hint, *_ = [*text.split("\n"), ""]
        mistake = found.rpartition(" ")[2], hint.replace(f".{column}:", ".\0:")
        alike.setdefault(mistake, []).append(column)
    messages = list[str]()
    for first, *others in alike.values():
        told = [errors[one].split("\n") for one in (first, *others)]
        every = [found for found, *_ in told[:LISTED]]
        more = f"; and {len(others) + 1 - len(every)} more" if len(every) <= len(others) else ""
        names = join_names((f'"{other}"' for other in others), LISTED)
        too = f"; the same goes for {names}" if told[0][1:] and others else ""
        further = [line for _, *lines in told for line in lines[1:]]
        messages.append("\n".join([f"{'; '.join(every)}{more}", *(f"{hint}{too}" for hint in told[0][1:2]), *further]))
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
