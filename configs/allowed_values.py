"""What a setting may be, in words: for error messages and the reference.

describe_allowed(schema_at(("train", "epochs")).schema)      # "integer, at least 1"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.common.names import join_names, join_or
from headrace.configs.json_schema import Schema, forms_of, kinds_of, resolve
from headrace.configs.schema.features import FEATURE_COLUMNS
from headrace.configs.schema.metrics import LEVEL_NAMES_PATTERN, TASK_METRIC, TOP_K_PATTERN

if TYPE_CHECKING:
    pass

PATTERN_DESCRIPTIONS = {
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "lower-case letters, digits and inner dashes",
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$": "a lower-case letter, then lower-case letters, digits and inner dashes",
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
    r"^[a-z][a-z0-9_]*(/[^/:\s]+)?(:([0-9]+|\*)(\.([0-9]+|\*)){2})?$": "a dataset name such as mnist:3.*.*",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "the name of an environment variable, such as SLACK_URL",
    r"^https?://[^\s/]\S*$": "a URL such as https://hooks.example/headrace",
    r"^[^\s@<>,;:\"]+@[^\s@<>,;:\"]+$": "an address such as team@example.com",
    r"\.prom$": "a path that ends in .prom",
    r"^[A-Za-z0-9_.{}-]+$": "letters, digits, dots, dashes and underscores, and {name}",
    r"^[A-Za-z0-9_-]+$": "letters, digits, dashes and underscores",
    r"^[a-z][a-z0-9+.-]*://[^?#@\s]+$": "a URI such as s3://models/taxi",
    r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$": "a host and a port, such as serving:8500",
    r"^(/|[a-z][a-z0-9+.-]*://)": "an absolute path, or a URI such as gs://models/taxi",
    LEVEL_NAMES_PATTERN: "a metric with a level, such as precision@0.3 or precision_at_recall@0.9",
    TOP_K_PATTERN: "top_K_accuracy with K from 2 to one less than the number of classes",
    TASK_METRIC: "a task's metric, such as price/mean_absolute_error",
}
"""A description of every regular expression in the config."""
SectionWords = Callable[[Schema], str] | None


def describe_allowed(schema: Schema, section: SectionWords = None) -> str:
    """`integer, at least 1, or null`. `section` describes a group of settings."""
    if forms := forms_of(schema):
        return describe_allowed(forms[FEATURE_COLUMNS], section)
    if "anyOf" in schema:
        return ", or ".join(describe_allowed(branch, section) for branch in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return join_or(map(_plain_word, schema.get("enum") or [schema["const"]]))
    if kinds_of(schema) or "properties" in resolve(schema):
        return (section or _describe_section)(schema)
    if "$ref" in schema:
        return describe_allowed(resolve(schema), section)
    words = _TYPES.get(schema.get("type", ""))
    return words(schema, section) if words else "any value"


def _plain_word(value: Any) -> str:
    """A fixed value as YAML has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _describe_section(schema: Schema) -> str:
    kinds = kinds_of(schema)
    if kinds:
        name = schema["discriminator"]["propertyName"]
        return f"settings with {name}: {join_or(kinds)}"
    return f"settings ({join_names(resolve(schema)['properties'], 8)})"


def _describe_number(schema: Schema, _: SectionWords) -> str:
    """Type and bounds, such as `number, above 0`; both bounds inclusive become a range with an en dash."""
    above, least, below, most = (
        schema.get(bound) for bound in ("exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum")
    )
    if least is not None and most is not None:
        return f"{schema['type']}, {_plain_number(least)}–{_plain_number(most)}"  # noqa: RUF001 - a range
    bounds = [("above", above), ("at least", least), ("below", below), ("at most", most)]
    words = [f"{word} {_plain_number(bound)}" for word, bound in bounds if bound is not None]
    return ", ".join([schema["type"], " and ".join(words)]) if words else str(schema["type"])


def _plain_number(number: float) -> str:
    return f"{int(number)}" if float(number).is_integer() else f"{number:g}"


def _describe_string(schema: Schema, _: SectionWords) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    words = "non-empty string" if least else "string"
    if pattern := schema.get("pattern"):
        words = PATTERN_DESCRIPTIONS.get(pattern, f"{words} that matches {pattern}")
    if least == most == 1:
        return "one character"
    return f"{words}, at most {most} characters" if most else words


def _describe_list(schema: Schema, section: SectionWords) -> str:
    """Such as `non-empty list of strings` or `list of 2 integers, each at least 1`."""
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    places = [describe_allowed(item, section) for item in schema.get("prefixItems", ())]
    exact = f"{least} " if least and least == most else f"at least {least} " if least > 1 else ""
    what = "non-empty list" if least == 1 and not exact else "list"
    size = f" of {exact}".rstrip() if exact else ""
    if len(set(places)) > 1:  # the type of a tuple
        return f"{what}{size}: {'; '.join(places)}"
    item = places[0] if places else describe_allowed(schema.get("items", {}), section)
    if simple := _SIMPLE_ITEM.fullmatch(item):
        limits = f", each {simple['limits']}" if simple["limits"] else ""
        return f"{what} of {exact}{simple['noun']}s{limits}"
    return f"{what}{size}, each {_grouped(item)}"


_SIMPLE_ITEM = re.compile("(?P<noun>(non-empty )?(string|integer|number))(, (?!or )(?P<limits>(?!.*, or ).*))?")
"""A description whose first word has a plural, with or without limits."""


def _describe_mapping(schema: Schema, section: SectionWords) -> str:
    """Such as `mapping from names to string`."""
    values = schema.get("additionalProperties", {})
    least = schema.get("minProperties", 0)
    what = _grouped(describe_allowed(values, section)) if isinstance(values, dict) else "any value"
    head = f"mapping from at least {least} names" if least > 1 else f"{'non-empty ' * least}mapping from names"
    return f"{head} to {what}"


def _grouped(words: str) -> str:
    """Alternatives within alternatives, in parentheses."""
    return f"({words})" if ", or " in words else words


_TYPES: dict[str, Callable[[Schema, SectionWords], str]] = {
    "integer": _describe_number,
    "number": _describe_number,
    "string": _describe_string,
    "array": _describe_list,
    "object": _describe_mapping,
    "boolean": lambda _schema, _section: "true or false",
    "null": lambda _schema, _section: "null",
}
