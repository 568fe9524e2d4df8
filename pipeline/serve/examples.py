"""The bodies of TensorFlow Serving's `:classify` and `:regress`: JSON to tf.Examples, and tensors to results.

    request = ExamplesRequest.parse(body)
    outputs = signature(examples=request.serialized(description))
    {"results": classifications(outputs, label)}        # [[["no", 0.2], ["yes", 0.8]], …]
    {"results": regressions(outputs)}                   # [12.5, …]

An example is an object of features, `{"miles": 3.2, "tags": ["a", "b"]}`. As in TensorFlow Serving's json_tensor.cc,
an integer, `true` and `false` are int64, a number with a point or an exponent is float, and a string or `{"b64": "…"}`
is bytes; the features of `context` are in each example that does not have them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.names import did_you_mean_or_list, join_names
from headrace.configs.schema.data import bits_column
from headrace.configs.schema.label import LabelConfig
from headrace.pipeline.serve.rest import DEFAULT_SIGNATURE, BadRequestError, body_object, encoded_texts, plain
from headrace.trainer.description import ModelDescription, StoredType
from headrace.trainer.served_model import PREDICTIONS

Method = Literal["predict", "classify", "regress"]
CLASSES, SCORES, VALUES = "classes", ("scores", "probabilities"), "outputs"
"""Outputs of signatures: those of TensorFlow's Estimators, and the probabilities of ours."""
_TAKES: Mapping[StoredType, str] = {
    "int": "integers",
    "float": "numbers with a point, such as 3.0",
    "bytes": "strings",
}
_LARGEST = float(np.finfo(np.float32).max)
Outputs = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ExamplesRequest:
    """The body of `:classify` and `:regress`. context: features of all examples."""

    signature: str
    examples: tuple[Mapping[str, Any], ...]
    context: Mapping[str, Any]

    @classmethod
    def parse(cls, body: bytes) -> ExamplesRequest:
        """Raises BadRequestError if it is not such a body."""
        given, name = body_object(body, "`examples`")
        examples, context = given.get("examples"), given.get("context", {})
        if not isinstance(examples, list) or not examples:
            raise BadRequestError("`examples` must be a list with at least one example")
        for number, one in enumerate(examples):
            if not isinstance(one, dict):
                raise BadRequestError(f"example {number} (counted from 0) must be an object of features")
        if not isinstance(context, dict):
            raise BadRequestError("`context` must be an object of features")
        return cls(name or DEFAULT_SIGNATURE, tuple(examples), context)

    def serialized(self, description: ModelDescription | None) -> tf.Tensor:
        """The tf.Examples, string [n]. Raises BadRequestError if a value is none of a tf.Example, or not of its column.

        description: None if the columns are unknown.
        """
        shared = _features(self.context, description)
        made = [_serialized({**shared, **_features(one, description)}) for one in self.examples]
        return tf.constant(made, tf.string)


def _serialized(features: Mapping[str, tf.train.Feature]) -> bytes:
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _features(given: Mapping[str, Any], description: ModelDescription | None) -> dict[str, tf.train.Feature]:
    types = {} if description is None else _types(description)
    found = {}
    for name, content in given.items():
        if types and name not in types:
            known = did_you_mean_or_list(name, description.features if description else (), "the model reads")
            raise BadRequestError(f"there is no column {name!r}{known}")
        values = content if isinstance(content, list) else [content]
        stored = {_stored_type(name, value) for value in values}
        if len(stored) > 1:
            what = "integers, numbers with a point, or strings"
            raise BadRequestError(f"the values of {name!r} must be of one type: {what}")
        if stored and types and stored != {types[name]}:
            raise BadRequestError(f"{name!r} takes {_TAKES[types[name]]}; found {json.dumps(values[0])[:40]}")
        found[name] = _feature(name, values, next(iter(stored), None))
    return found


def _types(description: ModelDescription) -> Mapping[str, StoredType]:
    """The types of the features in an example; a column of float64 values may have their bits beside it."""
    bits: dict[str, StoredType] = {bits_column(name): "int" for name in description.float64}
    return {**description.types, **bits}


def _stored_type(name: str, value: Any) -> StoredType:
    if isinstance(value, int):  # and bool
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str | dict):
        return "bytes"
    what = "null, which an example leaves out" if value is None else "a list in a list"
    raise BadRequestError(f"{name!r} takes a value or a list of values; found {what}")


def _feature(name: str, values: list[Any], stored: StoredType | None) -> tf.train.Feature:
    if stored == "int":
        if any(not -(1 << 63) <= value < 1 << 63 for value in values):
            raise BadRequestError(f"an integer of {name!r} does not fit into 64 bits")
        return tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))
    if stored == "float":
        if any(_LARGEST < abs(value) < np.inf for value in values):
            raise BadRequestError(f"a number of {name!r} does not fit into float32")
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if stored == "bytes":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded_texts(name, values)))
    return tf.train.Feature()


class Answers(NamedTuple):
    """What a signature can be asked: `method`, in words `what` it returns."""

    method: Method
    what: str


def answers_of(inputs: Mapping[str, tf.TensorSpec], outputs: Mapping[str, Any], label: LabelConfig | None) -> Answers:
    """What asks a signature. label: None if that is unknown."""
    if [spec.dtype for spec in inputs.values()] != [tf.string]:
        return Answers("predict", f"takes {join_names(inputs)}, not examples")
    kind = None if label is None else label.kind
    if CLASSES in outputs or "scores" in outputs or (PREDICTIONS in outputs and _has_classes(label)):
        return Answers("classify", "returns classes")
    if VALUES in outputs if kind is None else kind == "regression" and PREDICTIONS in outputs:
        return Answers("regress", "returns a number")
    return Answers("predict", f"returns {join_names(sorted(outputs))}")


def _has_classes(label: LabelConfig | None) -> bool:
    return label is not None and label.kind in ("binary", "multiclass", "multilabel")


def classifications(outputs: Outputs, label: LabelConfig | None) -> list[list[list[Any]]]:
    """[class, score] for each class of each example. A class without a name is "", and a missing score is 0."""
    names, scores = outputs.get(CLASSES), _scores(outputs)
    known = [] if label is None else [str(value) for value in label.class_values]
    named = known if len(known) == scores.shape[1] else [""] * scores.shape[1]
    rows = np.broadcast_to(named, scores.shape) if names is None else names
    return [[[*pair] for pair in zip(*row, strict=True)] for row in zip(plain(rows), plain(scores), strict=True)]


def _scores(outputs: Outputs) -> NDArray[Any]:
    """float32 [examples, classes]."""
    found = next((outputs[name] for name in SCORES if name in outputs), None)
    if found is not None:
        return found
    if CLASSES in outputs:
        return np.zeros(outputs[CLASSES].shape, np.float32)
    predictions = outputs[PREDICTIONS].reshape(len(outputs[PREDICTIONS]), -1)
    if predictions.shape[1] > 1:
        return predictions
    return np.concatenate([1 - predictions, predictions], axis=1)  # of the second class


def regressions(outputs: Outputs) -> list[Any]:
    """A number for each example. Raises BadRequestError if there are several."""
    values = outputs[PREDICTIONS] if PREDICTIONS in outputs else outputs[VALUES]
    if values.size != len(values):
        raise BadRequestError("the signature returns several numbers for each example: ask it with :predict")
    found: list[Any] = plain(values.reshape(len(values)))
    return found
