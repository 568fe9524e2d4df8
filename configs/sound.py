"""The part of a config with mistakes in it that is sound, so that the data can be checked against it all the same."""

from __future__ import annotations

import json

from pydantic import ValidationError

from headrace.configs import rules
from headrace.configs.clearing import without
from headrace.configs.config import PipelineConfig
from headrace.configs.credential_rules import credentials_in
from headrace.configs.explain import refusal
from headrace.configs.features import CrossedFeature
from headrace.configs.tree import Tree, Where, descend, holds, plain

ROUNDS = 5
"""How often refused settings are taken away: without one, its group may be refused."""


def sound_part(tree: Tree) -> PipelineConfig | None:
    """The config without the settings that are refused, each with its default in their place. None if too little is
    left, or where a mistake in `data` makes it uncertain what is read.
    """
    found = _accepted(tree)
    if found is None:
        return None
    config, refused = found
    refused += [where for where, _ in rules.check(dict(config))]
    refused += [where for where, _ in credentials_in(plain(tree))]
    return None if any(where[:1] == ("data",) for where in refused) else _without_crosses(config, refused)


def _accepted(tree: Tree) -> tuple[PipelineConfig, list[Where]] | None:
    """What pydantic accepts, and what was taken away for it."""
    refused: list[Where] = []
    for _ in range(ROUNDS):
        try:
            return PipelineConfig.model_validate_json(json.dumps(plain(tree))), refused
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            for where in {_written(tree, refusal(item, tree).where) for item in errors}:
                if not where:
                    return None
                if holds(tree, where):
                    tree = without(tree, where)
                    refused.append(where)
    return None


def _written(tree: Tree, where: Where) -> Where:
    """The setting, or the group that should hold it; never an item of a list, as the others would move up."""
    while where and (not holds(tree, where) or isinstance(descend(tree, where[:-1]).value, list)):
        where = where[:-1]
    return where


def _without_crosses(config: PipelineConfig, refused: list[Where]) -> PipelineConfig:
    """The config without crosses of features that were taken away."""
    gone = {where[1] for where in refused if len(where) == 2 and where[0] == "features"}
    features = {
        name: feature
        for name, feature in config.features.items()
        if not isinstance(feature, CrossedFeature) or gone.isdisjoint(feature.keys)
    }
    return config.model_copy(update={"features": features})
