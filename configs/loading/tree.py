"""A config as it was written: plain values, each with its location.

tree = Tree({"epochs": Tree(5, Location(0, 12, 11, "configs/taxi.yaml"), ...)}, ...)
plain(tree)                             # {"epochs": 5}
str(location_of(tree, ("epochs",)))     # "configs/taxi.yaml:12"
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from headrace.common.errors import Problem
from headrace.common.names import join_names
from headrace.configs.schema.section import KeyPath

Scalar = str | int | float | bool | None
MAX_DEPTH = 40
MOST_LINES = 12
"""Lines, or ranges of them, that a message names."""
MAX_BITS = 1000
"""Limit for an integer from Python; a larger one is not a setting, and Python refuses to print it."""


FIRST_OVERRIDE = 2
"""The layer of the first `--set` value."""


@dataclass(frozen=True, order=True)
class Location:
    """Where something is written; locations sort in reading order."""

    layer: int
    """0 for the config file, 1 for the overlay, 2 and up for the `--set` values."""
    line: int
    """From 1; 0 if a line has no meaning."""
    column: int
    source: str
    """The file's path as the user gave it, or `--set train.epochs=1`."""
    exact: bool = False
    """Whether messages include the column."""

    def __str__(self) -> str:
        if self.exact:
            return f"{self.source}:{self.line}:{self.column}"
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, order=True)
class LocatedProblem:
    """A problem with a location that sorts in reading order. others: where else it is, if several names share it."""

    location: Location
    what: str
    others: tuple[Location, ...] = ()

    def problem(self) -> Problem:
        return Problem(str(self.location), f"{self.what}{self._elsewhere}")

    @property
    def places(self) -> tuple[Location, ...]:
        return self.location, *self.others

    @property
    def _elsewhere(self) -> str:
        """` (also in lines 8, 9 and 12)`, or nothing if the others are in the same line, or have none."""
        apart = sorted({each for each in self.others if str(each) != str(self.location)})
        lines = [each.line for each in apart if each.source == self.location.source]
        places = [] if not lines else [f"{'line' if len(set(lines)) == 1 else 'lines'} {_ranges(lines)}"]
        places += [str(each) for each in apart if each.source != self.location.source]
        return f" (also in {join_names(places)})" if places else ""


def _ranges(lines: Sequence[int]) -> str:
    """`8, 9 and 12 to 40`."""
    ranges: list[list[int]] = []
    for line in sorted({*lines}):
        if ranges and line == ranges[-1][-1] + 1:
            ranges[-1].append(line)
        else:
            ranges.append([line])
    texts = [text for each in ranges for text in ([f"{each[0]} to {each[-1]}"] if len(each) > 2 else map(str, each))]
    *most, last = [*texts[:MOST_LINES], *(["others"] if len(texts) > MOST_LINES else [])]
    return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True)
class Tree:
    """A value with its location and that of its key. A list item or whole document has no key; its start counts."""

    value: dict[str, Tree] | list[Tree] | Scalar
    key_location: Location
    location: Location
    text: str = ""
    """A scalar as it was written."""


def tree_from_objects(values: Any, source: str, layer: int = 0) -> tuple[Tree, list[LocatedProblem]]:
    """The tree of Python objects (mappings, lists, tuples, strings, numbers, paths, dates), and the unsupported ones.

    source: Replaces the file's name in messages. The order of the objects replaces line numbers, so that problems sort
        as they would in a file.
    """
    builder = _ObjectTreeBuilder(source, layer)
    return builder.tree(values, ()), builder.problems


class _ObjectTreeBuilder:
    """Turns Python objects into a tree, collecting problems."""

    def __init__(self, source: str, layer: int) -> None:
        self._source, self._layer = source, layer
        self._numbers = itertools.count()
        self.problems: list[LocatedProblem] = []

    def tree(self, value: Any, path: KeyPath) -> Tree:
        location = Location(self._layer, 0, next(self._numbers), self._source)
        if len(path) > MAX_DEPTH:
            self._add_problem(location, path[:3], f"nested more than {MAX_DEPTH} deep")
            return Tree(None, location, location)
        if isinstance(value, Mapping):
            return Tree(self._mapping(value, location, path), location, location)
        if isinstance(value, list | tuple):
            items = [self.tree(each, (*path, number)) for number, each in enumerate(value)]
            return Tree(items, location, location)
        scalar = _scalar(value)
        if error := _scalar_error(scalar):
            self._add_problem(location, path, error)
            return Tree(None, location, location)
        return Tree(scalar, location, location, json.dumps(scalar, ensure_ascii=False))

    def _mapping(self, values: Mapping[Any, Any], location: Location, path: KeyPath) -> dict[str, Tree]:
        named: dict[str, Tree] = {}
        for name, value in values.items():
            if not isinstance(name, str):
                shown = name if isinstance(name, int | float) else type(name).__name__
                self._add_problem(location, path, f"the name of a setting is a string, not {shown}")
            elif error := _scalar_error(name):
                self._add_problem(location, path, f"the name of a setting is {error}")
            else:
                named[name] = self.tree(value, (*path, name))
        return named

    def _add_problem(self, location: Location, path: KeyPath, what: str) -> None:
        self.problems.append(LocatedProblem(location, f"{dotted(path)}: {what}" if path else what))


def _scalar_error(value: Any) -> str | None:
    """Why a value cannot be a scalar of a config."""
    if not isinstance(value, Scalar):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return f"found {kind}; settings are strings, numbers, True, False, None, lists and mappings"
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return "a number of more than 300 digits"
    if isinstance(value, str) and not _is_unicode(value):
        return "a string with half a character in it (a lone surrogate)"
    return None


def _scalar(value: Any) -> Any:
    """Paths and dates as strings, NumPy's scalars as Python's; anything else unchanged."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(tree: Tree) -> Any:
    """The values alone, as a JSON parser would return them."""
    if isinstance(tree.value, dict):
        return {name: plain(child) for name, child in tree.value.items()}
    if isinstance(tree.value, list):
        return [plain(child) for child in tree.value]
    return tree.value


def descend(tree: Tree, path: Sequence[str | int]) -> Tree:
    """The tree at the path, or the deepest existing one on the way."""
    for step in path:
        child = _child(tree, step)
        if child is None:
            return tree
        tree = child
    return tree


def contains(tree: Tree, path: Sequence[str | int]) -> bool:
    """Whether there is a value at the path."""
    return not path or (_child(descend(tree, path[:-1]), path[-1]) is not None and contains(tree, path[:-1]))


def remove(tree: Tree, path: KeyPath) -> Tree:
    """The tree without the setting at the path, which must exist."""
    first, *rest = path
    if isinstance(tree.value, list):
        items = [remove(item, tuple(rest)) if number == first else item for number, item in enumerate(tree.value)]
        return Tree(items, tree.key_location, tree.location)
    assert isinstance(tree.value, dict)  # noqa: S101 - the path exists
    children = {**tree.value}
    if rest:
        children[str(first)] = remove(children[str(first)], tuple(rest))
    else:
        del children[str(first)]
    return Tree(children, tree.key_location, tree.location)


def location_of(tree: Tree, path: Sequence[str | int], *, key: bool = False) -> Location:
    """The location of the value at the path, or of its key (with `key`, and for groups of settings).

    A setting that is not written has the location of the key that would hold it.
    """
    parent = descend(tree, path[:-1])
    found = _child(parent, path[-1]) if path else tree
    if found is None:
        return parent.key_location
    return found.key_location if key or isinstance(found.value, dict) else found.location


def paths_at(tree: Tree, locations: Collection[Location]) -> frozenset[KeyPath]:
    """The settings that are written at these locations; the whole config, `()`, if none is at one of them."""
    left, found = {*locations}, set[KeyPath]()
    pending: list[tuple[KeyPath, Tree]] = [((), tree)] if left else []
    while pending:
        path, at = pending.pop()
        if path and {at.location, at.key_location} & {*locations}:
            left -= {at.location, at.key_location}
            found.add(path)
        if isinstance(at.value, dict):
            pending += [((*path, name), child) for name, child in at.value.items()]
        elif isinstance(at.value, list):
            pending += [(path, child) for child in at.value]
    return frozenset({*found, ()} if left else found)


def dotted(path: Sequence[str | int]) -> str:
    """`features.pickup.keys[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _child(tree: Tree, step: str | int) -> Tree | None:
    if isinstance(tree.value, dict) and isinstance(step, str):
        return tree.value.get(step)
    if isinstance(tree.value, list) and isinstance(step, int) and 0 <= step < len(tree.value):
        return tree.value[step]
    return None
