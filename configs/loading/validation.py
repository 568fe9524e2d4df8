"""From a tree to a valid config: pydantic's checks, the rules across sections, and inline secrets, all at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pydantic import ValidationError

from headrace.common.errors import ConfigError, Problem
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.partial import valid_sections
from headrace.configs.loading.problems import explain, locate_error
from headrace.configs.loading.secrets import inline_secrets
from headrace.configs.loading.tree import (
    LocatedProblem,
    Tree,
    contains,
    descend,
    dotted,
    location_of,
    plain,
    remove,
)
from headrace.configs.rules import registry
from headrace.configs.rules.rule import Rule, Violation
from headrace.configs.schema.features import CrossedFeature
from headrace.configs.schema.section import KeyPath

ROUNDS = 5
"""How often refused settings are removed: the removal of one may cause its section to be refused."""


def validate(tree: Tree, rules: Sequence[Rule] = ()) -> PipelineConfig | list[LocatedProblem]:
    """The config, or all problems. rules: further rules, beside those of every config."""
    text = json.dumps(plain(tree))
    try:
        config, problems = PipelineConfig.model_validate_json(text), []
        sections = dict(config)
    except ValidationError as error:
        config, problems = None, explain(error, tree)
        sections = valid_sections(plain(tree))
    problems += [_located(tree, violation) for violation in registry.check(sections, rules)]
    refused = {problem.location for problem in problems}
    credentials = [_located(tree, violation) for violation in inline_secrets(plain(tree))]
    problems += [problem for problem in credentials if problem.location not in refused]
    return config if config is not None and not problems else problems


def refuse(violations: Iterable[Violation]) -> None:
    """Raise ConfigError if there are violations. For a config without locations: messages name the settings alone."""
    if found := [Problem(dotted(path), what) for path, what in violations]:
        raise ConfigError(*found)


def _located(tree: Tree, violation: Violation) -> LocatedProblem:
    path, what = violation
    return LocatedProblem(location_of(tree, path), f"{dotted(path)}: {what}")


def valid_part(tree: Tree) -> tuple[PipelineConfig, bool] | None:
    """The config without refused settings, for which the defaults apply, so that files and data can still be checked.

    Returns it with whether all of `data` is valid, so that it is certain what is read; None if too little is left.
    """
    found = _accepted(tree)
    if found is None:
        return None
    config, refused = found
    refused += [path for path, _ in registry.check(dict(config))]
    refused += [path for path, _ in inline_secrets(plain(tree))]
    return _without_broken_crosses(config, refused), not any(path[:1] == ("data",) for path in refused)


def _accepted(tree: Tree) -> tuple[PipelineConfig, list[KeyPath]] | None:
    """What pydantic accepts, and the settings that were removed for it."""
    refused: list[KeyPath] = []
    for _ in range(ROUNDS):
        try:
            return PipelineConfig.model_validate_json(json.dumps(plain(tree))), refused
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            for path in {_removable(tree, locate_error(item, tree).path) for item in errors}:
                if not path:
                    return None
                if contains(tree, path):
                    tree = remove(tree, path)
                    refused.append(path)
    return None


def _removable(tree: Tree, path: KeyPath) -> KeyPath:
    """The setting, or the section that should hold it; never a list item, because the others would move up."""
    while path and (not contains(tree, path) or isinstance(descend(tree, path[:-1]).value, list)):
        path = path[:-1]
    return path


def _without_broken_crosses(config: PipelineConfig, refused: list[KeyPath]) -> PipelineConfig:
    """The config without crosses of features that were removed."""
    removed = {path[1] for path in refused if len(path) == 2 and path[0] == "features"}
    features = {
        name: feature
        for name, feature in config.declared_features.items()
        if not isinstance(feature, CrossedFeature) or removed.isdisjoint(feature.keys)
    }
    return config.model_copy(update={"features": features})
