"""From a tree to a valid config: pydantic's checks, the rules across sections, and inline secrets, all at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pydantic import ValidationError

from headrace.common.errors import ConfigError, Problem
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.alike import located_alike
from headrace.configs.loading.partial import valid_sections
from headrace.configs.loading.problems import explain
from headrace.configs.loading.secrets import inline_secrets
from headrace.configs.loading.tree import LocatedProblem, Tree, dotted, plain
from headrace.configs.rules import registry
from headrace.configs.rules.rule import Rule, Violation


def validate(
    tree: Tree, rules: Sequence[Rule] = (), judged: Tree | None = None
) -> PipelineConfig | list[LocatedProblem]:
    """The config, or all problems.

    rules: further rules, beside those of every config; judged: the config as rules judge it, in which pydantic refuses
    whatever is a placeholder in `tree`.
    """
    text = json.dumps(plain(tree))
    try:
        config, problems = PipelineConfig.model_validate_json(text), []
        sections = dict(config)
    except ValidationError as error:
        config, problems = None, explain(error, tree)
        sections = valid_sections(plain(tree))
    if judged is not None:
        sections = valid_sections(plain(judged))
    problems += located_alike(tree, registry.check(sections, rules))
    refused = {place for problem in problems for place in problem.places}
    credentials = located_alike(tree, inline_secrets(plain(tree)))
    problems += [problem for problem in credentials if problem.location not in refused]
    return config if config is not None and not problems else problems


def refuse(violations: Iterable[Violation]) -> None:
    """Raise ConfigError if there are violations. For a config without locations: messages name the settings alone."""
    if found := [Problem(dotted(path), what) for path, what in violations]:
        raise ConfigError(*found)
