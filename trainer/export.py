"""The SavedModel: the Transform graph and the model behind it as one, with a signature for each kind of caller.

serving_default      {"examples": string [batch]}, serialized tf.Example → {"predictions": float32 [batch, k]}
serving_raw          the raw columns by name, each [batch]               → {"predictions"}
serving_transformed  the transformed features by name, each [batch]      → {"predictions"}
transform_features   {"examples"} → the transformed features and the label by name, each [batch]

Named tensors are named after their columns, as `signature_names` spells them (`pickup area` is `pickup_area`).
A missing value is an absent or empty feature in an example; among named tensors it is "", NaN or the smallest int64.
Where several values of an example count, its tensor is [batch, values]: a raw column is filled up with missing values,
a transformed feature with -1.
The label may be absent; transform_features gives it for the evaluation. An example with several values of a column of
which the model takes one number is refused.

Keras' ExportArchive writes it, because the V1 and C++ loaders (TensorFlow Serving, BulkInferrer) cannot find the
variables of a Keras 3 model that `tf.saved_model.save` wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft

from headrace.trainer.columns import MISSING_INTEGER, PADDING
from headrace.trainer.columns.layers import dense
from headrace.trainer.signature_names import signature_names

WEIGHTS = "assets.extra/model.weights.h5"
"""Where the weights lie as Keras writes them: from there a model of the same layers can start."""

SEVERAL = "an example has several values in"
"""How the refusal of several values begins."""

Columns = dict[str, tf.Tensor]


def export(directory: str, signatures: Signatures, weights: Path) -> None:
    """Write the SavedModel into `directory`, and the file with the model's weights beside it."""
    archive = keras.export.ExportArchive()
    archive.track(signatures.model)
    archive.track(signatures.loaded)
    for name, (function, spec) in signatures.all().items():
        archive.add_endpoint(name, function, input_signature=[spec])
    archive.write_out(directory, verbose=False)
    extra = Path(directory, WEIGHTS)
    extra.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(weights, extra)


@dataclass(frozen=True)
class RawColumns:
    """The data columns behind a model. features: those that the features read; several: those of which all values of an
    example count; single: those of which an example may have one value at most, each with what reads it.
    """

    label: str
    features: Collection[str]
    several: Collection[str] = ()
    single: Mapping[str, str] = field(default_factory=dict)


class Signatures:
    """The functions behind the signatures. The Transform graph and the model are traced once each and shared."""

    def __init__(self, model: keras.Model, transform_output: tft.TFTransformOutput, columns: RawColumns) -> None:
        self.model = model
        self.loaded = tf.saved_model.load(transform_output.transform_savedmodel_dir)
        self.label_key = columns.label
        self.all_raw = transform_output.raw_feature_spec()
        self.raw_spec = {name: self.all_raw[name] for name in (*columns.features, columns.label)}
        self.several = frozenset(columns.several)
        self.single = columns.single
        self.raw_inputs = signature_names(name for name in self.raw_spec if name != columns.label)
        self.model_inputs = signature_names(model.input)
        self.transform = tf.function(self._transform, input_signature=[_sparse_spec(self.raw_spec)], autograph=False)
        features = {name: _input_spec(x) for name, x in model.input.items()}
        self.more: dict[str, tuple[Callable[[Columns], Columns], Any]] = {}
        """Further signatures: name → function and the specification of its argument."""
        self.predict = tf.function(
            lambda features: model(features, training=False), input_signature=[features], autograph=False
        )

    def all(self) -> dict[str, tuple[Callable[..., Columns], Any]]:
        """Name → function and the specification of its argument."""
        examples = tf.TensorSpec([None], tf.string, name="examples")
        raw = {name: tf.TensorSpec([None, None] if name in self.several else [None], self.raw_spec[name].dtype)
               for name in self.raw_inputs}  # fmt: skip
        features = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in self.model.input.items()}
        return {
            "serving_default": (self.predict_examples, examples),
            "serving_raw": (self.predict_raw, _named_spec(self.raw_inputs, raw)),
            "serving_transformed": (self.predict_transformed, _named_spec(self.model_inputs, features)),
            "transform_features": (self.transform_examples, examples),
            **self.more,
        }

    def predict_examples(self, examples: tf.Tensor) -> Columns:
        """Signature `serving_default`."""
        spec = {name: self.raw_spec[name] for name in self.raw_inputs}
        return self._predict(tf.io.parse_example(examples, _varlen(spec)), tf.size(examples, tf.int64))

    def predict_raw(self, tensors: Columns) -> Columns:
        """Signature `serving_raw`."""
        specs = self.all()["serving_raw"][1]
        checked = {name: _shaped(tensors[given], specs[given]) for name, given in self.raw_inputs.items()}
        raw = {name: (_all_present if name in self.several else _present)(x) for name, x in checked.items()}
        return self._predict(raw, tf.shape(next(iter(tensors.values())), tf.int64)[0])

    def predict_transformed(self, tensors: Columns) -> Columns:
        """Signature `serving_transformed`."""
        specs = self.all()["serving_transformed"][1]
        given = {name: _shaped(tensors[given], specs[given]) for name, given in self.model_inputs.items()}
        ragged = {name for name, x in self.model.input.items() if x.ragged}
        features = {name: _ragged(x) if name in ragged else x for name, x in given.items()}
        return {"predictions": self.predict(features)}

    def transform_examples(self, examples: tf.Tensor) -> Columns:
        """Signature `transform_features`."""
        features = self.transform(tf.io.parse_example(examples, _varlen(self.raw_spec)))
        return {name: dense(x) for name, x in features.items()}

    def transform_text(self, key: str, texts: tf.Tensor) -> Columns:
        """The features of texts [batch] in the data column `key`, where all other columns are missing."""
        return self.transform(
            {
                name: _present(texts) if name == key else _nothing(spec.dtype, tf.size(texts, tf.int64))
                for name, spec in self.raw_spec.items()
            }
        )

    def _predict(self, raw: Mapping[str, tf.SparseTensor], batch: tf.Tensor) -> Columns:
        label = _nothing(self.raw_spec[self.label_key].dtype, batch)
        features = self.transform({**raw, self.label_key: label})
        return {"predictions": self.predict({name: features[name] for name in self.model_inputs})}

    def _transform(self, raw: Mapping[str, tf.SparseTensor]) -> Columns:
        batch = next(iter(raw.values())).dense_shape[0]
        unread = {name: _nothing(spec.dtype, batch) for name, spec in self.all_raw.items() if name not in raw}
        every = {**self._checked(raw), **unread}
        return self.loaded.transform_fn({name: _as_expected(every[name], self.all_raw[name]) for name in self.all_raw})

    def _checked(self, raw: Mapping[str, tf.SparseTensor]) -> Mapping[str, tf.SparseTensor]:
        """The columns, once it is certain that none has several values in an example where one is taken: an assertion
        over all of them, which costs a request some microseconds.
        """
        names = [name for name in self.single if name in raw]
        if not names:
            return raw
        most = tf.stack([raw[name].dense_shape[1] for name in names])
        messages = tf.constant([f"column {name!r}, of which `{self.single[name]}` takes one" for name in names])
        several = most > 1
        told = [SEVERAL, tf.boolean_mask(messages, several), tf.boolean_mask(most, several)]
        with tf.control_dependencies([tf.debugging.Assert(~tf.reduce_any(several), told, summarize=10)]):
            return {name: tf.sparse.map_values(tf.identity, tensor) for name, tensor in raw.items()}


def _named_spec(inputs: Mapping[str, str], specs: Mapping[str, tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    return {given: tf.TensorSpec(specs[name].shape, specs[name].dtype, name=given) for name, given in inputs.items()}


def _shaped(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """The tensor, of which the C++ runtime does not check that it has the signature's shape."""
    return tf.ensure_shape(tensor, spec.shape)


def _input_spec(x: keras.KerasTensor) -> tf.TypeSpec:
    """What a model's input is fed with."""
    return tf.RaggedTensorSpec(x.shape, x.dtype, 1, tf.int64) if x.ragged else tf.TensorSpec(x.shape, x.dtype)


def _varlen(spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]) -> dict[str, tf.io.VarLenFeature]:
    """The same columns, where none has to be present in an example."""
    return {name: tf.io.VarLenFeature(feature.dtype) for name, feature in spec.items()}


def _sparse_spec(spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]) -> dict[str, tf.SparseTensorSpec]:
    return {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in spec.items()}


def _missing(dtype: tf.DType) -> str | int | float:
    """What a dense tensor carries for a missing value."""
    return {tf.string: "", tf.int64: MISSING_INTEGER}.get(dtype, float("nan"))


def _present(tensor: tf.Tensor) -> tf.SparseTensor:
    """[batch] to sparse [batch, 1], without the missing values."""
    missing = _missing(tensor.dtype)
    absent = tf.math.is_nan(tensor) if tensor.dtype.is_floating else tf.equal(tensor, missing)
    column = tensor[:, tf.newaxis]
    places = tf.where(tf.logical_not(absent)[:, tf.newaxis])
    return tf.SparseTensor(places, tf.gather_nd(column, places), tf.shape(column, tf.int64))


def _all_present(tensor: tf.Tensor) -> tf.SparseTensor:
    """[batch, values] to sparse of the same shape, without the missing values at the ends."""
    missing = _missing(tensor.dtype)
    present = tf.logical_not(tf.math.is_nan(tensor)) if tensor.dtype.is_floating else tf.not_equal(tensor, missing)
    places = tf.range(1, tf.shape(tensor, tf.int64)[1] + 1)
    lengths = tf.reduce_max(tf.where(present, places, 0), axis=1)
    # at least 0, where there is not one place
    return tf.RaggedTensor.from_tensor(tensor, tf.maximum(lengths, 0)).to_sparse()


def _ragged(tensor: tf.Tensor) -> tf.RaggedTensor:
    """int64 [batch, values] without the padding at the ends."""
    return tf.RaggedTensor.from_tensor(tensor, padding=PADDING)


def _nothing(dtype: tf.DType, batch: tf.Tensor) -> tf.SparseTensor:
    """Sparse [batch, 0]."""
    return tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], dtype), tf.stack([batch, 0]))


def _as_expected(
    tensor: tf.SparseTensor, feature: tf.io.VarLenFeature | tf.io.FixedLenFeature
) -> tf.SparseTensor | tf.Tensor:
    """What the Transform graph takes: a schema that fixes a column's shape makes its input dense."""
    if isinstance(feature, tf.io.VarLenFeature):
        return tensor
    width = feature.shape[0] if feature.shape else 1
    shape = tf.stack([tensor.dense_shape[0], tf.constant(width, tf.int64)])
    dense = tf.sparse.to_dense(tf.sparse.reset_shape(tensor, shape), default_value=_missing(feature.dtype))
    return tf.reshape(dense, [-1, *feature.shape])
