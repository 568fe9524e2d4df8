"""The signatures of the SavedModel: the Transform graph and the model combined, one for each kind of caller.

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

With several labels, `predictions` has those of all tasks side by side, and each task has such outputs of its own,
prefixed with the task's name: `sold_predictions`, `sold_classes`, `sold_probabilities`.

A model that writes texts has other answers, and more signatures (see `writing`).

Named tensors are named after their columns, as spelled by `signature_names` (`pickup area` becomes `pickup_area`).
A missing value is an absent or empty feature in an example; in a named tensor it is "", NaN or the smallest int64.
The tensor of a multivalued column is [batch, values]: a raw column is padded with missing values, a transformed feature
with -1. That of a vector is [batch, size]; a row of missing values is a missing list.
A column of `data.types: float64` is float64 as a named tensor. In an example it is two features: its values as float32,
and their bits as int64, named after it with `:float64` at the end; without these, the float32 counts.
The label may be absent; transform_features returns it for the evaluation. An example with several values in a column of
which the model takes one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.schema.data import bits_column
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.columns.layers import dense
from headrace.trainer.raw_columns import RawColumns
from headrace.trainer.request_tensors import (
    as_stored,
    as_transform_expects,
    empty_column,
    input_spec,
    named_specs,
    optional_spec,
    present_values,
    ragged_values,
    same_rows,
    signature_names,
    sparse_specs,
    whole_rows,
    with_assertion,
    with_shape,
    without_padding,
)
from headrace.trainer.served_model import PREDICTIONS, task_output
from headrace.trainer.tasks import tasks_of

MULTIPLE_VALUES = "an example has several values in"
"""Start of the error for several values in a column of which the model takes one."""
NAMED_CLASSES = 1000
"""The most classes whose names are returned: the names are sent for every example."""
Tensors = dict[str, tf.Tensor]


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
        self.transform = tf.function(self._transform, input_signature=[sparse_specs(self.raw_spec)], autograph=False)
        features = {name: input_spec(x) for name, x in model.input.items()}
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
            "serving_raw": (self.predict_raw, named_specs(self.raw_inputs, raw)),
            "serving_transformed": (self.predict_transformed, named_specs(self.model_inputs, features)),
            "transform_features": (self.transform_examples, examples),
            **self.additional,
        }

    def predict_examples(self, examples: tf.Tensor) -> Tensors:
        """Signature `serving_default`."""
        spec = {name: one for name, one in self.raw_spec.items() if name not in self.labels}
        return self._predict(tf.io.parse_example(examples, optional_spec(spec)), tf.size(examples, tf.int64))

    def predict_raw(self, tensors: Tensors) -> Tensors:
        return self._predict(*self._by_name(tensors))

    def features_with_label(self, tensors: Tensors, texts: tf.Tensor) -> tuple[Tensors, tf.Tensor]:
        """The model's features and the transformed label. tensors: as `serving_raw` takes; texts: labels, [batch]."""
        named, _ = self._by_name(tensors)
        (label_key,) = self.labels
        raw, _ = same_rows({**named, **present_values({label_key: texts})})
        features = self.transform(raw)
        return {name: features[name] for name in self.model_inputs}, features[label_key]

    def examples_with_label(self, examples: tf.Tensor) -> tuple[Tensors, tf.Tensor]:
        """The model's features and the transformed label of serialized examples [batch]."""
        (label_key,) = self.labels
        features = self.transform(tf.io.parse_example(examples, optional_spec(self.raw_spec)))
        return {name: features[name] for name in self.model_inputs}, features[label_key]

    def _by_name(self, tensors: Tensors) -> tuple[Mapping[str, tf.SparseTensor], tf.Tensor]:
        """The raw columns of a request by name, and its number of rows: int64 []."""
        specs = self.all()["serving_raw"][1]
        checked = {name: with_shape(tensors[given], specs[given]) for name, given in self.raw_inputs.items()}
        single = {name: x for name, x in checked.items() if name not in self.multivalued}
        raw = {
            name: (whole_rows if name in self.vectors else ragged_values)(x)
            for name, x in checked.items()
            if name in self.multivalued
        }
        return same_rows({**raw, **as_stored(present_values(single), self.float64)})

    def predict_transformed(self, tensors: Tensors) -> Tensors:
        specs = self.all()["serving_transformed"][1]
        given = {name: with_shape(tensors[given], specs[given]) for name, given in self.model_inputs.items()}
        ragged = {name for name, x in self.model.input.items() if x.ragged}
        features = {name: without_padding(x) if name in ragged else x for name, x in given.items()}
        return self.answers(features)

    def transform_examples(self, examples: tf.Tensor) -> Tensors:
        features = self.transform(tf.io.parse_example(examples, optional_spec(self.raw_spec)))
        return {name: dense(x) for name, x in features.items() if name != self.weight}

    def transform_text(self, key: str, texts: tf.Tensor) -> Tensors:
        """Return the features of texts [batch] in the data column `key`, with all other columns missing."""
        rows = tf.size(texts, tf.int64)
        others = {name: empty_column(spec.dtype, rows) for name, spec in self.raw_spec.items() if name != key}
        return self.transform({**others, **present_values({key: texts})})

    def _predict(self, raw: Mapping[str, tf.SparseTensor], batch: tf.Tensor) -> Tensors:
        labels = {name: empty_column(self.raw_spec[name].dtype, batch) for name in self.labels}
        features = self.transform({**raw, **labels})
        return self.answers({name: features[name] for name in self.model_inputs})

    def answers(self, features: Tensors) -> Tensors:
        """What the serving signatures return for transformed features."""
        if self.answer is not None:
            return self.answer(features)
        predictions = self.predict(features)
        if not self.tasks:
            return _with_classes(predictions, self.class_names.get("", []))
        found = {PREDICTIONS: predictions}
        for task in self.tasks:
            own = _with_classes(predictions[:, task.output_slice], self.class_names[task.name])
            found |= {task_output(task.name, name): tensor for name, tensor in own.items()}
        return found

    def _transform(self, raw: Mapping[str, tf.SparseTensor]) -> Tensors:
        specs = self.raw_feature_spec
        batch = next(iter(raw.values())).dense_shape[0]
        unused = {name: empty_column(spec.dtype, batch) for name, spec in specs.items() if name not in raw}
        every = {**self._check_single_values(raw), **unused}
        return self.loaded.transform_fn({name: as_transform_expects(every[name], specs[name]) for name in specs})

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
        which = tf.where(wrong)[:, 0]  # tf.boolean_mask of both would be 50 operations
        data = [MULTIPLE_VALUES, tf.gather(messages, which), tf.gather(longest, which)]
        return with_assertion(tf.debugging.Assert(~tf.reduce_any(wrong), data, summarize=10), raw)


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
