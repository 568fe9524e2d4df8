"""JSON to tensors and back, as TensorFlow Serving's REST API has them."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from source_rows import read_source, values_of

from headrace.configs.schema.sources import JsonlSource
from headrace.pipeline.serve.rest import BadRequestError, PredictRequest, check_lengths, flat_records, plain_rows

SPECS = {
    "x": tf.TensorSpec([None, 2], tf.float32),
    "n": tf.TensorSpec([None], tf.int64),
    "t": tf.TensorSpec([None], tf.string),
}
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.tuples(
        st.lists(FLOATS, min_size=2, max_size=2),
        st.integers(-(2**63), 2**63 - 1),
        st.text(st.characters(exclude_categories=["Cs"])) | st.binary(),
    ),
    min_size=1,
)


def _request(**body: Any) -> PredictRequest:
    return PredictRequest.parse(json.dumps(body).encode())


def _text(value: str | bytes) -> Any:
    return value if isinstance(value, str) else {"b64": base64.b64encode(value).decode()}


@given(ROWS)
def test_rows_and_columns_become_the_same_tensors_without_losing_a_digit(rows: list[Any]) -> None:
    by_row = _request(instances=[{"x": x, "n": n, "t": _text(t)} for x, n, t in rows])
    by_column = _request(
        inputs={"x": [x for x, _, _ in rows], "n": [n for _, n, _ in rows], "t": [_text(t) for *_, t in rows]}
    )
    for found in (by_row.tensors(SPECS), by_column.tensors(SPECS)):
        np.testing.assert_array_equal(found["x"].numpy(), np.array([x for x, _, _ in rows], np.float32))
        assert found["n"].numpy().tolist() == [n for _, n, _ in rows]
        assert found["t"].numpy().tolist() == [t.encode() if isinstance(t, str) else t for *_, t in rows]


def test_predictions_that_are_not_finite_are_null() -> None:
    """JSON has no such numbers; a row with an infinite value gives them."""
    table = pa.table({"prediction": ["a", "b"], "probability_a": pa.array([math.nan, 0.25], pa.float32())})
    assert plain_rows(table) == [
        {"prediction": "a", "probability_a": None},
        {"prediction": "b", "probability_a": 0.25},
    ]


def test_an_input_alone_may_stand_without_its_name() -> None:
    spec = {"t": SPECS["t"]}
    for given_ in (["a", "b"], [{"t": "a"}, {"t": "b"}], [{"b64": "YQ=="}, "b"]):
        assert _request(instances=given_).tensors(spec)["t"].numpy().tolist() == [b"a", b"b"]
    assert _request(inputs=["a", "b"]).tensors(spec)["t"].numpy().tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"x": [1, 2], "n": 1.5, "t": ""}, "'n' takes integers; found 1.5"),
        ({"x": [1, 2], "n": float("inf"), "t": ""}, "'n' takes integers; found inf"),
        ({"x": [1, 2], "n": float("nan"), "t": ""}, "'n' takes integers; found nan"),
        ({"x": [1, 2], "n": True, "t": ""}, "'n' takes numbers; found true"),
        ({"x": [1, 2], "n": 2**63, "t": ""}, "'n'.*int64"),
        ({"x": [1], "n": 1, "t": ""}, r"'x' .*\(1, 1\), .*\(any, 2\)"),
        ({"x": [[1], [2, 3]], "n": 1, "t": ""}, "'x' .*same length"),
        ({"x": [1, 2], "n": 1, "t": 7}, "'t' takes strings"),
        ({"x": [1, 2], "n": 1, "t": {"b64": "%"}}, "'t'.*not base64"),
        ({"x": [1, 2], "n": 1}, "no value for t"),
        ({"x": [1, 2], "n": 1, "t": "", "y": 1}, "no input 'y'"),
        ([1, 2], "takes x, n, t, so each row"),
    ],
)
def test_a_value_that_does_not_fit_is_named(row: Any, words: str) -> None:
    with pytest.raises(BadRequestError, match=words):
        _request(instances=[row]).tensors(SPECS)


@pytest.mark.parametrize(
    "body",
    [
        b"[1]",
        b"{}",
        b'{"instances": []}',
        b'{"instances": [1], "inputs": 1}',
        b"\xff",
        b"{",
        b'{"inputs": ' + b"[" * 9999,
    ],
)
def test_a_body_of_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError, match=r"JSON|instances|nested too deeply"):
        PredictRequest.parse(body)


def test_answers_have_no_numbers_that_json_has_not_and_bytes_by_name() -> None:
    outputs = {"a": np.array([[1.5, np.nan], [np.inf, 2]]), "raw_bytes": np.array([b"\xff", b"x"], object)}
    rows = _request(instances=[1]).response(outputs)["predictions"]
    assert rows == [{"a": [1.5, None], "raw_bytes": {"b64": "/w=="}}, {"a": [None, 2.0], "raw_bytes": {"b64": "eA=="}}]
    assert _request(inputs=1).response(outputs)["outputs"]["a"] == [[1.5, None], [None, 2.0]]
    alone = {"name": np.array(["ü".encode(), b"\xff"], object)}
    assert _request(instances=[1]).response(alone) == {"predictions": ["ü", "\ufffd"]}


SCALAR = {"n": st.integers(-9, 9) | st.none(), "s": st.text(max_size=3)}
HOME = st.fixed_dictionaries({}, optional={**SCALAR, "l": st.lists(st.integers(0, 9), max_size=3)})
USER = st.fixed_dictionaries({}, optional={**SCALAR, "home": HOME})
RECORD = st.fixed_dictionaries({"id": st.integers(0, 9)}, optional={"user": USER, **SCALAR})
COLUMNS = {"id", "n", "s", "user.n", "user.s", "user.home.n", "user.home.s", "user.home.l", "items.price", "x", "x.1"}


@given(st.lists(RECORD, min_size=1, max_size=4))
def test_values_in_objects_are_the_columns_that_pandas_makes_of_them(rows: list[dict[str, Any]]) -> None:
    flat = [pd.json_normalize(row).astype(object).to_dict("records")[0] for row in rows]
    assert flat_records(rows, COLUMNS, COLUMNS) == flat


def test_lists_of_objects_and_absent_objects_are_read_as_in_json_lines(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"items": [{"price": 3}, {"price": None}, {}, {"price": 5}], "user": {"home": {"l": [1]}}},
        {"items": [], "user": None, "id": 1},
        {"items": None, "user": {"home": None, "n": 2}, "x": 1, "x.1": 2},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    records = flat_records(rows, COLUMNS, COLUMNS)
    expected = read_source(JsonlSource(kind="jsonl", path=str(tmp_path / "rows.jsonl")))[1]
    assert [values_of(record) for record in records] == [values_of(row) for row in expected]
    assert records[0] == {"items.price": [3, 5], "user.home.l": [1]}


def deep(levels: int) -> dict[str, Any]:
    row: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        row = {"a": row}
    return row


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"user": {"m": 1}}, r"^row 1 .*no column 'user\.m'; did you mean"),
        ({"user": 1}, r"^row 1 .*no column 'user'"),
        ({"m": None}, r"^row 1 .*no column 'm'"),
        ({"user": {"n": 1}, "user.n": 1}, r"^row 1 .*'user\.n' twice"),
        (deep(5000), r"^row 1 \(counted from 0\) is nested too deeply"),
    ],
)
def test_a_row_with_other_columns_is_refused(row: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequestError, match=words):
        flat_records([{"id": 1}, row], COLUMNS, COLUMNS)


def test_columns_of_different_lengths_are_named_with_their_lengths() -> None:
    specs = {**SPECS, "temperature": tf.TensorSpec([], tf.float32)}
    given_ = {"x": [[1, 2], [3, 4]], "n": [1], "t": ["a", "b"], "temperature": 0.5}
    tensors = _request(inputs=given_).tensors(specs)
    with pytest.raises(BadRequestError, match=r"lengths differ: 'n' .*1, 't' .*2, 'x' .*2$"):
        check_lengths(tensors, specs)
    check_lengths(_request(inputs={**given_, "n": [1, 2]}).tensors(specs), specs)


def test_rows_of_data_columns_are_told_from_inputs_of_the_signature() -> None:
    inputs = {"examples": tf.TensorSpec([None], tf.string)}
    for rows, expected in (
        ([{"age": 3}], True),
        ([{"examples": ""}], False),
        ([{"b64": ""}], False),
        ([{}], True),
        ([{"age": 3}, 1], False),
    ):
        assert _request(instances=rows).are_records(inputs) is expected
    assert not _request(instances=[{"age": 3}], signature_name="serving_default").are_records(inputs)
