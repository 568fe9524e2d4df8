"""The tensors of requests: their names and specifications, and the columns that the Transform graph takes of them.

A request has dense tensors, in which a missing value is "", NaN or the smallest int64 (see `export`). The graph takes
sparse tensors, as parsed from examples, or dense ones where the schema fixes a column's shape.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping

import keras
import tensorflow as tf

from headrace.configs.schema.data import bits_column
from headrace.trainer.columns import MISSING_INTEGER, PADDING


def signature_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name for each column that TensorFlow accepts as the input of a signature.

    It is the same if it consists of letters, digits and `_` and starts with a letter. Any other character becomes `_`;
    another start gets the prefix `x_`; and a result that is another column's name, `self` or a Python keyword gets the
    suffix `_`: `pickup area (km)` becomes `pickup_area__km_`.
    """
    columns = list(names)
    plain = {name: _plain_name(name) for name in columns}
    taken = {name for name in columns if plain[name] == name}
    inputs: dict[str, str] = {}
    for name in columns:
        unique = plain[name]
        while unique != name and (unique in taken or _is_reserved(unique)):
            unique += "_"
        taken.add(unique)
        inputs[name] = unique
    return inputs


def _plain_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    plain = plain if plain[:1].isalpha() else f"x_{plain}"
    return f"{plain}_" if _is_reserved(plain) else plain


def _is_reserved(name: str) -> bool:
    return keyword.iskeyword(name) or name == "self"


def named_specs(inputs: Mapping[str, str], specs: Mapping[str, tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    return {given: tf.TensorSpec(specs[name].shape, specs[name].dtype, name=given) for name, given in inputs.items()}


def with_shape(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Set the signature's shape, which the C++ runtime does not check by itself."""
    return tf.ensure_shape(tensor, spec.shape)


def input_spec(x: keras.KerasTensor) -> tf.TypeSpec:
    """The specification of a model's input."""
    return tf.RaggedTensorSpec(x.shape, x.dtype, 1, tf.int64) if x.ragged else tf.TensorSpec(x.shape, x.dtype)


def optional_spec(spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]) -> dict[str, tf.io.VarLenFeature]:
    """The same columns, all of them optional in an example."""
    return {name: tf.io.VarLenFeature(feature.dtype) for name, feature in spec.items()}


def sparse_specs(spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]) -> dict[str, tf.SparseTensorSpec]:
    return {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in spec.items()}


def _missing_value(dtype: tf.DType) -> str | int | float:
    """What stands for a missing value in a dense tensor."""
    return {tf.string: "", tf.int64: MISSING_INTEGER}.get(dtype, float("nan"))


def present_values(tensors: Mapping[str, tf.Tensor]) -> dict[str, tf.SparseTensor]:
    """[batch] each to sparse [batch, 1] each, without the missing values; those of one dtype are computed together."""
    sparse = {}
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors.values()):
        names = [name for name, tensor in tensors.items() if tensor.dtype == dtype]
        stacked = tf.stack([tensors[name] for name in names])
        present = _present(stacked)
        positions = tf.where(present)
        counts = tf.math.count_nonzero(present, axis=1)
        values = tf.split(tf.gather_nd(stacked, positions), counts)
        rows = tf.split(tf.stack([positions[:, 1], tf.zeros_like(positions[:, 1])], axis=1), counts)
        shape = tf.stack([tf.shape(stacked, tf.int64)[1], 1])
        parts = zip(names, rows, values, strict=True)
        sparse.update({name: tf.SparseTensor(indices, value, shape) for name, indices, value in parts})
    return sparse


def as_stored(raw: Mapping[str, tf.SparseTensor], float64: Iterable[str]) -> dict[str, tf.SparseTensor]:
    """The columns as examples have them: of float64 values, float32 and the bits."""
    stored = dict(raw)
    for name in float64:
        values = raw[name].values
        stored[name] = raw[name].with_values(tf.cast(values, tf.float32))
        stored[bits_column(name)] = raw[name].with_values(tf.bitcast(values, tf.int64))
    return stored


def same_rows(raw: Mapping[str, tf.SparseTensor]) -> tuple[Mapping[str, tf.SparseTensor], tf.Tensor]:
    """Assert that all columns of a request have the same number of rows, and return it too: int64 []."""
    rows = tf.stack([tensor.dense_shape for tensor in raw.values()])[:, 0]
    check = tf.debugging.Assert(tf.reduce_all(tf.equal(rows, rows[0])), ["the columns' numbers of rows differ:", rows])
    return with_assertion(check, raw), rows[0]


def with_assertion(check: tf.Operation, raw: Mapping[str, tf.SparseTensor]) -> Mapping[str, tf.SparseTensor]:
    """The same columns, which exist only if an assertion holds."""
    with tf.control_dependencies([check]):
        values = tf.identity_n([tensor.values for tensor in raw.values()])
    return {name: tensor.with_values(one) for (name, tensor), one in zip(raw.items(), values, strict=True)}


def _present(tensor: tf.Tensor) -> tf.Tensor:
    """Bool of the same shape: whether a value is not the one that stands for a missing value."""
    if tensor.dtype.is_floating:
        return tf.logical_not(tf.math.is_nan(tensor))
    return tf.not_equal(tensor, _missing_value(tensor.dtype))


def whole_rows(tensor: tf.Tensor) -> tf.SparseTensor:
    """[batch, size] to sparse of the same shape, without the rows that have only missing values."""
    size = tf.shape(tensor, tf.int64)[1]
    lengths = tf.where(tf.reduce_any(_present(tensor), axis=1), size, tf.zeros_like(size))
    return tf.RaggedTensor.from_tensor(tensor, lengths).to_sparse()


def ragged_values(tensor: tf.Tensor) -> tf.SparseTensor:
    """[batch, values] to sparse of the same shape, without the missing values at the end of each row."""
    positions = tf.range(1, tf.shape(tensor, tf.int64)[1] + 1)
    lengths = tf.reduce_max(tf.where(_present(tensor), positions, 0), axis=1)
    # reduce_max over no columns returns the smallest int64
    return tf.RaggedTensor.from_tensor(tensor, tf.maximum(lengths, 0)).to_sparse()


def without_padding(tensor: tf.Tensor) -> tf.RaggedTensor:
    """int64 [batch, values] without the padding at the end of each row."""
    return tf.RaggedTensor.from_tensor(tensor, padding=PADDING)


def empty_column(dtype: tf.DType, batch: tf.Tensor) -> tf.SparseTensor:
    """Sparse [batch, 0]."""
    return tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], dtype), tf.stack([batch, 0]))


def as_transform_expects(
    tensor: tf.SparseTensor, feature: tf.io.VarLenFeature | tf.io.FixedLenFeature
) -> tf.SparseTensor | tf.Tensor:
    """What the Transform graph takes: dense if the schema fixes the column's shape."""
    if isinstance(feature, tf.io.VarLenFeature):
        return tensor
    width = feature.shape[0] if feature.shape else 1
    shape = tf.stack([tensor.dense_shape[0], tf.constant(width, tf.int64)])
    values = tf.sparse.to_dense(tf.sparse.reset_shape(tensor, shape), default_value=_missing_value(feature.dtype))
    return tf.reshape(values, [-1, *feature.shape])
