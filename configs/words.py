"""Config values and what is allowed for them, in plain words: for error messages and the reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from headrace.configs.credentials import value_without
from headrace.configs.json_schema import Schema, resolved, tags
from headrace.configs.suggest import listed
from headrace.configs.tree import Tree

PATTERNS = {
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "lower-case letters, digits and dashes, a dash neither first nor last",
    r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$": "a dotted path, such as my_package.my_module.my_function",
    r"^[1-9][0-9]* ?MB$": "a size such as 150MB",
    r"^[0-9]+(\.[0-9]+)?(E|Ei|P|Pi|T|Ti|G|Gi|M|Mi|Ki)?$": "a size such as 4G or 512Mi",
    r"^[1-9][0-9]{0,9}[smhd]$": "a time such as 30s, 10m, 2h or 1d",
    r"^/[^:]+$": "an absolute path",
    r"^(gs|s3|minio)://[a-z0-9][a-z0-9._-]*(/[^?#@\s]+)?$": "a URI such as s3://bucket/folder",
    r"^https?://[^/?#@\s]+(/[^?#@\s]*)?$": "a URL such as https://kubeflow.example/pipeline",
    r"^https?://[^/?#@\s]+$": "a URL without a path, such as http://seaweedfs.kubeflow:9000",
    r"^\d{4}-\d{2}-\d{2}$": "a date such as 2026-11-20",
    r"^grpc://[^\s/:]+:[0-9]{1,5}$": "an address such as grpc://127.0.0.1:5050",
    r"^[a-z][a-z0-9_]*(/[^/:\s]+)?(:([0-9]+|\*)(\.([0-9]+|\*)){2})?$": "a dataset's name, such as mnist:3.*.*",
}
"""The words for every regular expression in the config."""


def allowed(schema: Schema, section: Callable[[Schema], str] | None = None) -> str:
    """`a whole number above 0, or null`. `section` gives the words for a group of settings."""
    if "anyOf" in schema:
        return ", or ".join(allowed(branch, section) for branch in schema["anyOf"])
    if "enum" in schema:
        return either(schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if tags(schema) or "properties" in resolved(schema):
        return (section or _settings)(schema)
    words = _KINDS.get(schema.get("type", ""))
    return words(schema, section) if words else "any value"


def either(names: Iterable[object]) -> str:
    """`a, b or c`."""
    *most, last = map(str, names)
    return f"{', '.join(most)} or {last}" if most else last


def found(tree: Tree) -> str:
    """`the text "five"`, `the number 1e5`, `a list of 3`, `nothing`."""
    value = tree.value
    if isinstance(value, dict):
        return f"settings ({listed(value, 4)})" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "nothing (null)"
    if isinstance(value, str):
        return f"the text {_cut(json.dumps(value_without(value), ensure_ascii=False))}"
    return tree.text if isinstance(value, bool) else f"the number {tree.text}"


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def _settings(schema: Schema) -> str:
    kinds = tags(schema)
    if kinds:
        name = schema["discriminator"]["propertyName"]
        return f"settings with {name}: {either(kinds)}"
    return f"settings ({listed(resolved(schema)['properties'], 8)})"


Section = Callable[[Schema], str] | None


_BOUNDS = {
    "exclusiveMinimum": "above",
    "minimum": "of at least",
    "exclusiveMaximum": "below",
    "maximum": "of at most",
}


def _bounds(schema: Schema) -> str:
    words = [f"{word} {schema[bound]}" for bound, word in _BOUNDS.items() if bound in schema]
    return f" {' and '.join(words)}" if words else ""


def _whole(schema: Schema, _: Section) -> str:
    return f"a whole number{_bounds(schema)}"


def _number(schema: Schema, _: Section) -> str:
    return f"a number{_bounds(schema)}"


def _text(schema: Schema, _: Section) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    words = PATTERNS.get(schema.get("pattern", ""), "a non-empty text" if least else "a text")
    if least == most == 1:
        return "one character"
    return f"{words}, at most {most} characters" if most else words


def _list(schema: Schema, section: Section) -> str:
    least = schema.get("minItems", 0)
    return f"a list{f' of at least {least}' if least else ''}, each {allowed(schema['items'], section)}"


def _mapping(schema: Schema, section: Section) -> str:
    values = schema.get("additionalProperties", {})
    least = schema.get("minProperties", 0)
    what = allowed(values, section) if isinstance(values, dict) else "any value"
    return f"names{f' (at least {least})' if least else ''}, each with {what}"


_KINDS: dict[str, Callable[[Schema, Section], str]] = {
    "integer": _whole,
    "number": _number,
    "string": _text,
    "array": _list,
    "object": _mapping,
    "boolean": lambda _schema, _section: "true or false",
    "null": lambda _schema, _section: "null",
}
