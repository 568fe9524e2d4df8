"""Suggestions for a refused value: one short function for each kind of slip."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from headrace.common.credentials import may_be_secret
from headrace.common.names import did_you_mean, join_names
from headrace.configs.json_schema import Schema, branches, documentation, json_schema, kinds_of, resolve, schema_at
from headrace.configs.loading.scalars import PATTERNS
from headrace.configs.loading.tree import FIRST_OVERRIDE, Tree, dotted
from headrace.configs.schema.section import KeyPath

TRUTH = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def for_value(tree: Tree, schema: Schema) -> str:
    """`; did you mean 100000?`, `; remove the quotes`, or nothing."""
    schemas = [resolve(branch) for branch in branches(resolve(schema))]
    kinds = {str(branch.get("type", "")) for branch in schemas if "enum" not in branch and "const" not in branch}
    names = [str(name) for branch in schemas for name in branch.get("enum", [branch.get("const")]) if name is not None]
    for hint in (
        _null(tree, schema),
        _name(tree, names),
        _number(tree, kinds),
        _text(tree, kinds),
        _group(tree, schemas),
    ):
        if hint:
            return hint
    return ""


def dotted_name(path: KeyPath, tree: Tree) -> str:
    """For `--set data.types.user.age=int`, where users choose the names, and one may have dots."""
    holder = schema_at(path[:-1]).schema
    chosen = any(isinstance(resolve(branch).get("additionalProperties"), dict) for branch in branches(resolve(holder)))
    names, value = _down(path, tree)
    name = ".".join(names[len(path) - 1 :])
    if tree.location.layer < FIRST_OVERRIDE or not chosen or len(names) == len(path) or '"' in name:
        return ""
    is_shown = value.text in tree.location.source and not may_be_secret([*path[:-1], name])  # which masks credentials
    return _in_quotes(f'{dotted(path[:-1])}."{name}"', value.text if is_shown else "...")


def divided_number(path: KeyPath, tree: Tree) -> str:
    """For `--set evaluate.thresholds.precision@0.3.min=0.9`, where the dot of the number divides the name."""
    *holder, before, after = map(str, path) if len(path) > 2 else ("", "", "")
    if tree.location.layer < FIRST_OVERRIDE or not re.search(r"@\d+$", before) or not re.fullmatch(r"\d+", after):
        return ""
    names, value = _down(path, tree)
    place = ".".join([*holder, f'"{before}.{after}"', *names[len(path) :]])
    return _in_quotes(place, value.text if value.text in tree.location.source else "...")


def pretrained(path: KeyPath, tree: Tree) -> str:
    """For `embedding: /models/swivel` of a column: where a pretrained network is named."""
    if path[:1] != ("features",) or path[-1] != "embedding" or not isinstance(tree.value, str) or "/" not in tree.value:
        return ""
    return f"; for a pretrained network of texts use {{column: text_embedding, saved_model: {json.dumps(tree.value)}}}"


def _down(path: KeyPath, tree: Tree) -> tuple[list[str], Tree]:
    """The names from the top to the value that a `--set` sets below the path, and that value."""
    names, value = [str(name) for name in path], tree
    while isinstance(value.value, dict) and len(value.value) == 1:
        ((name, value),) = value.value.items()
        names.append(name)
    return names, value


def _in_quotes(place: str, value: str) -> str:
    return f"; put a name with dots into quotes: '{place}={value}'"


def meaning(schema: Schema) -> str:
    """` (The data column)`: the first sentence of a setting's documentation."""
    sentence = documentation(schema).split(". ")[0].rstrip(".")
    return f" ({sentence})" if sentence else ""


def elsewhere(name: str, where: KeyPath) -> str:
    """A suggestion for a setting in the wrong section: the section that has one of that name."""
    homes = [path for path, section in _all_sections() if name in section.get("properties", {}) and path != where]
    return f'; did you mean "{dotted((*homes[0], name))}"?' if homes else ""


def of_other_kinds(name: str, kinds: Mapping[str, Schema]) -> str:
    """For a setting that only exists in other kinds."""
    having = [tag for tag, schema in kinds.items() if name in schema["properties"]]
    return f"; `{name}` is for: {join_names(having)}" if having else ""


def kind(name: str, settings: Mapping[str, Tree], kinds: Mapping[str, Schema]) -> str:
    """For a section without its `column:` or `kind:`, the one that its settings fit."""
    for other, tree in settings.items():
        if tree.text in kinds:
            return f'; did you mean "{name}: {tree.text}" instead of "{other}: {tree.text}"?'
    fit = [tag for tag, schema in kinds.items() if settings and settings.keys() <= schema["properties"].keys()]
    return f'; did you mean "{name}: {fit[0]}"?' if len(fit) == 1 else ""


def _all_sections() -> list[tuple[KeyPath, Schema]]:
    properties = json_schema()["properties"]
    outer = [((name,), section) for name, value in properties.items() for section in _sections_in(value)]
    inner: list[tuple[KeyPath, Schema]] = [
        ((*path, name), section)
        for path, owner in outer
        for name, value in owner.get("properties", {}).items()
        for section in _sections_in(value)
    ]
    return [((), json_schema()), *outer, *inner]


def _sections_in(schema: Schema) -> list[Schema]:
    """The sections that a setting may hold."""
    return [*kinds_of(schema).values()] or [resolve(branch) for branch in branches(schema)]


def _null(tree: Tree, schema: Schema) -> str:
    if tree.value is None and "default" in schema:
        return "; remove the line to use the default"
    group = "$ref" in schema or kinds_of(schema)
    return "; write its settings under it, or remove the line" if tree.value is None and group else ""


def _name(tree: Tree, names: list[str]) -> str:
    return did_you_mean(tree.value, names) if isinstance(tree.value, str) else ""


def _number(tree: Tree, kinds: set[str]) -> str:
    """For a number written as a string, or an integer with a decimal point."""
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
    """For a string that needs quotes, or a boolean written as another word."""
    if "string" in kinds and isinstance(tree.value, int | float):
        return f"; a string needs quotes: {json.dumps(tree.text)}"
    if "string" in kinds and isinstance(tree.value, str) and tree.value.startswith("\\"):
        return f'; an escape needs double quotes: "{tree.value}"'
    if "boolean" in kinds and isinstance(tree.value, str) and tree.value.casefold() in TRUTH:
        return f"; did you mean {TRUTH[tree.value.casefold()]}?"
    return ""


def _group(tree: Tree, schemas: list[Schema]) -> str:
    """For a single value in place of settings or a list."""
    if not isinstance(tree.value, str | int | float):
        return ""
    text = tree.text
    texts = any(schema.get("type") == "string" for schema in schemas)
    for schema in schemas:
        if text in kinds_of(schema):
            return f"; did you mean {{{schema['discriminator']['propertyName']}: {text}}}?"
        if "min" in schema.get("properties", {}) and not isinstance(tree.value, str):
            return f"; did you mean {{min: {text}}}?"
        if schema.get("type") == "array" and schema.get("minItems", 0) < 2:
            return f"; did you mean [{text}]?"
        if schema.get("type") == "object" and not texts and re.match(r"^\w+:\S", text):
            return "; write a space after the colon"
    return ""
