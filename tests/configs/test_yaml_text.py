"""YAML read quickly: the values of PyYAML's own loader, and no text that ends the process."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import yaml_text

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


@pytest.mark.slow
@given(st.lists(VALUES, max_size=4), st.sampled_from([None, True, False]), st.booleans())
def test_documents_are_those_of_pyyaml(documents: list[Any], flow: bool | None, escaped: bool) -> None:
    text = yaml.safe_dump_all(documents, default_flow_style=flow, allow_unicode=not escaped)
    expected = list(yaml.safe_load_all(text))
    assert yaml_text.parse_all(text) == expected
    if len(expected) == 1:
        assert yaml_text.parse(text.encode()) == expected[0]
    if escaped:  # PyYAML writes U+0085 such that it reads it as a line break
        assert expected == documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        (
            "a: &one {b: 1}\nc: {<<: *one, d: 2026-11-25}",
            {"a": {"b": 1}, "c": {"b": 1, "d": dt.date(2026, 11, 25)}},
        ),
        ("yes: [on, 0o7, 1_000, 0x1F, 1:30]", {True: [True, "0o7", 1000, 31, 90]}),
    ],
)
def test_merges_dates_and_numbers_are_read_as_pyyaml_does(text: str, value: object) -> None:
    assert yaml_text.parse(text) == yaml.safe_load(text) == value


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000 + "1", "{a: " * 100_000, "a: [", "!!python/name:os.system"]
)
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        yaml_text.parse(text)
    with pytest.raises(yaml.YAMLError):
        yaml_text.parse_all(text)
