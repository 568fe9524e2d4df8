"""The bodies of TensorFlow Serving's REST API: JSON to tensors, and tensors to JSON.

    request = PredictRequest.parse(body)
    outputs = signature(**request.tensors(signature_inputs))
    request.response(outputs)

Its `instances` are rows, its `inputs` columns. A tensor is a list, nested as deep as its rank; a text is a string, and
bytes are `{"b64": "…"}`, as is a text in the answer if the output's name ends with `_bytes`. See
https://www.tensorflow.org/tfx/serving/api_rest.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.names import did_you_mean_or_list, join_names
from headrace.components.sources.nested import flat_members, json_object, parents_of

DEFAULT_SIGNATURE = "serving_default"
BYTES = "_bytes"
"""End of the names of outputs that are bytes and not texts."""


_NESTED = frozenset((dict, list))
"""The types of JSON values that may hold others."""


_KINDS: Mapping[type, str] = {
    str: "a string", int: "a number", float: "a number", bool: "a boolean", list: "a list", dict: "an object",
}  # fmt: skip


class BadRequestError(Exception):
    """What a client asked for cannot be answered. The text says why."""


@dataclass(frozen=True)
class PredictRequest:
    """The body of `:predict`.

    signature: the name that was given, or the default; named: whether it was given; rows: `instances`, or None if the
    body has `inputs`.
    """

    signature: str
    named: bool
    rows: Sequence[Any] | None
    inputs: Any

    @classmethod
    def parse(cls, body: bytes) -> PredictRequest:
        """Raises BadRequestError if it is not such a body."""
        given, name = body_object(body, "`instances` or `inputs`")
        if ("instances" in given) == ("inputs" in given):
            raise BadRequestError("the body must have either `instances`, a list of rows, or `inputs`, the columns")
        rows = given.get("instances")
        if "instances" in given and not (isinstance(rows, list) and rows):
            raise BadRequestError("`instances` must be a list with at least one row")
        return cls(name or DEFAULT_SIGNATURE, bool(name), rows, given.get("inputs"))

    def are_records(self, names: Mapping[str, Any]) -> bool:
        """Whether the rows are objects of data columns, all of which may be missing, and not of the inputs of the
        default signature.
        """
        if self.rows is None or self.named or not all(isinstance(row, dict) for row in self.rows):
            return False
        return not all(row and row.keys() <= {*names, "b64"} for row in self.rows)

    def tensors(self, inputs: Mapping[str, tf.TensorSpec]) -> dict[str, tf.Tensor]:
        """The tensors for the inputs of a signature. Raises BadRequestError if something does not fit."""
        if self.rows is None:
            columns = self._columns(self.inputs, inputs)
        else:
            rows = [self._columns(row, inputs) for row in self.rows]
            columns = {name: [row[name] for row in rows] for name in inputs}
        return {name: _tensor(name, columns[name], spec) for name, spec in inputs.items()}

    @staticmethod
    def _columns(given: Any, inputs: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
        """The values by input. With a single input, its value may stand alone."""
        if len(inputs) == 1 and not (isinstance(given, dict) and given.keys() == inputs.keys()):
            (name,) = inputs
            if not isinstance(given, dict) or given.keys() == {"b64"}:
                return {name: given}
        if not isinstance(given, dict):
            raise BadRequestError(f"the signature takes {join_names(inputs)}, so each row must be an object with these")
        if unknown := [name for name in given if name not in inputs]:
            known = did_you_mean_or_list(unknown[0], inputs, "it takes")
            raise BadRequestError(f"the signature has no input {unknown[0]!r}{known}")
        if missing := [name for name in inputs if name not in given]:
            raise BadRequestError(f"there is no value for {join_names(missing)}")
        return given

    def response(self, outputs: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The answer: `predictions` by row or `outputs` by column; an output that is the only one stands alone."""
        plain = {name: _plain(array.tolist(), as_bytes=name.endswith(BYTES)) for name, array in outputs.items()}
        (first, *others) = plain.values()
        if self.rows is None:
            return {"outputs": plain if others else first}
        if not others:
            return {"predictions": first}
        return {"predictions": [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]}


def body_object(body: bytes, holds: str) -> tuple[dict[str, Any], str | None]:
    """The JSON object of a body, and its signature's name, if it has one. Raises BadRequestError.

    holds: what the object must have, for the error.
    """
    try:
        given = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None
    if not isinstance(given, dict):
        raise BadRequestError(f"the body must be a JSON object with {holds}")
    name = given.get("signature_name")
    if name is not None and not isinstance(name, str):
        raise BadRequestError("`signature_name` must be a string")
    return given, name


def flat_records(
    rows: Sequence[Mapping[str, Any]], columns: Set[str], features: Collection[str]
) -> list[dict[str, Any]]:
    """Rows of data columns with the values in objects as columns, as in JSON lines: `{"user": {"age": 3}}` has the
    column `user.age`. Raises BadRequestError for a name that is none.

    columns: those of the training data; features: those of them that the model reads.
    """
    objects, records = parents_of(columns), list[dict[str, Any]]()
    for number, row in enumerate(rows):
        if row.keys() <= columns and _NESTED.isdisjoint(map(type, row.values())):
            records.append(dict(row))  # nothing to flatten
            continue
        record: dict[str, Any] = {}
        try:
            members = [*flat_members(json_object(row))]
        except RecursionError:
            raise BadRequestError(f"row {number} (counted from 0) is nested too deeply") from None
        for name, value in members:
            if name in columns:
                if name in record:
                    raise BadRequestError(f"row {number} (counted from 0) has the column {name!r} twice")
                record[name] = value
            elif name not in objects or value not in (None, []):
                known = did_you_mean_or_list(name, features, "the model reads")
                raise BadRequestError(f"row {number} (counted from 0): there is no column {name!r}{known}")
        records.append(record)
    return records


def why_of_several_kinds(values: Sequence[Any]) -> str:
    """Why the values of a column, one for each row of a request, are no column; "" if they are all of one kind."""
    rows: dict[str, int] = {}
    for number, value in enumerate(values):
        if value is not None:
            rows.setdefault(_KINDS[type(value)], number)
    if len(rows) < 2:
        return ""
    found = join_names(f"{kind} in row {number}" for kind, number in rows.items())
    return f"the rows of a request need values of one kind; there is {found} (counted from 0)"


def check_lengths(tensors: Mapping[str, tf.Tensor], inputs: Mapping[str, tf.TensorSpec]) -> None:
    """Raise BadRequestError if inputs of any number of rows have different numbers."""
    rows = {name: len(tensors[name]) for name, spec in inputs.items() if spec.shape.rank and spec.shape[0] is None}
    if len({*rows.values()}) > 1:
        found = join_names((f"{name!r} has {count:,}" for name, count in sorted(rows.items())), 20)
        raise BadRequestError(f"each column needs one value per row, but their lengths differ: {found}")


def _tensor(name: str, value: Any, spec: tf.TensorSpec) -> tf.Tensor:
    """A tensor of an input's type and rank. Raises BadRequestError if the value does not fit."""
    if spec.dtype == tf.string:
        made: Any = encoded_texts(name, value)
    else:
        _check_numbers(name, value, spec.dtype)
        made = value
    try:
        tensor = tf.constant(made, spec.dtype)
    except (TypeError, ValueError, OverflowError):
        raise BadRequestError(
            f"the values of {name!r} must be lists of the same length, of {spec.dtype.name}"
        ) from None
    if not spec.shape.is_compatible_with(tensor.shape):
        raise BadRequestError(f"{name!r} has the shape {tuple(tensor.shape)}, which is not {_shape(spec)}")
    return tensor


def _shape(spec: tf.TensorSpec) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in spec.shape) + ")"


def encoded_texts(name: str, value: Any) -> Any:
    """Strings and `{"b64": …}` as bytes, at any depth. Raises BadRequestError for other values."""
    if isinstance(value, list):
        return [encoded_texts(name, one) for one in value]
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:  # JSON has halves of surrogate pairs
            raise BadRequestError(f"{name!r} holds text that is not Unicode") from None
    if isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error:
            raise BadRequestError(f"{name!r}: the text after b64 is not base64") from None
    raise BadRequestError(f'{name!r} takes strings, or bytes as {{"b64": "…"}}; found {json.dumps(value)[:40]}')


def _check_numbers(name: str, value: Any, dtype: tf.DType) -> None:
    """Refuse what TensorFlow would convert without a word: truth values, and fractions for integers."""
    if isinstance(value, list):
        for one in value:
            _check_numbers(name, one, dtype)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequestError(f"{name!r} takes numbers; found {json.dumps(value)[:40]}")
    elif dtype.is_integer and isinstance(value, float) and not value.is_integer():  # infinity and NaN are none
        raise BadRequestError(f"{name!r} takes integers; found {value}")


def _plain(value: Any, *, as_bytes: bool) -> Any:
    """Values that JSON has. A number that is not finite is null."""
    if isinstance(value, list):
        return [_plain(one, as_bytes=as_bytes) for one in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()} if as_bytes else value.decode("utf-8", "replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(array: NDArray[Any]) -> Any:
    """Lists of values that JSON has, nested as deep as the rank."""
    return _plain(array.tolist(), as_bytes=False)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as objects of values that JSON has."""
    return [{name: _plain(value, as_bytes=False) for name, value in row.items()} for row in table.to_pylist()]


def arrays(outputs: Mapping[str, tf.Tensor]) -> dict[str, NDArray[Any]]:
    """The outputs of a signature as arrays, in the order of their names."""
    return {name: np.asarray(outputs[name].numpy()) for name in sorted(outputs)}
