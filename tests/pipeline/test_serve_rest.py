"""JSON to tensors and back, as TensorFlow Serving's REST API has them."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.serve.rest import BadRequestError, PredictRequest

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


def test_an_input_alone_may_stand_without_its_name() -> None:
    spec = {"t": SPECS["t"]}
    for given_ in (["a", "b"], [{"t": "a"}, {"t": "b"}], [{"b64": "YQ=="}, "b"]):
        assert _request(instances=given_).tensors(spec)["t"].numpy().tolist() == [b"a", b"b"]
    assert _request(inputs=["a", "b"]).tensors(spec)["t"].numpy().tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"x": [1, 2], "n": 1.5, "t": ""}, "'n' takes integers; found 1.5"),
        ({"x": [1, 2], "n": True, "t": ""}, "'n' takes numbers; found true"),
        ({"x": [1, 2], "n": 2**63, "t": ""}, "'n'.*int64"),
        ({"x": [1], "n": 1, "t": ""}, r"'x' has the shape \(1, 1\), which is not \(any, 2\)"),
        ({"x": [[1], [2, 3]], "n": 1, "t": ""}, "'x' must be lists of the same length"),
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
    "body", [b"[1]", b"{}", b'{"instances": []}', b'{"instances": [1], "inputs": 1}', b"\xff", b"{"]
)
def test_a_body_of_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError, match=r"JSON|instances"):
        PredictRequest.parse(body)


def test_answers_have_no_numbers_that_json_has_not_and_bytes_by_name() -> None:
    outputs = {"a": np.array([[1.5, np.nan], [np.inf, 2]]), "raw_bytes": np.array([b"\xff", b"x"], object)}
    rows = _request(instances=[1]).response(outputs)["predictions"]
    assert rows == [{"a": [1.5, None], "raw_bytes": {"b64": "/w=="}}, {"a": [None, 2.0], "raw_bytes": {"b64": "eA=="}}]
    assert _request(inputs=1).response(outputs)["outputs"]["a"] == [[1.5, None], [None, 2.0]]
    alone = {"name": np.array(["ü".encode(), b"\xff"], object)}
    assert _request(instances=[1]).response(alone) == {"predictions": ["ü", "\ufffd"]}


def test_rows_of_data_columns_are_told_from_inputs_of_the_signature() -> None:
    inputs = {"examples": tf.TensorSpec([None], tf.string)}
    for rows, expected in (
        ([{"age": 3}], True),
        ([{"examples": ""}], False),
        ([{"b64": ""}], False),
        ([{}], False),
        ([{"age": 3}, 1], False),
    ):
        assert _request(instances=rows).are_records(inputs) is expected
    assert not _request(instances=[{"age": 3}], signature_name="serving_default").are_records(inputs)
