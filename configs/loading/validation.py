"""From a tree to a valid config: pydantic's checks, the rules across sections, and credentials in URLs, all at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headrace.common.credentials import KEY_PATTERNS, URL_START, has_password, redact_value
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.problems import explain, locate_error
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
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.features import CrossedFeature
from headrace.configs.schema.section import KeyPath

ROUNDS = 5
"""How often refused settings are removed: the removal of one may cause its section to be refused."""


def validate(tree: Tree) -> PipelineConfig | list[LocatedProblem]:
    """The config, or all problems."""
    text = json.dumps(plain(tree))
    try:
        config, problems = PipelineConfig.model_validate_json(text), []
        sections = dict(config)
    except ValidationError as error:
        config, problems = None, explain(error, tree)
        refused_sections = {str(item["loc"][0]) for item in error.errors(include_url=False)}
        sections = _valid_sections(plain(tree), refused_sections)
    problems += [_located(tree, violation) for violation in registry.check(sections)]
    refused = {problem.location for problem in problems}
    credentials = [_located(tree, violation) for violation in url_credentials(plain(tree))]
    problems += [problem for problem in credentials if problem.location not in refused]
    return config if config is not None and not problems else problems


def _located(tree: Tree, violation: Violation) -> LocatedProblem:
    path, what = violation
    return LocatedProblem(location_of(tree, path), f"{dotted(path)}: {what}")


def _valid_sections(values: dict[str, object], refused: set[str]) -> dict[str, object]:
    """The sections that are valid in themselves, so that the rules between these still apply."""
    sections: dict[str, object] = {}
    for name, field in PipelineConfig.model_fields.items():
        if name in refused:
            continue
        if name in values:
            sections[name] = TypeAdapter(field.rebuild_annotation()).validate_json(json.dumps(values[name]))
        else:
            sections[name] = field.get_default()
    return sections


def valid_part(tree: Tree) -> PipelineConfig | None:
    """The config without refused settings, for which the defaults apply, so that the data can still be checked.

    None if too little is left, or if a problem in `data` makes it uncertain what is read.
    """
    found = _accepted(tree)
    if found is None:
        return None
    config, refused = found
    refused += [path for path, _ in registry.check(dict(config))]
    refused += [path for path, _ in url_credentials(plain(tree))]
    return None if any(path[:1] == ("data",) for path in refused) else _without_broken_crosses(config, refused)


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


_OTHER_SOURCES = {
    "s3": "s3:// reads its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "minio": "minio:// reads its keys from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "gs:// reads its credentials from the file in GOOGLE_APPLICATION_CREDENTIALS",
}
"""Where credentials for these URLs come from."""


def url_credentials(config: Any) -> Iterator[Violation]:
    """The URLs in a config (plain values) that contain a password, token or signature.

    Configs are stored unchanged in artifacts, metadata, logs and compiled pipelines.
    """
    for path, url in _urls_with_credentials(config):
        scheme = re.split(r"[:/\\]", url.lstrip(), maxsplit=1)[0].lower()
        way_out = _OTHER_SOURCES.get(scheme, "use the URL without it")
        yield path, f"{redact_value(url)} contains a credential, which would end up in logs and artifacts; {way_out}"


def redact_url_credentials(config: Any, text: str) -> str:
    """A text without the credentials in the URLs of a config, which it may repeat as they are or as JSON."""
    for _, url in _urls_with_credentials(config):
        for spelled in (json.dumps(url)[1:-1], url):
            text = text.replace(spelled, redact_value(url))
    return text


def _urls_with_credentials(config: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(config, dict):
        for name, value in config.items():
            yield from _urls_with_credentials(value, (*path, name))
    elif isinstance(config, list):
        for number, value in enumerate(config):
            yield from _urls_with_credentials(value, (*path, number))
    elif isinstance(config, str) and URL_START.match(config.lstrip()) and _has_credential(config):
        yield path, config


def _has_credential(url: str) -> bool:
    return has_password(url) or any(pattern.search(url) for pattern in KEY_PATTERNS.values())
