"""What was probably meant by a refused value: one short function for each kind of slip."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from headrace.configs.json_schema import Schema, branches, documentation, json_schema, resolved, tags
from headrace.configs.scalars import PATTERNS
from headrace.configs.suggest import did_you_mean, listed
from headrace.configs.tree import Tree, Where, dotted

TRUTH = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def for_value(tree: Tree, schema: Schema) -> str:
    """`; did you mean 100000?`, `; remove the quotes`, or nothing."""
    schemas = [resolved(branch) for branch in branches(resolved(schema))]
    kinds = {str(branch.get("type", "")) for branch in schemas if "enum" not in branch and "const" not in branch}
    names = [str(name) for branch in schemas for name in branch.get("enum", [branch.get("const")]) if name is not None]
    for said in (
        _null(tree, schema),
        _name(tree, names),
        _number(tree, kinds),
        _text(tree, kinds),
        _group(tree, schemas),
    ):
        if said:
            return said
    return ""


def meaning(schema: Schema) -> str:
    """` (The data column.)`: the first sentence of a setting's documentation."""
    said = documentation(schema).split(". ")[0].rstrip(".")
    return f" ({said})" if said else ""


def elsewhere(name: str, where: Where) -> str:
    """For a setting in the wrong section: where one of that name exists."""
    places = [
        (section, owner) for section, owner in _owners() if name in owner.get("properties", {}) and section != where
    ]
    return f'; did you mean "{dotted((*places[0][0], name))}"?' if places else ""


def of_other_kinds(name: str, kinds: Mapping[str, Schema]) -> str:
    """For a setting that only features of other kinds have."""
    having = [tag for tag, schema in kinds.items() if name in schema["properties"]]
    return f"; `{name}` is for: {listed(having)}" if having else ""


def kind(name: str, settings: Mapping[str, Tree], kinds: Mapping[str, Schema]) -> str:
    """For a group of settings without its `column:`: the kinds that its settings fit."""
    for other, tree in settings.items():
        if tree.text in kinds:
            return f'; did you mean "{name}: {tree.text}" where "{other}: {tree.text}" stands?'
    fit = [tag for tag, schema in kinds.items() if settings and settings.keys() <= schema["properties"].keys()]
    return f'; did you mean "{name}: {fit[0]}"?' if len(fit) == 1 else ""


def _owners() -> list[tuple[Where, Schema]]:
    """The sections and the sections inside them."""
    outer = [((name,), held) for name, value in json_schema()["properties"].items() for held in _held(value)]
    inner: list[tuple[Where, Schema]] = [
        ((*where, name), held)
        for where, owner in outer
        for name, value in owner.get("properties", {}).items()
        for held in _held(value)
    ]
    return [((), json_schema()), *outer, *inner]


def _held(schema: Schema) -> list[Schema]:
    """The sections that a setting may hold."""
    return [*tags(schema).values()] or [resolved(branch) for branch in branches(schema)]


def _null(tree: Tree, schema: Schema) -> str:
    if tree.value is None and "default" in schema:
        return "; remove the line to get the default"
    group = "$ref" in schema or tags(schema)
    return "; write its settings under it, or remove the line" if tree.value is None and group else ""


def _name(tree: Tree, names: list[str]) -> str:
    return did_you_mean(tree.value, names) if isinstance(tree.value, str) else ""


def _number(tree: Tree, kinds: set[str]) -> str:
    """For a number that is written as a text, or a whole one with a decimal point."""
    if not kinds & {"integer", "number"}:
        return ""
    if isinstance(tree.value, float) and tree.value.is_integer() and "number" not in kinds:
        return f"; did you mean {tree.value:.0f}?"
    if not isinstance(tree.value, str):
        return ""
    if PATTERNS["int"].match(tree.value) or ("number" in kinds and PATTERNS["float"].match(tree.value)):
        return "; remove the quotes" if tree.value else ""
    bare = re.sub(r"(?<=\d)[_,' ](?=\d{3})", "", tree.value.strip()).lstrip("0")
    return f"; did you mean {bare}?" if PATTERNS["int"].match(bare) else ""


def _text(tree: Tree, kinds: set[str]) -> str:
    """For a text that needs quotes, or a truth value that is written as a word."""
    if "string" in kinds and isinstance(tree.value, int | float):
        return f"; as a text it needs quotes: {json.dumps(tree.text)}"
    if "string" in kinds and isinstance(tree.value, str) and tree.value.startswith("\\"):
        return f'; an escape needs double quotes: "{tree.value}"'
    if "boolean" in kinds and isinstance(tree.value, str) and tree.value.casefold() in TRUTH:
        return f"; did you mean {TRUTH[tree.value.casefold()]}?"
    return ""


def _group(tree: Tree, schemas: list[Schema]) -> str:
    """For a single value where settings or a list belong."""
    if not isinstance(tree.value, str | int | float):
        return ""
    text = tree.text
    texts = any(schema.get("type") == "string" for schema in schemas)
    for schema in schemas:
        if text in tags(schema):
            return f"; did you mean {{{schema['discriminator']['propertyName']}: {text}}}?"
        if "min" in schema.get("properties", {}) and not isinstance(tree.value, str):
            return f"; did you mean {{min: {text}}}?"
        if schema.get("type") == "array" and schema.get("minItems", 0) < 2:
            return f"; did you mean [{text}]?"
        if schema.get("type") == "object" and not texts and re.match(r"^\w+:\S", text):
            return "; put a space after the colon"
    return ""
