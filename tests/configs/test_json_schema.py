"""The JSON Schema says what pydantic does, without noise, and the reference is made from it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.configs.json_schema import PATTERN_DESCRIPTIONS, Schema, forms_of, json_schema, kinds_of, resolve
from headrace.configs.schema.features import FEATURE_COLUMNS, FEATURES


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
