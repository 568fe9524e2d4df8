"""`null` in an overlay, or in `--set name=`: a value where the setting takes it; elsewhere it takes away what is below.

lower:  train: {epochs: 7}        features: {fare: {...}, area: {...}}
upper:  train: {epochs: null}     features: {fare: null}
then:   train: {}                 features: {area: {...}}
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from headrace.configs.explain import follow, refusal
from headrace.configs.json_schema import Schema, branches, resolved
from headrace.configs.suggest import meant
from headrace.configs.tree import Mistake, Tree, Where, descend, dotted, holds


def cleared(tree: Tree, refused: ValidationError, layers: Sequence[Tree]) -> tuple[Tree, list[Mistake]]:
    """The tree without the nulls of upper layers that were refused, and what is wrong with those that had no meaning.

    layers: that the tree was laid of, the lowest first. The tree itself if there are none.
    """
    mistakes = []
    for where, location in _refused(refused, tree):
        found, holder = descend(tree, where), _holder(location, where)
        if isinstance(where[-1], int) or _is_needed(where, holder):
            continue
        below = [layer for layer in layers if layer.place.layer < found.place.layer]
        if _is_name(holder) and not any(holds(layer, where) for layer in below):
            known = [name for layer in below for name in _names(layer, where[:-1])]
            meaning = meant(str(where[-1]), known, "there are")
            what = f"null takes this name away, and nothing below has it{meaning}"
            mistakes.append(Mistake(found.place, f"{dotted(where)}: {what}"))
        tree = without(tree, where)
    return tree, mistakes


def without(tree: Tree, where: Where) -> Tree:
    """The tree less the setting at the end of the way."""
    first, *rest = where
    if isinstance(tree.value, list):
        items = [without(item, tuple(rest)) if number == first else item for number, item in enumerate(tree.value)]
        return Tree(items, tree.key_place, tree.place)
    assert isinstance(tree.value, dict)  # noqa: S101 - the way is there
    others = {name: child for name, child in tree.value.items() if name != first}
    children = {**tree.value, str(first): without(tree.value[str(first)], tuple(rest))} if rest else others
    return Tree(children, tree.key_place, tree.place)


def _refused(error: ValidationError, tree: Tree) -> list[tuple[Where, tuple[str | int, ...]]]:
    """The ways to nulls of upper layers that were refused, each with pydantic's location."""
    found: dict[Where, tuple[str | int, ...]] = {}
    for item in error.errors(include_url=False, include_input=False):
        where = refusal(item, tree).where
        null = descend(tree, where)
        if (
            where
            and null.value is None
            and null.place.layer
            and holds(tree, where)
            and item["type"] != "extra_forbidden"
        ):
            found.setdefault(where, item["loc"])
    return list(found.items())


def _holder(location: Sequence[str | int], where: Where) -> Schema:
    """From the longest part of pydantic's location that leads to it, and so names its kind where it has one."""
    parts = (follow(location[:end]) for end in range(len(location), -1, -1))
    return next((schema for way, schema, _ in parts if way == where[:-1]), {})


def _is_needed(where: Where, holder: Schema) -> bool:
    """Whether this is a setting that has no default."""
    return any(where[-1] in resolved(branch).get("required", ()) for branch in branches(holder))


def _is_name(holder: Schema) -> bool:
    """Whether what is held has names that a user chooses, such as features have."""
    return any(isinstance(resolved(branch).get("additionalProperties"), dict) for branch in branches(holder))


def _names(tree: Tree, where: Where) -> list[str]:
    found = descend(tree, where).value if holds(tree, where) else None
    return list(found) if isinstance(found, dict) else []
