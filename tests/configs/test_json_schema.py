"""The JSON Schema says what pydantic does, without noise, and the reference is made from it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from headrace.configs.allowed_values import PATTERN_DESCRIPTIONS, describe_allowed
from headrace.configs.json_schema import (
    Schema,
    forms_of,
    json_schema,
    kinds_of,
    resolve,
)
from headrace.configs.loading.problems import explain
from headrace.configs.loading.yaml_reader import read
from headrace.configs.schema.features import FEATURE_COLUMNS, FEATURES
from headrace.configs.schema.section import PositiveInt, Section


class Ranges(Section):
    """Settings as an added kind may have them, of types that no built-in one has."""

    columns: dict[str, tuple[PositiveInt, PositiveInt]]


def reference() -> Any:
    spec = importlib.util.spec_from_file_location("config_reference", "tools/config_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in the schema."""
    if isinstance(schema, dict):
        yield schema
    for child in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(child)


def test_the_reference_is_current() -> None:
    module = reference()
    assert module.TARGET.read_text() == module.reference(), "run: python tools/config_reference.py"


@pytest.mark.slow
def test_the_reference_is_checked_from_any_folder(tmp_path: Path) -> None:
    tool = Path("tools/config_reference.py").absolute()
    done = subprocess.run([sys.executable, tool, "--check"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def feature_columns() -> Schema:
    return forms_of(json_schema()["properties"]["features"])[FEATURE_COLUMNS]


def test_the_reference_has_every_setting_and_every_kind() -> None:
    page = reference().reference()
    for definition in json_schema()["$defs"].values():
        for name in definition.get("properties", {}):
            assert f"| `{name}` |" in page
    for kind in kinds_of(feature_columns()["additionalProperties"]):
        assert f"### column: {kind}\n" in page


def test_every_setting_is_documented_on_one_line() -> None:
    for definition in [json_schema(), *json_schema()["$defs"].values()]:
        for name, setting in definition.get("properties", {}).items():
            text = setting.get("description") or resolve(setting).get("description")
            assert text, name
            assert "\n" not in text


def test_names_are_those_of_the_file_and_titles_are_not_made_up() -> None:
    assert "schema" in json_schema()["$defs"]["DataConfig"]["properties"]
    assert "schema_file" not in str(json_schema())
    assert [part["title"] for part in parts(json_schema()) if isinstance(part.get("title"), str)] == [
        json_schema()["title"]
    ]


def test_unknown_names_are_refused_and_required_ones_listed() -> None:
    schema = json_schema()
    assert schema["required"] == ["pipeline", "data", "label", "features"]
    sections = {name: definition for name, definition in schema["$defs"].items() if "properties" in definition}
    assert schema["additionalProperties"] is False
    open_ones = [name for name, section in sections.items() if section["additionalProperties"] is not False]
    assert open_ones == ["OptimizerConfig"]  # its arguments are checked by configs/rules/training.py


def test_every_reference_leads_to_a_definition() -> None:
    references = {part["$ref"] for part in parts(json_schema()) if isinstance(part.get("$ref"), str)}
    assert {reference.removeprefix("#/$defs/") for reference in references} <= json_schema()["$defs"].keys()


def test_every_regular_expression_has_words() -> None:
    used = {part["pattern"] for part in parts(json_schema()) if isinstance(part.get("pattern"), str)}
    assert used == PATTERN_DESCRIPTIONS.keys()


def test_every_kind_of_feature_is_known_by_its_tag() -> None:
    assert list(kinds_of(feature_columns()["additionalProperties"])) == list(FEATURES.kinds)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (tuple[int, int], "list of 2 integers"),
        (tuple[int, str], "list of 2: integer; string"),
        (tuple[int, ...], "list of integers"),
        (
            Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)],
            "non-empty list of integers, each at least 1",
        ),
        (Annotated[list[str], Field(min_length=2)], "list of at least 2 strings"),
        (list[str | int], "list, each (string, or integer)"),
        (list[Literal["a", "b"]], "list, each a or b"),
        (
            Annotated[dict[str, str | list[str]], Field(min_length=1)],
            "non-empty mapping from names to (string, or list of strings)",
        ),
        (list, "list, each any value"),
        (Literal["auto", True], "auto or true"),
        (Literal[False], "false"),
        (Annotated[str, Field(pattern="^x+$")], "string that matches ^x+$"),
    ],
)
def test_types_that_only_an_added_kind_has_are_described_too(annotation: Any, words: str) -> None:
    assert describe_allowed(TypeAdapter(annotation).json_schema()) == words


@pytest.mark.parametrize(
    ("given", "where", "found"),
    [
        ([1], "columns.fare", "a list of 1"),
        ([1, 2, 3], "columns.fare", "a list of 3"),
        (7, "columns.fare", "the number 7"),
        ([1, "b"], "columns.fare[1]", 'the string "b"'),
        ([0, 2], "columns.fare[0]", "the number 0"),
    ],
)
def test_a_mistake_in_a_pair_is_explained(given: Any, where: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.configs.json_schema.json_schema", Ranges.model_json_schema)
    tree, _ = read(f"columns:\n  miles: [1, 2]\n  fare: {json.dumps(given)}\n", "mine.yaml", 0)
    assert tree is not None
    with pytest.raises(ValidationError) as refused:
        Ranges.model_validate_json(json.dumps({"columns": {"miles": [1, 2], "fare": given}}))
    (problem,) = explain(refused.value, tree)
    assert problem.location.line == 3
    assert problem.what.startswith(f"{where}: found {found}; allowed: ")
