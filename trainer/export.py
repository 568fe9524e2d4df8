"""The SavedModel: the Transform graph and the model combined, with a signature for each kind of caller.

serving_default      {"examples": string [batch]}, serialized tf.Example → {"predictions": float32 [batch, outputs]}
serving_raw          the raw columns by name, each [batch]               → the same
serving_transformed  the transformed features by name, each [batch]      → the same
transform_features   {"examples"} → the transformed features and the label by name, each [batch]; a multilabel label
                     is [batch, classes]

If the label has at most NAMED_CLASSES classes, the first three also return the name and the probability of each class,
in the order of `label.classes`: {"classes": string [batch, k], "probabilities": float32 [batch, k]}. Those of a
multilabel label do not add up to 1: each is that of belonging to the class. In the classify
signature of TensorFlow's Estimators the latter are `scores`, but TFMA would evaluate an output of that name instead of
`predictions`.

With several labels, `predictions` has those of all tasks side by side, and each task has such outputs of its own behind
its name: `sold_predictions`, `sold_classes`, `sold_probabilities`.

A model that writes texts has other answers, and more signatures (see `writing`).

Named tensors are named after their columns, as spelled by `signature_names` (`pickup area` becomes `pickup_area`).
A missing value is an absent or empty feature in an example; in a named tensor it is "", NaN or the smallest int64.
The tensor of a multivalued column is [batch, values]: a raw column is padded with missing values, a transformed feature
with -1. That of a vector is [batch, size]; a row of missing values is a missing list.
A column of `data.types: float64` is float64 as a named tensor. In an example it is two features: its values as float32,
and their bits as int64, named after it with `:float64` at the end; without these, the float32 counts.
The label may be absent; transform_features returns it for the evaluation. An example with several values in a column of
which the model takes one is refused.

Of the model, only the variables and tables of the signatures are written, not its layers: the V1 and C++ loaders
(TensorFlow Serving, BulkInferrer) cannot find the variables of a Keras 3 model that `tf.saved_model.save` wrote.
"""

from __future__ import annotations

import keyword
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow.saved_model.experimental import TrackableResource

from headrace.configs.schema.data import bits_column
from headrace.configs.schema.features import single_columns
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.columns import MISSING_INTEGER, PADDING
from headrace.trainer.columns.layers import dense
from headrace.trainer.private_api import AutoTrackable
from headrace.trainer.sections import TrainerSections
from headrace.trainer.served_model import PREDICTIONS, task_output
from headrace.trainer.tasks import tasks_of

WEIGHTS = "assets.extra/model.weights.h5"
"""The weights in Keras' own format within the SavedModel; a model with the same layers can start from them."""

MULTIPLE_VALUES = "an example has several values in"
"""Start of the error for several values in a column of which the model takes one."""

NAMED_CLASSES = 1000
"""The most classes whose names are returned: the names are sent for every example."""

Tensors = dict[str, tf.Tensor]


def export(directory: str, signatures: Signatures, weights: Path) -> None:
    """Write the SavedModel into `directory`, and the file with the model's weights inside it."""
    traced = {
        name: tf.function(function, input_signature=[spec], autograph=False).get_concrete_function()
        for name, (function, spec) in signatures.all().items()
    }
    root = AutoTrackable()  # as a tf.Module, it would not have `variables` once it is loaded
    variables = (variable for function in traced.values() for variable in function.variables)
    root.variables = list({id(variable): variable for variable in variables}.values())
    root.tables = [*_tables(signatures.model), *_tables(signatures.loaded)]
    tf.saved_model.save(root, directory, traced)
    extra = Path(directory, WEIGHTS)
    extra.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(weights, extra)


def _tables(tracked: Any) -> Iterator[TrackableResource]:
    """The lookup tables, and other resources that are no variables, of a model or a loaded graph."""
    return (each for each in tf.train.TrackableView(tracked).descendants() if isinstance(each, TrackableResource))


@dataclass(frozen=True)
class RawColumns:
    """The data columns that a model reads."""

    labels: Collection[str]
    """The labels' data columns."""
    features: Collection[str]
    """The data columns that features read, in the config's order."""
    weight: str | None = None
    """The data column with the weights of the examples, which only training and evaluation read."""
    multivalued: Collection[str] = ()
    """Those of which a feature uses all values of an example."""
    vectors: Mapping[str, int] = field(default_factory=dict)
    """Those that hold lists of a fixed length, each with that length."""
    float64: Collection[str] = ()
    """Those that hold float64 values, whose bits the examples have in a column of their own."""
    single: Mapping[str, str] = field(default_factory=dict)
    """Those of which an example may have at most one value, each with the setting that reads it."""

    @classmethod
    def of(cls, sections: TrainerSections) -> RawColumns:
        """Return the data columns that label and features read."""
        reads = {name: one.data_columns(name, sections.features) for name, one in sections.features.items()}
        multivalued = [name for name, one in sections.features.items() if getattr(one, "multivalued", False)]
        single = {}
        if sections.several_values == "refuse":
            features = {column: f"features.{name}" for column, name in single_columns(sections.features).items()}
            parts = {part.key: ".".join(map(str, part.setting(name))) for name, part in sections.label.parts.items()}
            several = {part.key for part in sections.label.parts.values() if part.kind == "multilabel"}
            single = {**{key: setting for key, setting in parts.items() if key not in several}, **features}
        return cls(
            labels=sections.label.columns,
            weight=sections.label.weight,
            features=list(dict.fromkeys(column for names in reads.values() for column in names)),
            multivalued={column for name in multivalued for column in reads[name]},
            vectors={
                column: one.list_size
                for name, one in sections.features.items()
                for column in reads[name]
                if one.list_size is not None
            },
            float64=sections.float64,
            single=single,
        )


class Signatures:
    """The functions behind the signatures. The Transform graph and the model are traced once each and shared."""

    def __init__(
        self,
        model: keras.Model,
        transform_output: tft.TFTransformOutput,
        columns: RawColumns,
        label: LabelConfig | None = None,
    ) -> None:
        """`label`: whose classes are named in the answers, if it has any."""
        self.model = model
        self.class_names = {} if label is None else {name: _named(part) for name, part in label.parts.items()}
        self.tasks = () if label is None else tasks_of(label)
        self.loaded = tf.saved_model.load(transform_output.transform_savedmodel_dir)
        self.labels, self.weight = columns.labels, columns.weight
        self.raw_feature_spec = transform_output.raw_feature_spec()
        self.float64 = columns.float64
        names = (*columns.features, *map(bits_column, columns.float64), *columns.labels)
        self.raw_spec = {name: self.raw_feature_spec[name] for name in names}
        self.vectors = columns.vectors
        self.multivalued = frozenset([*columns.multivalued, *columns.vectors])
        self.single = columns.single
        self.raw_inputs = signature_names(columns.features)
        self.model_inputs = signature_names(model.input)
        self.transform = tf.function(self._transform, input_signature=[_sparse_spec(self.raw_spec)], autograph=False)
        features = {name: _input_spec(x) for name, x in model.input.items()}
        self.additional: dict[str, tuple[Callable[[Tensors], Tensors], Any]] = {}
        """Additional signatures: name → function and the specification of its argument."""
        self.answer: Callable[[Tensors], Tensors] | None = None
        """What the serving signatures return for transformed features; None: the predictions and the classes."""
        self.predict = tf.function(
            lambda features: model(features, training=False), input_signature=[features], autograph=False
        )

    def all(self) -> dict[str, tuple[Callable[..., Tensors], Any]]:
        """Return name → function and the specification of its argument."""
        examples = tf.TensorSpec([None], tf.string, name="examples")
        raw = {
            name: tf.TensorSpec(
                [None, self.vectors.get(name)] if name in self.multivalued else [None],
                tf.float64 if name in self.float64 else self.raw_spec[name].dtype,
            )
            for name in self.raw_inputs
        }
        features = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in self.model.input.items()}
        return {
            "serving_default": (self.predict_examples, examples),
            "serving_raw": (self.predict_raw, _named_spec(self.raw_inputs, raw)),
            "serving_transformed": (self.predict_transformed, _named_spec(self.model_inputs, features)),
            "transform_features": (self.transform_examples, examples),
            **self.additional,
        }

    def predict_examples(self, examples: tf.Tensor) -> Tensors:
        """Signature `serving_default`."""
        spec = {name: one for name, one in self.raw_spec.items() if name not in self.labels}
        return self._predict(tf.io.parse_example(examples, _varlen(spec)), tf.size(examples, tf.int64))

    def predict_raw(self, tensors: Tensors) -> Tensors:
        """Signature `serving_raw`."""
        return self._predict(*self._by_name(tensors))

    def features_with_label(self, tensors: Tensors, texts: tf.Tensor) -> tuple[Tensors, tf.Tensor]:
        """The model's features and the transformed label. tensors: as `serving_raw` takes; texts: labels, [batch]."""
        named, _ = self._by_name(tensors)
        (label_key,) = self.labels
        raw, _ = _same_rows({**named, **_values({label_key: texts})})
        features = self.transform(raw)
        return {name: features[name] for name in self.model_inputs}, features[label_key]

    def examples_with_label(self, examples: tf.Tensor) -> tuple[Tensors, tf.Tensor]:
        """The model's features and the transformed label of serialized examples [batch]."""
        (label_key,) = self.labels
        features = self.transform(tf.io.parse_example(examples, _varlen(self.raw_spec)))
        return {name: features[name] for name in self.model_inputs}, features[label_key]

    def _by_name(self, tensors: Tensors) -> tuple[Mapping[str, tf.SparseTensor], tf.Tensor]:
        """The raw columns of a request by name, and its number of rows: int64 []."""
        specs = self.all()["serving_raw"][1]
        checked = {name: _shaped(tensors[given], specs[given]) for name, given in self.raw_inputs.items()}
        single = {name: x for name, x in checked.items() if name not in self.multivalued}
        raw = {
            name: (_whole_rows if name in self.vectors else _ragged_values)(x)
            for name, x in checked.items()
            if name in self.multivalued
        }
        return _same_rows({**raw, **_as_stored(_values(single), self.float64)})

    def predict_transformed(self, tensors: Tensors) -> Tensors:
        """Signature `serving_transformed`."""
        specs = self.all()["serving_transformed"][1]
        given = {name: _shaped(tensors[given], specs[given]) for name, given in self.model_inputs.items()}
        ragged = {name for name, x in self.model.input.items() if x.ragged}
        features = {name: _ragged(x) if name in ragged else x for name, x in given.items()}
        return self._answer(features)

    def transform_examples(self, examples: tf.Tensor) -> Tensors:
        """Signature `transform_features`."""
        features = self.transform(tf.io.parse_example(examples, _varlen(self.raw_spec)))
        return {name: dense(x) for name, x in features.items() if name != self.weight}

    def transform_text(self, key: str, texts: tf.Tensor) -> Tensors:
        """Return the features of texts [batch] in the data column `key`, with all other columns missing."""
        return self.transform(
            {
                name: _values({key: texts})[key] if name == key else _empty(spec.dtype, tf.size(texts, tf.int64))
                for name, spec in self.raw_spec.items()
            }
        )

    def _predict(self, raw: Mapping[str, tf.SparseTensor], batch: tf.Tensor) -> Tensors:
        labels = {name: _empty(self.raw_spec[name].dtype, batch) for name in self.labels}
        features = self.transform({**raw, **labels})
        return self._answer({name: features[name] for name in self.model_inputs})

    def _answer(self, features: Tensors) -> Tensors:
        """What the serving signatures return for transformed features."""
        if self.answer is not None:
            return self.answer(features)
        predictions = self.predict(features)
        if not self.tasks:
            return _with_classes(predictions, self.class_names.get("", []))
        found = {PREDICTIONS: predictions}
        for task in self.tasks:
            own = _with_classes(predictions[:, task.outputs], self.class_names[task.name])
            found |= {task_output(task.name, name): tensor for name, tensor in own.items()}
        return found

    def _transform(self, raw: Mapping[str, tf.SparseTensor]) -> Tensors:
        specs = self.raw_feature_spec
        batch = next(iter(raw.values())).dense_shape[0]
        unused = {name: _empty(spec.dtype, batch) for name, spec in specs.items() if name not in raw}
        every = {**self._check_single_values(raw), **unused}
        return self.loaded.transform_fn({name: _as_expected(every[name], specs[name]) for name in specs})

    def _check_single_values(self, raw: Mapping[str, tf.SparseTensor]) -> Mapping[str, tf.SparseTensor]:
        """Assert that no example has several values in a column of which one is used.

        One assertion over all columns costs a request some microseconds.
        """
        names = [name for name in self.single if name in raw]
        if not names:
            return raw
        longest = tf.stack([raw[name].dense_shape for name in names])[:, 1]
        messages = tf.constant([f"column {name!r}, of which `{self.single[name]}` takes one" for name in names])
        wrong = longest > 1
        data = [MULTIPLE_VALUES, tf.boolean_mask(messages, wrong), tf.boolean_mask(longest, wrong)]
        return _after(tf.debugging.Assert(~tf.reduce_any(wrong), data, summarize=10), raw)


def _named(label: LabelConfig) -> list[str]:
    """The names of the classes that are returned."""
    return [str(value) for value in label.class_values] if len(label.class_values) <= NAMED_CLASSES else []


def _with_classes(predictions: tf.Tensor, classes: list[str]) -> Tensors:
    """The predictions of one label, and its classes with their probabilities if they are named."""
    if not classes:
        return {PREDICTIONS: predictions}
    binary = predictions.shape[1] == 1
    probabilities = tf.concat([1 - predictions, predictions], axis=1) if binary else predictions
    names = tf.tile(tf.constant([classes]), [tf.shape(predictions)[0], 1])
    return {PREDICTIONS: predictions, "classes": names, "probabilities": probabilities}


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


def _named_spec(inputs: Mapping[str, str], specs: Mapping[str, tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    return {given: tf.TensorSpec(specs[name].shape, specs[name].dtype, name=given) for name, given in inputs.items()}


def _shaped(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Set the signature's shape, which the C++ runtime does not check by itself."""
    return tf.ensure_shape(tensor, spec.shape)


def _input_spec(x: keras.KerasTensor) -> tf.TypeSpec:
    """The specification of a model's input."""
    return tf.RaggedTensorSpec(x.shape, x.dtype, 1, tf.int64) if x.ragged else tf.TensorSpec(x.shape, x.dtype)


def _varlen(spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]) -> dict[str, tf.io.VarLenFeature]:
    """The same columns, all of them optional in an example."""
    return {name: tf.io.VarLenFeature(feature.dtype) for name, feature in spec.items()}


def _sparse_spec(spec: Mapping[str, tf.io.VarLenFeature | tf.io.FixedLenFeature]) -> dict[str, tf.SparseTensorSpec]:
    return {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in spec.items()}


def _missing_value(dtype: tf.DType) -> str | int | float:
    """What stands for a missing value in a dense tensor."""
    return {tf.string: "", tf.int64: MISSING_INTEGER}.get(dtype, float("nan"))


def _values(tensors: Mapping[str, tf.Tensor]) -> dict[str, tf.SparseTensor]:
    """[batch] each to sparse [batch, 1] each, without the missing values; those of one dtype are computed together."""
    sparse = {}
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors.values()):
        names = [name for name, tensor in tensors.items() if tensor.dtype == dtype]
        stacked = tf.stack([tensors[name] for name in names])
        present = _present(stacked)
        places = tf.where(present)
        counts = tf.math.count_nonzero(present, axis=1)
        values = tf.split(tf.gather_nd(stacked, places), counts)
        rows = tf.split(tf.stack([places[:, 1], tf.zeros_like(places[:, 1])], axis=1), counts)
        shape = tf.stack([tf.shape(stacked, tf.int64)[1], 1])
        parts = zip(names, rows, values, strict=True)
        sparse.update({name: tf.SparseTensor(indices, value, shape) for name, indices, value in parts})
    return sparse


def _as_stored(raw: Mapping[str, tf.SparseTensor], float64: Iterable[str]) -> dict[str, tf.SparseTensor]:
    """The columns as examples have them: of float64 values, float32 and the bits."""
    stored = dict(raw)
    for name in float64:
        values = raw[name].values
        stored[name] = raw[name].with_values(tf.cast(values, tf.float32))
        stored[bits_column(name)] = raw[name].with_values(tf.bitcast(values, tf.int64))
    return stored


def _same_rows(raw: Mapping[str, tf.SparseTensor]) -> tuple[Mapping[str, tf.SparseTensor], tf.Tensor]:
    """Assert that all columns of a request have the same number of rows, and return it too: int64 []."""
    rows = tf.stack([tensor.dense_shape for tensor in raw.values()])[:, 0]
    check = tf.debugging.Assert(tf.reduce_all(tf.equal(rows, rows[0])), ["the columns' numbers of rows differ:", rows])
    return _after(check, raw), rows[0]


def _after(check: tf.Operation, raw: Mapping[str, tf.SparseTensor]) -> Mapping[str, tf.SparseTensor]:
    """The same columns, which exist only if an assertion holds."""
    with tf.control_dependencies([check]):
        values = tf.identity_n([tensor.values for tensor in raw.values()])
    return {name: tensor.with_values(one) for (name, tensor), one in zip(raw.items(), values, strict=True)}


def _present(tensor: tf.Tensor) -> tf.Tensor:
    """Bool of the same shape: whether a value is not the one that stands for a missing value."""
    if tensor.dtype.is_floating:
        return tf.logical_not(tf.math.is_nan(tensor))
    return tf.not_equal(tensor, _missing_value(tensor.dtype))


def _whole_rows(tensor: tf.Tensor) -> tf.SparseTensor:
    """[batch, size] to sparse of the same shape, without the rows that have only missing values."""
    size = tf.shape(tensor, tf.int64)[1]
    lengths = tf.where(tf.reduce_any(_present(tensor), axis=1), size, tf.zeros_like(size))
    return tf.RaggedTensor.from_tensor(tensor, lengths).to_sparse()


def _ragged_values(tensor: tf.Tensor) -> tf.SparseTensor:
    """[batch, values] to sparse of the same shape, without the missing values at the end of each row."""
    positions = tf.range(1, tf.shape(tensor, tf.int64)[1] + 1)
    lengths = tf.reduce_max(tf.where(_present(tensor), positions, 0), axis=1)
    # reduce_max over no columns returns the smallest int64
    return tf.RaggedTensor.from_tensor(tensor, tf.maximum(lengths, 0)).to_sparse()


def _ragged(tensor: tf.Tensor) -> tf.RaggedTensor:
    """int64 [batch, values] without the padding at the end of each row."""
    return tf.RaggedTensor.from_tensor(tensor, padding=PADDING)


def _empty(dtype: tf.DType, batch: tf.Tensor) -> tf.SparseTensor:
    """Sparse [batch, 0]."""
    return tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], dtype), tf.stack([batch, 0]))


def _as_expected(
    tensor: tf.SparseTensor, feature: tf.io.VarLenFeature | tf.io.FixedLenFeature
) -> tf.SparseTensor | tf.Tensor:
    """What the Transform graph takes: dense if the schema fixes the column's shape."""
    if isinstance(feature, tf.io.VarLenFeature):
        return tensor
    width = feature.shape[0] if feature.shape else 1
    shape = tf.stack([tensor.dense_shape[0], tf.constant(width, tf.int64)])
    values = tf.sparse.to_dense(tf.sparse.reset_shape(tensor, shape), default_value=_missing_value(feature.dtype))
    return tf.reshape(values, [-1, *feature.shape])
