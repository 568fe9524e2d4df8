"""What pydantic refuses, told in the user's words: where it stands, what was found, what is allowed, what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from headrace.configs import hints
from headrace.configs.beam_rules import moved_args
from headrace.configs.credentials import may_be_secret
from headrace.configs.json_schema import Schema, branches, json_schema, resolved, tags
from headrace.configs.suggest import did_you_mean, listed, nearest
from headrace.configs.tree import Mistake, Tree, Where, at, descend, dotted, plain
from headrace.configs.words import allowed, either, found


@dataclass(frozen=True)
class Refusal:
    """One thing that pydantic refused, after finding its way through the schema."""

    kind: str
    """Pydantic's name for the error, such as `missing`."""
    where: Where
    schema: Schema
    """What is allowed there; for an unknown setting, what holds it."""
    union: Where | None
    """The value with several allowed shapes that this one belongs to, if any."""
    reason: str
    """What our own check of a section said; empty for pydantic's checks."""


def explain(error: ValidationError, tree: Tree) -> list[Mistake]:
    """One mistake for each value, setting or section that was refused."""
    refusals = _closest([refusal(item, tree) for item in error.errors(include_url=False, include_input=False)])
    unknown = [refusal.where for refusal in refusals if refusal.kind == "extra_forbidden"]
    mistakes = [
        Mistake(
            at(tree, refusal.where, name=refusal.kind == "extra_forbidden"),
            f"{dotted(refusal.where) or 'the config'}: {_what(refusal, tree)}",
        )
        for refusal in refusals
        if not (refusal.kind == "missing" and _misspelt(refusal, unknown))
    ]
    return list(dict.fromkeys(mistakes))


def refusal(item: Any, tree: Tree) -> Refusal:
    """From one of pydantic's errors."""
    kind, reason = item["type"], str(item.get("ctx", {}).get("error", ""))
    where, schema, union = follow(item["loc"])
    if kind.startswith("union_tag") and not isinstance(descend(tree, where).value, dict):
        kind = "no_settings"
    elif kind.startswith("union_tag"):
        schema = _tagged(schema)
        where = (*where, schema["discriminator"]["propertyName"])
    return Refusal(kind, where, schema, union, reason)


def follow(location: Iterable[str | int]) -> tuple[Where, Schema, Where | None]:
    """From pydantic's location, which also names kinds and alternatives, to the way in the file and its schema."""
    where: Where = ()
    schema, union = json_schema(), None
    every = schema
    for step in location:
        schema = resolved(schema)
        if step in tags(schema):
            schema = tags(schema)[str(step)]
        elif len(branches(schema)) > 1 and union != where:
            union, every = where, schema  # the step names an alternative
            schema = _tagged(schema) if str(step).startswith("tagged-union[") else schema
        else:
            schema, where = _step(schema, step), (*where, step)
    return where, every if where == union else schema, union


def _tagged(schema: Schema) -> Schema:
    """The alternative whose kind a setting of its own tells."""
    return next(branch for branch in branches(schema) if tags(branch))


def _step(schema: Schema, step: str | int) -> Schema:
    """The schema of one item or setting; that of the holder, where it has no such setting."""
    for branch in map(resolved, branches(schema)):
        if isinstance(step, int) and "items" in branch:
            return dict(branch["items"])
        if step in branch.get("properties", {}):
            return dict(branch["properties"][step])
        if isinstance(branch.get("additionalProperties"), dict):
            return dict(branch["additionalProperties"])
        if "properties" in branch:
            return branch
    return schema


def _closest(refusals: list[Refusal]) -> list[Refusal]:
    """Of the alternatives of one value, those that got furthest into it, to our own check if one did."""
    depth: dict[Where, tuple[int, bool]] = {}
    for refusal in refusals:
        if refusal.union is not None:
            depth[refusal.union] = max(depth.get(refusal.union, (0, False)), _depth(refusal))
    return [refusal for refusal in refusals if refusal.union is None or _depth(refusal) == depth[refusal.union]]


def _depth(refusal: Refusal) -> tuple[int, bool]:
    return len(refusal.where), bool(refusal.reason)


def _misspelt(missing: Refusal, unknown: list[Where]) -> bool:
    """Whether a setting is missing only because its name is misspelt, which is told already."""
    *holder, name = missing.where
    siblings = [str(where[-1]) for where in unknown if list(where[:-1]) == holder]
    return nearest(str(name), siblings) is not None


def _what(refusal: Refusal, tree: Tree) -> str:
    if refusal.reason:
        return refusal.reason
    if refusal.kind == "extra_forbidden":
        return _moved(refusal, tree) or _unknown(refusal)
    if refusal.kind == "missing":
        needed = allowed(refusal.schema)
        if "const" in refusal.schema:
            return f"missing; write `{refusal.where[-1]}: {needed}`"
        return f"missing; needed is {needed}{hints.meaning(refusal.schema)}"
    if refusal.kind.startswith("union_tag"):
        return _unknown_kind(refusal, tree)
    value = descend(tree, refusal.where)
    secret = may_be_secret(refusal.where) and isinstance(value.value, str | int | float)
    told = "a value that is not shown, as it may be secret" if secret else found(value)
    return f"found {told}; allowed: {allowed(refusal.schema)}{'' if secret else hints.for_value(value, refusal.schema)}"


def _moved(refusal: Refusal, tree: Tree) -> str:
    """For a setting of earlier versions: how it is written now."""
    if refusal.where != ("beam", "args"):
        return ""
    given = plain(descend(tree, refusal.where))
    now = moved_args([str(arg) for arg in given]) if isinstance(given, list) else ""
    return f"this is beam.runner and beam.options now; write `beam: {{{now}}}`" if now else ""


def _unknown(refusal: Refusal) -> str:
    """For a setting that does not exist there."""
    name, holder = str(refusal.where[-1]), resolved(refusal.schema)
    known = holder.get("properties", {})
    kind = next((value["const"] for value in known.values() if "const" in value), None)
    kinds = tags(follow(refusal.where[:-1])[1]) if kind else {}
    owner = f"{_article(kind)} {kind} {_noun(refusal.where)}" if kind else dotted(refusal.where[:-1])
    said = f"no such setting; {owner or 'a config'} has: {listed(known, 16)}"
    close = did_you_mean(name, known) or hints.of_other_kinds(name, kinds)
    return said + (close or hints.elsewhere(name, refusal.where[:-1]))


def _noun(where: Where) -> str:
    """What the holder of a setting is, where its kind decides which settings it has: `feature`, `source`, `model`."""
    return "feature" if where[0] == "features" else str(where[-2])


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _unknown_kind(refusal: Refusal, tree: Tree) -> str:
    """For a feature without `column:`, or with one that does not exist."""
    *holder, name = refusal.where
    kinds = tags(refusal.schema)
    value = descend(tree, holder).value
    settings = value if isinstance(value, dict) else {}
    if name not in settings:
        return f"missing; allowed: {either(kinds)}{hints.kind(str(name), settings, kinds)}"
    chosen = settings[str(name)]
    return f"found {found(chosen)}; allowed: {either(kinds)}{did_you_mean(chosen.text, kinds)}"
