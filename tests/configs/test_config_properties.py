"""What holds for any config and for any text: the round trip through YAML, and no failure but a ConfigError."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.common.errors import ConfigError, Problem
from headrace.configs.config import PipelineConfig
from headrace.configs.json_schema import json_schema, kinds_of, resolve
from headrace.configs.loading.editing import to_yaml
from headrace.configs.loading.loader import load
from headrace.configs.loading.tree import plain
from headrace.configs.loading.yaml_reader import read

TAXI = Path("configs/taxi.yaml").read_text(encoding="utf-8")
FEW = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
JARGON = (
    "input should",
    "pydantic",
    "tuple[",
    "constrained",
    "literal[",
    "extra inputs",
    "errors.",
    "value error",
)


def from_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Any value that the JSON Schema allows."""
    schema = resolve(schema)
    if kinds_of(schema):
        return st.one_of([from_schema(kind) for kind in kinds_of(schema).values()])
    if "anyOf" in schema or "oneOf" in schema:
        return st.one_of([from_schema(branch) for branch in schema.get("anyOf") or schema["oneOf"]])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    if "properties" in schema:
        return section(schema)
    return PLAIN[schema.get("type", "any")](schema)


def section(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    fields = {name: from_schema(value) for name, value in schema["properties"].items()}
    needed = {name: strategy for name, strategy in fields.items() if name in schema.get("required", ())}
    return st.fixed_dictionaries(
        needed, optional={name: strategy for name, strategy in fields.items() if name not in needed}
    )


def text(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        return of_pattern(schema["pattern"])
    awkward = st.sampled_from(
        ["no", "1e5", "007", "0x1F", "~", "12:30", "- a", "a: b", "#", "'", "\\t", "<<", "=", "é\u2028"]
    )
    any_text = st.text(
        st.characters(codec="utf-8"), min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 9)
    )
    return any_text if "maxLength" in schema else any_text | awkward


@functools.cache  # making the strategy takes longer than drawing from it
def of_pattern(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(pattern, fullmatch=True).filter(lambda word: len(word) < 64 and word.isascii())


@functools.cache
def of_section(name: str) -> st.SearchStrategy[Any]:
    return from_schema(json_schema()["properties"][name])


def whole(schema: dict[str, Any]) -> st.SearchStrategy[int]:
    return st.integers(max(schema.get("minimum", -99), schema.get("exclusiveMinimum", -99) + 1), 2**62)


def number(schema: dict[str, Any]) -> st.SearchStrategy[float]:
    least = schema.get("minimum", schema.get("exclusiveMinimum", -1e300))
    return st.floats(
        least,
        schema.get("exclusiveMaximum", 1e300),
        exclude_min="exclusiveMinimum" in schema,
        exclude_max="exclusiveMaximum" in schema,
    )


def array(schema: dict[str, Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(from_schema(schema["items"]), min_size=schema.get("minItems", 0), max_size=3)


def mapping(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = schema.get("additionalProperties")
    names = from_schema({"type": "string", **schema.get("propertyNames", {})})  # whose schema may leave the type out
    return st.dictionaries(
        names,
        from_schema(values) if isinstance(values, dict) else ANYTHING,
        min_size=schema.get("minProperties", 0),
        max_size=3,
    )


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
ANYTHING = st.recursive(
    SCALARS | st.text(st.characters(codec="utf-8"), max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
PLAIN: dict[str, Callable[[dict[str, Any]], st.SearchStrategy[Any]]] = {
    "integer": whole,
    "number": number,
    "string": text,
    "array": array,
    "object": mapping,
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
    "any": lambda _: ANYTHING,
}


@st.composite
def configs(draw: st.DrawFn) -> PipelineConfig:
    """The example with some sections replaced by any that pydantic takes (they may break rules across sections)."""
    config = load("configs/taxi.yaml")
    for name in json_schema()["properties"]:
        if draw(st.booleans()):
            values = config.model_dump(mode="json", by_alias=True) | {name: draw(of_section(name))}
            with contextlib.suppress(ValidationError):  # what a section's own check refuses
                config = PipelineConfig.model_validate_json(json.dumps(values))
    return config


@pytest.mark.slow
@FEW
@given(config=configs())
def test_yaml_written_from_a_config_reads_as_the_same_config(config: PipelineConfig) -> None:
    written = to_yaml(config)
    tree, mistakes = read(written, "c.yaml", 0)
    assert mistakes == []
    assert tree is not None
    again = PipelineConfig.model_validate_json(json.dumps(plain(tree)))
    assert again == config
    assert to_yaml(again) == written


def test_the_example_written_and_loaded_is_the_same_config(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(to_yaml(load("configs/taxi.yaml")))
    assert load(file) == load("configs/taxi.yaml")


def judged(folder: Path, content: bytes | str, overrides: tuple[str, ...] = ()) -> None:
    """Loads, and looks at the mistakes: each has a place, and none speaks pydantic."""
    file = folder / "c.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    given = f"{file.read_text(errors='replace')} {overrides}".lower()
    foreign = [word for word in JARGON if word not in given]  # what the user wrote is repeated as it is
    for problem in problems(file, overrides):
        assert problem.where.startswith((str(file), "override "))
        assert not any(word in str(problem).lower() for word in foreign), problem


def problems(file: Path, overrides: tuple[str, ...]) -> tuple[Problem, ...]:
    try:
        load(file, overrides=overrides)
    except ConfigError as error:
        return error.problems
    return ()


@FEW
@given(content=st.binary(max_size=60) | st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_bytes_load_or_raise_a_config_error(tmp_path: Path, content: bytes | str) -> None:
    judged(tmp_path, content)


@FEW
@given(content=st.text(st.sampled_from("ab:-?[]{},&*!|>'\"%@#<~ \n\t1."), max_size=40))
def test_any_punctuation_loads_or_raises_a_config_error(tmp_path: Path, content: str) -> None:
    judged(tmp_path, content)


@pytest.mark.slow
@FEW
@given(
    start=st.integers(0, len(TAXI)),
    length=st.integers(0, 30),
    put=st.text(st.sampled_from("a1:-[]{},&*'\" \n\t"), max_size=9),
)
def test_a_spoilt_config_loads_or_raises_a_config_error(tmp_path: Path, start: int, length: int, put: str) -> None:
    judged(tmp_path, TAXI[:start] + put + TAXI[start + length :])


def _ways(value: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = (
        [way for name, child in value.items() for way in _ways(child, (*above, name))]
        if isinstance(value, dict)
        else []
    )
    return [above, *inner] if above else inner


WAYS = _ways(json.loads(load("configs/taxi.yaml").model_dump_json(by_alias=True)))


@pytest.mark.slow
@FEW
@given(way=st.sampled_from(WAYS), value=ANYTHING, extra=st.booleans())
@example(way=("features", "fare"), value={"column": ["numeric"]}, extra=False)
@example(way=("features", "fare", "column"), value={}, extra=False)
@example(way=("evaluate", "slices"), value=[["a", 1], [], None, {}], extra=False)
def test_any_value_at_any_place_loads_or_raises_a_config_error(
    tmp_path: Path, way: tuple[str, ...], value: Any, extra: bool
) -> None:
    way = (*way, "extra") if extra else way
    judged(tmp_path, TAXI, (f"{'.'.join(way)}={json.dumps(value)}",))


@pytest.mark.slow
@FEW
@given(option=st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_set_option_loads_or_raises_a_config_error(tmp_path: Path, option: str) -> None:
    judged(tmp_path, TAXI, (option,))


@pytest.mark.parametrize("name", ["numeric", "auto", "str", "0", "[key]", "int"])
def test_a_feature_named_like_an_alternative_is_placed_rightly(tmp_path: Path, name: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(TAXI.replace("  fare: {column: numeric", f'  "{name}": {{column: numeric, numeric: 3'))
    with pytest.raises(ConfigError, match=rf"c.yaml:\d+: features.{name}.numeric: no such setting".replace("[", r"\[")):
        load(file)
