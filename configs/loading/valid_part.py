"""The valid part of a config with mistakes, so that the files and the data that it names can still be checked.

part = valid_part(tree)
part.config                                     # without refused settings, for which the defaults apply
touches(part.uncertain, ("data", "splits"))     # whether something is wrong with the splits

Nothing may be said of the data that only follows from a mistake, so whoever checks it asks what is uncertain. Sections
without which there is no config get a placeholder, which is uncertain.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from pydantic import ValidationError

from headrace.common.names import closest
from headrace.configs.config import PipelineConfig
from headrace.configs.json_schema import kinds_of, resolve, schema_at
from headrace.configs.loading.problems import SchemaViolation, locate_error
from headrace.configs.loading.secrets import inline_secrets
from headrace.configs.loading.tree import Tree, contains, descend, plain, remove
from headrace.configs.rules import registry
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.features import CrossedFeature
from headrace.configs.schema.section import KeyPath

Paths = Collection[KeyPath]
"""Settings that are uncertain: those that were refused, or that an unknown one may stand for."""

ROUNDS = 8
"""How often refused settings are removed: the removal of one may cause its section to be refused."""
DECIDES_ROWS = ("source", "window", "spans", "run_date", "delay", "split_spans")
"""Settings of `data:` that decide which rows are read."""
DECIDES_SPLITS = ("splits", "split_key", "split_by", "split_column", "split_values", "stratify", "shuffle_seed")
"""Settings of `data:` that decide how rows are split."""
_NAMELESS = "\0"
"""A name that no column has."""


@dataclass(frozen=True)
class ValidPart:
    """A config without refused settings, and what is uncertain about it."""

    config: PipelineConfig
    uncertain: frozenset[KeyPath]


def is_uncertain(uncertain: Paths, path: KeyPath) -> bool:
    """Whether the setting, or a section that holds it, is uncertain."""
    known = frozenset(uncertain)  # itself, if it is one
    return any(path[:length] in known for length in range(len(path) + 1))


def touches(uncertain: Paths, path: KeyPath) -> bool:
    """The same, or something in the section at the path is."""
    return is_uncertain(uncertain, path) or path in _sections(frozenset(uncertain))


@lru_cache(maxsize=4)
def _sections(paths: frozenset[KeyPath]) -> frozenset[KeyPath]:
    """The paths, and those of all sections that hold them."""
    return frozenset(path[:length] for path in paths for length in range(len(path) + 1))


def rows_are_certain(uncertain: Paths) -> bool:
    """Whether it is certain which rows are read, and how."""
    return not any(touches(uncertain, ("data", name)) for name in DECIDES_ROWS)


def types_are_certain(uncertain: Paths) -> bool:
    """Whether it is certain as which types columns are read, but for those whose own type is uncertain."""
    return not is_uncertain(uncertain, ("data", "types")) and not touches(uncertain, ("data", "schema"))


def valid_part(tree: Tree) -> ValidPart | None:
    """The valid part by pydantic and the rules; None if too little is left."""
    part = accepted_part(tree)
    if part is None:
        return None
    refused = [path for path, _ in (*registry.check(dict(part.config)), *inline_secrets(plain(tree)))]
    return ValidPart(_without_broken_crosses(part.config, part.uncertain), part.uncertain | {*refused})


def accepted_part(tree: Tree) -> ValidPart | None:
    """What pydantic accepts; None if too little is left."""
    uncertain = set[KeyPath]()
    for _ in range(ROUNDS):
        try:
            config = PipelineConfig.model_validate_json(json.dumps(plain(tree)))
            return ValidPart(config, frozenset(uncertain))
        except ValidationError as error:
            refused = [locate_error(item, tree) for item in error.errors(include_url=False, include_input=False)]
            for violation in refused:
                uncertain |= {*_meant(violation, tree)}
            for path in dict.fromkeys(violation.path for violation in refused):
                if (left := _without(tree, path, uncertain)) is None:
                    return None
                tree = left
    return None


def _meant(violation: SchemaViolation, tree: Tree) -> Iterator[KeyPath]:
    """What is uncertain because of a mistake: the setting, or those that an unknown setting of `data:` may mean."""
    yield violation.path
    if violation.kind != "extra_forbidden" or violation.path[:-1] != ("data",):
        return
    name = str(violation.path[-1])
    every = (field.alias or key for key, field in DataConfig.model_fields.items())
    absent = [key for key in every if not contains(tree, ("data", key))]
    kinds = kinds_of(schema_at(("data", "source")).schema)
    chosen = descend(tree, ("data", "source", "kind")).value
    source = resolve(kinds[chosen])["properties"] if isinstance(chosen, str) and chosen in kinds else {}
    if name in source or (closest(name, absent) is None and closest(name, source) is not None):
        yield "data", "source"
    elif (similar := closest(name, absent)) is not None:
        yield "data", similar
    else:
        yield from (("data", each) for each in DECIDES_SPLITS if each in absent)


def _without(tree: Tree, refused: KeyPath, uncertain: set[KeyPath]) -> Tree | None:
    """The tree without the refused setting, or with a placeholder for its section; None if nothing can replace it."""
    path = _removable(tree, refused)
    section = refused[:1]
    if section in {("label",), ("features",)} and path in {(), section}:
        return _with_placeholder(tree, str(section[0]), uncertain)
    if section == ("pipeline",) and path in {(), section}:
        root = descend(tree, ("pipeline", "root")) if contains(tree, ("pipeline", "root")) else None
        kept = {} if root is None or not isinstance(root.value, str) or not root.value else {"root": root}
        return _with(tree, "pipeline", {**kept, "name": replace(tree, value="x")})
    if not path or path == ("data",):
        return None
    return remove(tree, path) if contains(tree, path) else tree


def _with_placeholder(tree: Tree, section: str, uncertain: set[KeyPath]) -> Tree:
    """The tree with a label, or a feature, that no check judges. The key of the label stays if it has one."""
    if section == "features":
        uncertain.add(("features",))
        column = {"column": replace(tree, value="numeric")}
        return _with(tree, section, {_NAMELESS: replace(tree, value=column)})
    key = descend(tree, ("label", "key")).value if contains(tree, ("label", "key")) else None
    known = isinstance(key, str) and key not in {"", _NAMELESS}
    uncertain.discard(("label",))
    uncertain.add(("label", "kind") if known else ("label",))
    settings = {"key": key if known else _NAMELESS, "kind": "multiclass", "classes": 2}
    return _with(tree, section, {name: replace(tree, value=value) for name, value in settings.items()})


def _with(tree: Tree, section: str, settings: dict[str, Tree]) -> Tree:
    others = tree.value if isinstance(tree.value, dict) else {}
    return replace(tree, value={**others, section: replace(tree, value=settings)})


def _removable(tree: Tree, path: KeyPath) -> KeyPath:
    """The setting, or the section that should hold it; never a list item, because the others would move up."""
    while path and (not contains(tree, path) or isinstance(descend(tree, path[:-1]).value, list)):
        path = path[:-1]
    return path


def _without_broken_crosses(config: PipelineConfig, uncertain: Paths) -> PipelineConfig:
    """The config without crosses of features that were removed."""
    removed = {path[1] for path in uncertain if path[:1] == ("features",) and len(path) > 1}
    removed -= config.declared_features.keys()
    return without_features(config, removed)


def without_features(config: PipelineConfig, names: Collection[object]) -> PipelineConfig:
    """The config without these features, and without the crosses of them."""
    features = {
        name: feature
        for name, feature in config.declared_features.items()
        if name not in names and not (isinstance(feature, CrossedFeature) and {*feature.keys} & {*names})
    }
    if len(features) == len(config.declared_features):
        return config
    return config.model_copy(update={"features": features})
