"""The signatures of a SavedModel as its file describes them, and their inputs made of real examples.

signatures = read_signatures(serving_dir)
made = make_inputs(signatures["serving_default"], loaded, examples, description)     # {"examples": texts}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from headrace.common.names import join_names
from headrace.configs.schema.data import bits_column
from headrace.trainer.columns import MISSING_INTEGER, RawColumn
from headrace.trainer.columns.raw import with_float64
from headrace.trainer.description import ModelDescription
from headrace.trainer.input.reading import records_of
from headrace.trainer.request_tensors import signature_names
from headrace.trainer.served_model import EXAMPLES, SCORE
from headrace.trainer.warmup import FILE_NAME as WARMUP_FILE

Inputs = Mapping[str, NDArray[Any]]
"""The inputs of a signature by name. Texts are arrays of `bytes` with dtype object."""
TRANSFORMED = "serving_transformed"
"""The signature of features, which may have the names of the raw columns."""
SERIALIZED = frozenset({"serving_default", "transform_features", SCORE})
"""The signatures whose only input EXAMPLES takes serialized examples, also if a column has that name."""
_INITIALIZER = "__saved_model_init_op"
_HALF = frozenset({tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum})
_TYPES: dict[str | None, tf.DType] = {"int": tf.int64, "float": tf.float32, "bytes": tf.string}
"""The types of a tf.Example as the description names them."""
_MISSING: dict[tf.DType, Any] = {tf.float32: np.nan, tf.int64: MISSING_INTEGER, tf.string: b""}
"""What stands for a missing value in a named tensor."""


class UnmadeError(Exception):
    """The inputs of a signature cannot be made of the examples. `str(error)` says why."""


class RealInputs(NamedTuple):
    """The inputs of a signature for real examples, the first of which has a row for each.

    serialized: whether the only one is the examples themselves; generates: whether texts are generated, as long as one
    of the inputs says.
    """

    inputs: Inputs
    serialized: bool = False
    generates: bool = False


@dataclass(frozen=True)
class Signature:
    """One signature: its tensors by the names of inputs and outputs."""

    name: str
    inputs: Mapping[str, tf.TensorSpec]
    feeds: Mapping[str, str]
    fetches: Mapping[str, str]
    composite: tuple[str, ...] = ()
    """Inputs and outputs that are not dense tensors."""

    def tensors(self, inputs: Inputs) -> dict[str, NDArray[Any]]:
        """What is fed, by the names of the tensors in the graph."""
        return {self.feeds[name]: array for name, array in inputs.items()}


def read_signatures(model: Path) -> dict[str, Signature]:
    """The signatures in a SavedModel's file for the tag `serve`, by name; empty if the file has none."""
    definitions = _meta_graph(model).signature_def
    return {name: _signature(name, definitions[name]) for name in sorted(definitions) if name != _INITIALIZER}


def computes_in_half(model: Path) -> bool:
    """Whether a model computes in float16 or bfloat16, whose results depend on which operations were fused."""
    library = _meta_graph(model).graph_def.library.function
    return any(node.attr["T"].type in _HALF for function in library for node in function.node_def if "T" in node.attr)


def _meta_graph(model: Path) -> Any:
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((model / "saved_model.pb").read_bytes())
    tagged = [graph for graph in saved.meta_graphs if "serve" in graph.meta_info_def.tags]
    return (tagged or [saved_model_pb2.SavedModel().meta_graphs.add()])[0]


def _signature(name: str, definition: Any) -> Signature:
    tensors = {**definition.inputs, **definition.outputs}
    return Signature(
        name,
        {key: _spec(one) for key, one in sorted(definition.inputs.items())},
        {key: one.name for key, one in definition.inputs.items()},
        {key: one.name for key, one in sorted(definition.outputs.items())},
        tuple(sorted(key for key, one in tensors.items() if one.WhichOneof("encoding") != "name")),
    )


def _spec(info: Any) -> tf.TensorSpec:
    return tf.TensorSpec(tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype))


def make_inputs(
    signature: Signature, loaded: Any, examples: NDArray[Any], description: ModelDescription | None
) -> RealInputs:
    """The inputs of one signature for serialized tf.Examples [n]. Raises UnmadeError.

    They are raw columns by name; or the examples themselves; or features by name, which another signature of `loaded`,
    the same model in Python, computes of the examples.
    """
    if signature.composite:
        raise UnmadeError(f"{join_names(signature.composite)} are not dense tensors")
    if not signature.inputs or not signature.fetches:
        raise UnmadeError("it has no inputs or no outputs")
    if signature.name == TRANSFORMED and description is not None:
        return RealInputs(_features(signature, loaded, examples, description))
    serialized = signature.name in SERIALIZED and signature.inputs.keys() == {EXAMPLES}
    raw = None if serialized else raw_inputs(signature.inputs, examples, description)
    if raw is not None:
        return RealInputs(raw)
    name, spec = next(iter(signature.inputs.items()))
    if len(signature.inputs) == 1 and spec.dtype == tf.string and (spec.shape.rank or 1) == 1:
        return RealInputs({name: examples}, serialized=True)
    return RealInputs(_features(signature, loaded, examples, description))


def raw_inputs(
    inputs: Mapping[str, tf.TensorSpec], examples: NDArray[Any], description: ModelDescription | None
) -> Inputs | None:
    """Inputs for serialized tf.Examples [n], if all are columns of the data with their types."""
    if description is None:
        return None
    names = {given: column for column, given in signature_names(description.features).items()}
    if any(name not in names or _type(description, names[name]) != spec.dtype for name, spec in inputs.items()):
        return None
    return {name: _raw(spec, names[name], examples) for name, spec in inputs.items()}


def _type(description: ModelDescription, column: str) -> tf.DType | None:
    return tf.float64 if column in description.float64 else _TYPES.get(description.types.get(column))


def _raw(spec: tf.TensorSpec, column: str, examples: NDArray[Any]) -> NDArray[Any]:
    """A column of the examples: [n], or [n, values] with missing values at the end of the shorter rows."""
    if spec.dtype == tf.float64:
        bits, rounded = bits_column(column), tf.io.VarLenFeature(tf.float32)
        parsed = tf.io.parse_example(
            tf.constant(examples, tf.string), {column: rounded, bits: tf.io.VarLenFeature(tf.int64)}
        )
        return np.asarray(RawColumn(column, with_float64(parsed, [column])[column]).values)
    missing = _MISSING[spec.dtype]
    parsed = tf.io.parse_example(tf.constant(examples, tf.string), {column: tf.io.VarLenFeature(spec.dtype)})[column]
    rows = tf.sparse.to_dense(parsed, missing).numpy()
    if spec.shape.rank == 2:
        return np.asarray(rows)
    return np.asarray(np.concatenate([rows, np.full([len(rows), 1], missing, rows.dtype)], axis=1)[:, 0])


def _features(
    signature: Signature, loaded: Any, examples: NDArray[Any], description: ModelDescription | None
) -> Inputs:
    """Features by name, as the signature of the preprocessing returns them."""
    takes = f"it takes {join_names(signature.inputs)}"
    if loaded is None:
        raise UnmadeError(f"{takes}, which only a model in Python computes of the examples")
    preprocess = loaded.signatures.get(description.preprocessing if description else "transform_features")
    given = dict(preprocess.structured_input_signature[1]) if preprocess is not None else {}
    if [spec.dtype for spec in given.values()] != [tf.string]:
        raise UnmadeError(f"{takes}, which the examples do not have")
    known = signature_names(preprocess.structured_outputs)
    computed = preprocess(**{name: tf.constant(examples, tf.string) for name in given})
    found = {known[name]: tensor for name, tensor in computed.items()}
    if missing := sorted(signature.inputs.keys() - found.keys()):
        raise UnmadeError(f"{takes}; the examples do not have {join_names(missing)}")
    return {name: _cast(found[name], spec.dtype).numpy() for name, spec in signature.inputs.items()}


def _cast(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    if tensor.dtype != dtype and tf.string in (tensor.dtype, dtype):
        raise UnmadeError(f"it takes {dtype.name} where the examples have {tensor.dtype.name}")
    return tf.cast(tensor, dtype)


class WarmupRequest(NamedTuple):
    """A warm-up request. signature: the name of the signature that it is for."""

    signature: str
    inputs: Inputs


def read_warmup(model: Path) -> Iterator[WarmupRequest]:
    """The warm-up requests of type Predict in a SavedModel; none if it has no file of them. TensorFlow Serving sends
    them when it loads the model, and does not serve a model that refuses one.

    Raises tf.errors.OpError or google.protobuf.message.DecodeError if the file is damaged.
    """
    file = model / WARMUP_FILE
    if not file.is_file():
        return
    for record in records_of(str(file), ""):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        if log.WhichOneof("log_type") == "predict_log":
            request = log.predict_log.request
            inputs = {name: np.asarray(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
            yield WarmupRequest(request.model_spec.signature_name or "serving_default", inputs)
