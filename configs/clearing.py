"""`null` in an overlay, or in `--set name=`: a value where the setting takes it; elsewhere it takes away what is below.

lower:  train: {epochs: 7}        features: {fare: {...}, area: {...}}
upper:  train: {epochs: null}     features: {fare: null}
then:   train: {}                 features: {area: {...}}
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from configs.explain import follow, refusal
from configs.json_schema import Schema, branches, resolved
from configs.suggest import meant
from configs.tree import Mistake, Tree, Where, descend, dotted, holds


def cleared(tree: Tree, refused: ValidationError, layers: Sequence[Tree]) -> tuple[Tree, list[Mistake]]:
    """The tree without the nulls of upper layers that were refused, and what is wrong with those that had no meaning.

    layers: that the tree was laid of, the lowest first. The tree itself if there are none.
    """
    mistakes = []
    for where, holder in _refused(refused, tree):
        found = descend(tree, where)
        if not holds(tree, where) or found.value is not None or not found.place.layer or _is_needed(where, holder):
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
    if not where or not isinstance(tree.value, dict):
        return tree
    first, *rest = where
    children = dict(tree.value)
    if rest:
        children[str(first)] = without(children[str(first)], tuple(rest))
    else:
        del children[str(first)]
    return Tree(children, tree.key_place, tree.place, tree.text)


def _refused(error: ValidationError, tree: Tree) -> list[tuple[Where, Schema]]:
    """The ways to what was refused, but for settings that do not exist, each with the schema of what holds it."""
    found: dict[Where, Schema] = {}
    for item in error.errors(include_url=False, include_input=False):
        if item["type"] not in ("extra_forbidden", "missing"):
            where = refusal(item, tree).where
            found.setdefault(where, _holder(item["loc"], where))
    return list(found.items())


def _holder(location: Sequence[str | int], where: Where) -> Schema:
    """From the longest part of pydantic's location that leads to it, and so names its kind where it has one."""
    parts = (follow(location[:end]) for end in range(len(location), -1, -1))
    return next((schema for way, schema, _ in parts if way == where[:-1]), {})


def _is_needed(where: Where, holder: Schema) -> bool:
    """Whether this is a setting that has no default."""
    return not where or any(where[-1] in resolved(branch).get("required", ()) for branch in branches(holder))


def _is_name(holder: Schema) -> bool:
    """Whether what is held has names that a user chooses, such as features have."""
    return any(isinstance(resolved(branch).get("additionalProperties"), dict) for branch in branches(holder))


def _names(tree: Tree, where: Where) -> list[str]:
    found = descend(tree, where).value if holds(tree, where) else None
    return list(found) if isinstance(found, dict) else []
