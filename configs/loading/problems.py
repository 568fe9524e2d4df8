"""Pydantic's errors as problems for the user: where the setting is, what was found, what is allowed, what was meant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from headrace.common.credentials import may_be_secret, redact_value
from headrace.common.names import closest, did_you_mean, join_names, join_or
from headrace.configs.allowed_values import describe_allowed
from headrace.configs.json_schema import (
    Schema,
    branches,
    forms_of,
    kinds_of,
    resolve,
    schema_at,
    tagged_branch,
)
from headrace.configs.loading import hints
from headrace.configs.loading.alike import located_alike
from headrace.configs.loading.tree import LocatedProblem, Tree, descend, dotted
from headrace.configs.rules.rule import named
from headrace.configs.schema.features import FEATURE_COLUMNS
from headrace.configs.schema.section import KeyPath


@dataclass(frozen=True)
class SchemaViolation:
    """One of pydantic's errors, located in the config and its schema."""

    kind: str
    """Pydantic's type of the error, such as `missing`."""
    path: KeyPath
    schema: Schema
    """The schema of the setting; for an unknown setting, of what holds it."""
    union: KeyPath | None
    """The setting with multiple alternatives that this one belongs to, if any."""
    reason: str
    """The message of our own validator; empty for pydantic's checks."""


def explain(error: ValidationError, tree: Tree) -> list[LocatedProblem]:
    """One problem for each refused value, setting or section."""
    items = error.errors(include_url=False, include_input=False)
    violations = _deepest([locate_error(item, tree) for item in items])
    unknown = [violation.path for violation in violations if violation.kind == "extra_forbidden"]
    found = [
        (violation.path, _message(violation, tree))
        for violation in violations
        if not (violation.kind == "missing" and _is_misspelled(violation, unknown))
        if not (violation.kind == "too_short" and _has_wrong_item(violation, violations))
    ]
    return located_alike(tree, found, frozenset(unknown))


def locate_error(item: Any, tree: Tree) -> SchemaViolation:
    """Locate one of pydantic's errors."""
    kind, reason = item["type"], str(item.get("ctx", {}).get("error", ""))
    location = item["loc"]
    if kind == "missing" and isinstance(location[-1], int):  # a value of a tuple, so the list is too short
        kind, location = "too_short", location[:-1]
    path, schema, union = schema_at(location)
    if kind.startswith("union_tag") and not isinstance(descend(tree, path).value, dict):
        kind = "not_a_section"
    elif kind.startswith("union_tag"):
        schema = tagged_branch(schema)
        path = (*path, schema["discriminator"]["propertyName"])
    return SchemaViolation(kind, path, schema, union, reason)


def _deepest(violations: list[SchemaViolation]) -> list[SchemaViolation]:
    """For a value with multiple alternatives, the errors of the alternatives that matched furthest."""
    depth: dict[KeyPath, tuple[int, bool]] = {}
    for violation in violations:
        if violation.union is not None:
            depth[violation.union] = max(depth.get(violation.union, (0, False)), _depth(violation))
    deepest = [
        violation for violation in violations if violation.union is None or _depth(violation) == depth[violation.union]
    ]
    above = {violation.path[:end] for violation in deepest for end in range(len(violation.path))}
    return [violation for violation in deepest if violation.union != violation.path or violation.path not in above]


def _depth(violation: SchemaViolation) -> tuple[int, bool]:
    """How far an alternative matched; one that our own validator refused was right up to there."""
    return len(violation.path), bool(violation.reason)


def _has_wrong_item(short: SchemaViolation, violations: list[SchemaViolation]) -> bool:
    """Whether a list is only short because pydantic does not count its items that are refused by themselves."""
    return any(other.path[: len(short.path)] == short.path != other.path for other in violations)


def _is_misspelled(missing: SchemaViolation, unknown: list[KeyPath]) -> bool:
    """Whether a setting is only missing because its name is misspelled, which is reported already."""
    *holder, name = missing.path
    siblings = [str(path[-1]) for path in unknown if list(path[:-1]) == holder]
    return closest(str(name), siblings) is not None


def _message(violation: SchemaViolation, tree: Tree) -> str:
    if violation.reason:
        return violation.reason
    if violation.kind == "extra_forbidden":
        return _unknown_setting(violation, tree)
    if violation.kind == "missing":
        return _missing_setting(violation)
    if violation.kind.startswith("union_tag"):
        return _unknown_kind(violation, tree)
    return _unsuitable_value(violation, descend(tree, violation.path))


def _missing_setting(violation: SchemaViolation) -> str:
    needed = describe_allowed(violation.schema)
    if "const" in violation.schema:
        return f"missing; write `{violation.path[-1]}: {needed}`"
    if "properties" in resolve(violation.schema):
        return f"this section is missing{hints.meaning(violation.schema)}; write it with {needed}"
    schema = forms_of(violation.schema).get(FEATURE_COLUMNS, violation.schema)
    if schema.get("minProperties"):
        form = f"at least one name, and under it {describe_allowed(schema['additionalProperties'])}"
        return f"this section is missing{hints.meaning(violation.schema)}; write {form}"
    return f"missing; required: {needed}{hints.meaning(violation.schema)}"


def _unsuitable_value(violation: SchemaViolation, value: Tree) -> str:
    allowed = describe_allowed(violation.schema)
    secret = str | int | float if _takes_text(violation.schema) else str  # `max_tokens: 0` is none
    if may_be_secret(violation.path) and isinstance(value.value, secret):
        return f"found a value that is not shown because it may be secret; allowed: {allowed}"
    hint = hints.for_value(value, violation.schema) or hints.dotted_name(violation.path, value)
    hint = hint or hints.pretrained(violation.path, value)
    return named(f"found {describe_value(value)}; allowed: {allowed}{hint}", allowed, hint, own=_as_written(value))


def _takes_text(schema: Schema) -> bool:
    return any(resolve(branch).get("type") == "string" for branch in branches(resolve(schema)))


def describe_value(tree: Tree) -> str:
    """`the string "five"`, `the number 1e5`, `a list of 3`, `null`."""
    value = tree.value
    if isinstance(value, dict):
        return f"settings ({join_names(value, 4)})" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return tree.text
    return f"the {'string' if isinstance(value, str) else 'number'} {_as_written(tree)}"


def _as_written(tree: Tree) -> str:
    """`"five"`, `1e5` or `true`; what `describe_value` says of anything else."""
    if isinstance(tree.value, str):
        return _shortened(json.dumps(redact_value(tree.value), ensure_ascii=False))
    return tree.text if isinstance(tree.value, int | float) else describe_value(tree)


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def _unknown_setting(violation: SchemaViolation, tree: Tree) -> str:
    name, holder = str(violation.path[-1]), resolve(violation.schema)
    known = holder.get("properties", {})
    kind = next((value["const"] for value in known.values() if "const" in value), None)
    kinds = kinds_of(schema_at(violation.path[:-1]).schema) if kind else {}
    owner = f"{_article(kind)} {kind} {_holder_noun(violation.path)}" if kind else dotted(violation.path[:-1])
    message = f"no such setting; {owner or 'a config'} has: {join_names(known, 16)}"
    close = hints.divided_number(violation.path, descend(tree, violation.path))
    close = close or did_you_mean(name, known) or hints.of_other_kinds(name, kinds)
    return message + (close or hints.elsewhere(name, violation.path[:-1]))


def _holder_noun(path: KeyPath) -> str:
    """What holds a setting whose kind determines the settings: `feature`, `receiver`, `source`, `model`."""
    return {"features": "feature", "notify": "receiver"}.get(str(path[0]), str(path[-2]))


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _unknown_kind(violation: SchemaViolation, tree: Tree) -> str:
    """The message for a feature without `column:`, or with an unknown one."""
    *holder, name = violation.path
    kinds = kinds_of(violation.schema)
    value = descend(tree, holder).value
    settings = value if isinstance(value, dict) else {}
    if name not in settings:
        return f"missing; allowed: {join_or(kinds)}{hints.kind(str(name), settings, kinds)}"
    chosen = settings[str(name)]
    allowed, hint = join_or(kinds), did_you_mean(chosen.text, kinds)
    return named(f"found {describe_value(chosen)}; allowed: {allowed}{hint}", allowed, hint, own=_as_written(chosen))
