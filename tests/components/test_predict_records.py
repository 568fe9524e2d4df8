"""Rows of a request become the columns that a table of the same values is read as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.components.predict.reading import Input, TableSource, open_input
from headrace.components.predict.records import record_batch
from headrace.components.sources import ReadOptions
from headrace.components.sources.base import serial_map
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.description import ModelDescription

MODEL = ModelDescription(
    label=LabelConfig(key="y", kind="binary"),
    types={"y": "int", "i": "int", "f": "float", "s": "bytes", "l": "float"},
    features=("i", "f", "s", "l"),
    multivalued=("l",),
)
KINDS: Any = {"i": "int", "f": "float", "s": "string", "l": "float list"}
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "y": st.integers(0, 1) | st.none(),
            "i": st.integers(-(2**63), 2**63 - 1) | st.none(),
            "f": FLOATS | st.integers(-(2**53), 2**53) | st.none(),
            "s": st.text(st.characters(exclude_categories=["Cs"])) | st.none(),
            "l": st.lists(FLOATS, min_size=1) | st.none(),
        },
    ),
    min_size=1,
    max_size=8,
)


@given(ROWS)
def test_values_of_the_models_types_are_what_a_table_of_them_is_read_as(rows: list[dict[str, Any]]) -> None:
    found = record_batch(rows, MODEL)
    assert found is not None
    table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in MODEL.features})
    (expected,) = TableSource.of(table, ReadOptions()).batches((0, len(rows)), KINDS)
    assert found.schema.names == list(MODEL.features)
    for name in MODEL.features:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist(), name


@pytest.mark.parametrize(
    "row",
    [{"i": 3.5}, {"i": "3"}, {"i": True}, {"i": 2**63}, {"f": "3"}, {"s": 5}, {"l": [1.0, None]}],
)
def test_what_needs_a_conversion_is_left_to_it(row: dict[str, Any]) -> None:
    assert record_batch([{"i": 1, "f": 1.0, "s": "a", "l": [1.0]}], MODEL) is not None
    assert record_batch([row], MODEL) is None


@pytest.mark.parametrize(("values", "kind"), [(["a|b", "c"], "string"), (["a|b", ["c", "d"]], "string list")])
def test_a_text_of_json_that_the_model_splits_is_a_text_in_the_output_too(
    tmp_path: Path, values: list[Any], kind: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(json.dumps({"s": value}) for value in values), encoding="utf-8")
    model = ModelDescription(label=MODEL.label, types={"s": "bytes"}, features=("s",), multivalued=("s",))
    given = Input(DataConfig.model_validate({"source": {"kind": "jsonl", "path": str(file)}}))
    assert open_input(given, model, None, serial_map, tmp_path, typed=True).kinds == {"s": kind}
    assert open_input(given, model, (), serial_map, tmp_path, typed=True).kinds == {"s": "string list"}
