"""The config's JSON Schema: what editors check against, what the reference is made from, and what error messages tell
of what is allowed.

schema = json_schema()
schema["properties"]["train"]      # {"$ref": "#/$defs/TrainConfig", "description": ...}
"""

from __future__ import annotations

from functools import cache
from typing import Any

from headrace.configs.config import PipelineConfig
from headrace.configs.models import OWN

Schema = dict[str, Any]


@cache
def json_schema() -> Schema:
    """The schema (draft 2020-12), with the documentation of every setting and nothing that says it twice."""
    schema: Schema = _tidy(PipelineConfig.model_json_schema(by_alias=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headrace pipeline config",
        **schema,
    }


def resolved(schema: Schema) -> Schema:
    """The schema itself, or the definition it refers to."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Schema = json_schema()["$defs"][str(reference).rpartition("/")[2]]
    return found


def documentation(schema: Schema) -> str:
    """What is said of a setting, or of the section it holds."""
    return str(schema.get("description") or resolved(schema).get("description", ""))


def branches(schema: Schema) -> list[Schema]:
    """The alternatives that a value may be, null left out; the schema itself where there is one."""
    return [branch for branch in schema.get("anyOf", [schema]) if branch.get("type") != "null"]


def tags(schema: Schema) -> dict[str, Schema]:
    """For a value whose kind a setting of its own tells (`column: numeric`): each kind's schema; else nothing."""
    if "discriminator" not in schema:
        return {}
    name = schema["discriminator"]["propertyName"]
    kinds = [resolved(branch) for branch in schema["oneOf"]]
    return {kind["properties"][name].get("const", OWN): kind for kind in kinds}


def _tidy(schema: Any, *, names: bool = False) -> Any:
    """Without pydantic's made-up titles, without line breaks in texts, without defaults that are whole sections.

    names: the keys of `schema` are names of settings or definitions, not keywords.
    """
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if names:
        return {name: _tidy(value) for name, value in schema.items()}
    kept = {word: value for word, value in schema.items() if not _noise(word, value, schema)}
    return {word: _tidied(word, value) for word, value in kept.items()}


def _noise(word: str, value: Any, schema: Schema) -> bool:
    return word == "title" or (word == "default" and isinstance(value, dict) and value != {} and "$ref" in str(schema))


def _tidied(word: str, value: Any) -> Any:
    if word == "description":
        return " ".join(value.split())
    if word in ("default", "const", "enum", "discriminator"):
        return value
    return _tidy(value, names=word in ("properties", "$defs"))
