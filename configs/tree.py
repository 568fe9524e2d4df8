"""A config as it was written: plain values, each with the place it stands at.

tree = Tree({"epochs": Tree(5, Place(0, 12, 11, "configs/taxi.yaml"), ...)}, ...)
plain(tree)                    # {"epochs": 5}
str(at(tree, ("epochs",)))     # "configs/taxi.yaml:12"
"""

from __future__ import annotations

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


def tree_of(values: Any, source: str) -> tuple[Tree, list[Mistake]]:
    """The tree of Python objects (mappings, lists, tuples, texts, numbers, paths), and what is none of these.

    source: what stands for the file's name. Their order stands for lines, so that mistakes sort as in a file.
    """
    mistakes: list[Mistake] = []
    numbers = itertools.count()

    def refuse(place: Place, where: Where, what: str) -> None:
        mistakes.append(Mistake(place, f"{dotted(where)}: {what}" if where else what))

    def built(value: Any, where: Where) -> Tree:
        place = Place(0, 0, next(numbers), source)
        if len(where) > MAX_DEPTH:
            refuse(place, where[:3], f"nested more than {MAX_DEPTH} deep")
        elif isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str):
                    refuse(place, where, f"the name of a setting is a text, not {name!r}")
            named = {name: built(each, (*where, name)) for name, each in value.items() if isinstance(name, str)}
            return Tree(named, place, place)
        elif isinstance(value, list | tuple):
            return Tree([built(each, (*where, number)) for number, each in enumerate(value)], place, place)
        elif isinstance(value, Scalar | PurePath):
            plain_value = str(value) if isinstance(value, PurePath) else value
            return Tree(plain_value, place, place, json.dumps(plain_value, ensure_ascii=False))
        else:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            refuse(place, where, f"found {kind}; settings are texts, numbers, True, False, None, lists and mappings")
        return Tree(None, place, place)

    return built(values, ()), mistakes


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
