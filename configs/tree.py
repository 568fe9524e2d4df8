"""A config as it was written: plain values, each with the place it stands at.

tree = Tree({"epochs": Tree(5, Place(0, 12, 11, "configs/taxi.yaml"), ...)}, ...)
plain(tree)                    # {"epochs": 5}
str(at(tree, ("epochs",)))     # "configs/taxi.yaml:12"
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from headrace.configs.errors import Problem

Scalar = str | int | float | bool | None
Where = tuple[str | int, ...]
"""The way to a value: names of settings, and numbers of list items from 0."""
MAX_DEPTH = 40
MAX_BITS = 1000
"""Of an integer in Python; more are no setting, and Python refuses to write them out."""


@dataclass(frozen=True, order=True)
class Place:
    """Where something is written; places sort in reading order."""

    layer: int
    """0 for the config file, 1 for the overlay, 2 and up for the `--set` values."""
    line: int
    """From 1; 0 where a line has no meaning."""
    column: int
    source: str
    """The file's path as the user gave it, or `--set train.epochs=1`."""
    exact: bool = False
    """Whether the column is worth telling too."""

    def __str__(self) -> str:
        if self.exact:
            return f"{self.source}:{self.line}:{self.column}"
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, order=True)
class Mistake:
    """Something wrong at a place; mistakes sort in reading order."""

    place: Place
    what: str

    def problem(self) -> Problem:
        return Problem(str(self.place), self.what)


@dataclass(frozen=True)
class Tree:
    """A value, the place of its name (a list item or a whole document has no name: the place where it starts)."""

    value: dict[str, Tree] | list[Tree] | Scalar
    key_place: Place
    place: Place
    text: str = ""
    """A scalar as it was written."""


def tree_of(values: Any, source: str, layer: int = 0) -> tuple[Tree, list[Mistake]]:
    """The tree of Python objects (mappings, lists, tuples, texts, numbers, paths, dates), and what is none of these.

    source: what stands for the file's name. Their order stands for lines, so that mistakes sort as in a file.
    """
    builder = _Builder(source, layer)
    return builder.tree(values, ()), builder.mistakes


class _Builder:
    """Turns Python objects into a tree, collecting mistakes."""

    def __init__(self, source: str, layer: int) -> None:
        self._source, self._layer = source, layer
        self._numbers = itertools.count()
        self.mistakes: list[Mistake] = []

    def tree(self, value: Any, where: Where) -> Tree:
        place = Place(self._layer, 0, next(self._numbers), self._source)
        if len(where) > MAX_DEPTH:
            self._refuse(place, where[:3], f"nested more than {MAX_DEPTH} deep")
            return Tree(None, place, place)
        if isinstance(value, Mapping):
            return Tree(self._mapping(value, place, where), place, place)
        if isinstance(value, list | tuple):
            return Tree([self.tree(each, (*where, number)) for number, each in enumerate(value)], place, place)
        scalar = _scalar(value)
        if why := _refusal(scalar):
            self._refuse(place, where, why)
            return Tree(None, place, place)
        return Tree(scalar, place, place, json.dumps(scalar, ensure_ascii=False))

    def _mapping(self, values: Mapping[Any, Any], place: Place, where: Where) -> dict[str, Tree]:
        named: dict[str, Tree] = {}
        for name, value in values.items():
            if not isinstance(name, str):
                shown = name if isinstance(name, int | float) else type(name).__name__
                self._refuse(place, where, f"the name of a setting is a text, not {shown}")
            elif why := _refusal(name):
                self._refuse(place, where, f"the name of a setting is {why}")
            else:
                named[name] = self.tree(value, (*where, name))
        return named

    def _refuse(self, place: Place, where: Where, what: str) -> None:
        self.mistakes.append(Mistake(place, f"{dotted(where)}: {what}" if where else what))


def _refusal(value: Any) -> str | None:
    """Why it is no scalar of a config."""
    if not isinstance(value, Scalar):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return f"found {kind}; settings are texts, numbers, True, False, None, lists and mappings"
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return "a number of more than 300 digits"
    if isinstance(value, str) and not _is_unicode(value):
        return "a text with half of a character in it (a lone surrogate)"
    return None


def _scalar(value: Any) -> Any:
    """Paths and dates as texts, NumPy's scalars as Python's; anything else as it is."""
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
    """The values alone: what a JSON parser would give."""
    if isinstance(tree.value, dict):
        return {name: plain(child) for name, child in tree.value.items()}
    if isinstance(tree.value, list):
        return [plain(child) for child in tree.value]
    return tree.value


def descend(tree: Tree, where: Sequence[str | int]) -> Tree:
    """The tree at the end of the way, or the deepest one on it that exists."""
    for step in where:
        child = _child(tree, step)
        if child is None:
            return tree
        tree = child
    return tree


def holds(tree: Tree, where: Sequence[str | int]) -> bool:
    """Whether there is a value at the end of the way."""
    return not where or (_child(descend(tree, where[:-1]), where[-1]) is not None and holds(tree, where[:-1]))


def at(tree: Tree, where: Sequence[str | int], *, name: bool = False) -> Place:
    """Where the value at the end of the way is written, or its name (`name`, and for groups of settings).

    What is not written: the name of what should hold it.
    """
    parent = descend(tree, where[:-1])
    found = _child(parent, where[-1]) if where else tree
    if found is None:
        return parent.key_place
    return found.key_place if name or isinstance(found.value, dict) else found.place


def dotted(where: Sequence[str | int]) -> str:
    """`features.pickup.keys[0]`."""
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _child(tree: Tree, step: str | int) -> Tree | None:
    if isinstance(tree.value, dict) and isinstance(step, str):
        return tree.value.get(step)
    if isinstance(tree.value, list) and isinstance(step, int) and 0 <= step < len(tree.value):
        return tree.value[step]
    return None
