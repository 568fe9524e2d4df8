"""The config's JSON Schema: what editors check against, and what the reference and error messages are made from.

schema = json_schema()
schema["properties"]["train"]                  # {"$ref": "#/$defs/TrainConfig", "description": ...}
schema_at(("train", "epochs")).schema          # {"anyOf": [{"const": "auto"}, {"type": "integer", ...}], ...}
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic.json_schema import GenerateJsonSchema

from headrace.configs.config import PipelineConfig
from headrace.configs.schema.features import FEATURE_COLUMNS, FUNCTION
from headrace.configs.schema.models import CUSTOM_KIND
from headrace.configs.schema.section import KeyPath, Section
from headrace.configs.schema.selection import AUTO, COLUMN_TYPES, PATTERN

if TYPE_CHECKING:
    from pydantic_core.core_schema import ModelSchema

Schema = dict[str, Any]


@cache
def json_schema() -> Schema:
    """The schema (draft 2020-12), with the documentation of every setting and without redundant titles."""
    schema: Schema = _tidy(PipelineConfig.model_json_schema(by_alias=True, schema_generator=_Documented))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headrace pipeline config",
        **schema,
    }


class _Documented(GenerateJsonSchema):
    """Describes each setting by the text under its field."""

    def model_schema(self, schema: ModelSchema) -> Schema:
        made, model = super().model_schema(schema), schema["cls"]
        for name, text in _texts(model).items():
            field = model.model_fields.get(name)
            if field is None or field.description is not None:
                continue
            setting: Schema = made["properties"][field.alias or name]
            if self.resolve_ref_schema(setting).get("description") != text:  # a section may say the same of itself
                setting.setdefault("description", text)
        return made


def _texts(model: type) -> dict[str, str]:
    """Name to the text under it, for the fields of a section and of its bases."""
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        declared = _classes(each.__module__).get(each.__qualname__) if issubclass(each, Section) else None
        for field, below in itertools.pairwise(declared.body if declared is not None else ()):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                texts.pop(field.target.id, None)
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    texts[field.target.id] = inspect.cleandoc(str(below.value.value))
    return texts


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module and those inside them, by their qualified names. `inspect.getsource` would parse the
    module for each of them.
    """
    try:
        outermost = ast.parse(inspect.getsource(sys.modules[module])).body
    except (KeyError, TypeError, OSError, SyntaxError):  # there is no source, as of a class made in a console
        return {}
    found: dict[str, ast.ClassDef] = {}
    waiting = [("", statement) for statement in outermost]
    while waiting:
        above, statement = waiting.pop()
        if isinstance(statement, ast.ClassDef):
            found[above + statement.name] = statement
            waiting += [(f"{above}{statement.name}.", inner) for inner in statement.body]
    return found


def editor_schema() -> Schema:
    """The schema for editors: also with what is resolved before the config is validated (configs/loading/selection.py),
    `auto` and patterns under `features:`, `label: {kind: auto}`, and a pipeline that is named after its file.
    """
    schema = copy.deepcopy(json_schema())
    schema["required"] = [name for name in schema["required"] if name != "pipeline"]
    for section in ("LabelConfig", "TaskConfig"):
        schema["$defs"][section]["properties"]["kind"]["enum"].append(AUTO)
    (columns,) = (form for form in schema["properties"]["features"]["oneOf"] if "additionalProperties" in form)
    feature = columns["additionalProperties"]
    types = {"enum": [*COLUMN_TYPES]}
    selection = {
        "type": "object",
        "required": ["column"],
        "properties": {
            "column": {"enum": [AUTO, *kinds_of(feature)]},
            "types": {**_one_or_more(types), "description": "Only columns of these types."},
            "except": {**_one_or_more({"type": "string"}), "description": "Columns or patterns that it leaves out."},
        },
    }
    columns["patternProperties"] = {PATTERN: {"anyOf": [{"const": AUTO}, selection]}}
    columns["additionalProperties"] = {"anyOf": [{"const": AUTO}, feature]}
    return schema


def _one_or_more(item: Schema) -> Schema:
    return {"anyOf": [item, {"type": "array", "items": item}]}


def resolve(schema: Schema) -> Schema:
    """The schema itself, or the definition that it refers to."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Schema = json_schema()["$defs"][str(reference).rpartition("/")[2]]
    return found


def documentation(schema: Schema) -> str:
    """The documentation of a setting, or of the section it holds."""
    return str(schema.get("description") or resolve(schema).get("description", ""))


def branches(schema: Schema) -> list[Schema]:
    """The alternatives for a value, without null; the schema itself if there is only one."""
    return [branch for branch in schema.get("anyOf", [schema]) if branch.get("type") != "null"]


def kinds_of(schema: Schema) -> dict[str, Schema]:
    """For a section whose kind one of its settings selects (`column: numeric`), the schema of each kind; else empty."""
    if "discriminator" not in schema:
        return {}
    name = schema["discriminator"]["propertyName"]
    kinds = [resolve(branch) for branch in schema["oneOf"]]
    return {kind["properties"][name].get("const", CUSTOM_KIND): kind for kind in kinds}


def forms_of(schema: Schema) -> dict[str, Schema]:
    """For `features:`, the schemas of its forms, feature columns and a function; else empty."""
    if "discriminator" in schema:
        return {}
    return {FUNCTION if "$ref" in form else FEATURE_COLUMNS: form for form in schema.get("oneOf", ())}


class SchemaLocation(NamedTuple):
    """Where a location of pydantic's leads: the path of the setting, its schema, and the union that it belongs to."""

    path: KeyPath
    schema: Schema
    union: KeyPath | None


def schema_at(location: Iterable[str | int]) -> SchemaLocation:
    """Follow a location of pydantic's, which also names kinds and alternatives, to the setting and its schema."""
    path: KeyPath = ()
    schema, union = json_schema(), None
    whole = schema
    for step in location:
        schema = resolve(schema)
        if step in kinds_of(schema):
            schema = kinds_of(schema)[str(step)]
        elif step in forms_of(schema):
            schema = forms_of(schema)[str(step)]
        elif len(branches(schema)) > 1 and union != path:
            union, whole = path, schema  # the step names an alternative
            schema = tagged_branch(schema) if str(step).startswith("tagged-union[") else schema
        else:
            columns = forms_of(schema).get(FEATURE_COLUMNS, schema)  # a path of the config names no form
            schema, path = _step(columns, step), (*path, step)
    return SchemaLocation(path, whole if path == union else schema, union)


def tagged_branch(schema: Schema) -> Schema:
    """The alternative whose kind one of its settings selects."""
    return next(branch for branch in branches(schema) if kinds_of(branch))


def _step(schema: Schema, step: str | int) -> Schema:
    """The schema of an item or setting; that of its holder if there is no such setting."""
    for branch in map(resolve, branches(schema)):
        places = branch.get("prefixItems", ())
        if isinstance(step, int) and step < len(places):
            return dict(places[step])
        if isinstance(step, int) and isinstance(branch.get("items"), dict):
            return dict(branch["items"])
        if step in branch.get("properties", {}):
            return dict(branch["properties"][step])
        if isinstance(branch.get("additionalProperties"), dict):
            return dict(branch["additionalProperties"])
        if "properties" in branch:
            return branch
    return schema


def _tidy(schema: Any, *, names: bool = False) -> Any:
    """Remove pydantic's generated titles, line breaks in texts, and defaults that are whole sections.

    names: The keys of `schema` are names of settings or definitions, not keywords.
    """
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if names:
        return {name: _tidy(value) for name, value in schema.items()}
    return {word: _tidy_keyword(word, value) for word, value in schema.items() if not _is_noise(word, value, schema)}


def _is_noise(word: str, value: Any, schema: Schema) -> bool:
    return word == "title" or (word == "default" and isinstance(value, dict) and value != {} and "$ref" in str(schema))


def _tidy_keyword(word: str, value: Any) -> Any:
    if word == "description":
        return " ".join(value.split())
    if word in ("default", "const", "enum", "discriminator"):
        return value
    return _tidy(value, names=word in ("properties", "$defs"))
