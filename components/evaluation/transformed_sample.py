"""A sample as the model takes it: transformed once, so that the predictions for changed columns need no tf.Examples.

    sample = TransformedSample.of(loaded, call, reads, batch, serialize)     # None if it predicts otherwise
    changes = [sample.permuted(["fare"], order), *sample.replaced([{"hour": values}])]
    for predictions in sample.predict_each(changes): ...                     # [rows, outputs] each

To write examples, parse them and transform all of their columns takes about a hundred times as long per value as to
call a model of dense layers. The transformation is of each row by itself, so that a feature of permuted columns is the
permuted feature. A feature that reads a permuted column and others, as a cross does, is transformed again, alone.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.record_batches import concatenated
from headrace.components.evaluation.metrics.accumulator import Array
from headrace.components.served_graph import ServedSignature, call_as_it_is
from headrace.trainer.columns import PADDING
from headrace.trainer.request_tensors import signature_names
from headrace.trainer.served_model import ModelCall

TRANSFORMED = "serving_transformed"
"""The signature that takes features by name."""
MOST_ROWS, MOST_VALUES = 5000, 1 << 23
"""About how many rows, and values of features, are predicted at once."""
_ROUNDING = 1e-5
"""By how much the two ways to a prediction may differ: TensorFlow adds in another order for another number of rows."""

Features = Mapping[str, NDArray[Any]]
"""By name, [rows] or [rows, values] each."""


@dataclass(frozen=True)
class TransformedSample:
    """The features of a sample, and the model that predicts from them.

    transform: rows of data columns, some of which may be absent, to features; model: features to predictions; reads:
    the data columns that each feature reads; batch: the sample; features: of the sample.
    """

    transform: Callable[[pa.RecordBatch], Features]
    model: FeatureModel
    reads: Mapping[str, Collection[str]]
    batch: pa.RecordBatch
    features: Features

    @classmethod
    def of(
        cls,
        loaded: Any,
        call: ModelCall,
        reads: Mapping[str, Collection[str]],
        batch: pa.RecordBatch,
        serialize: Callable[[pa.RecordBatch], tf.Tensor],
    ) -> TransformedSample | None:
        """None if the model does not predict the same from features as from examples.

        loaded: the SavedModel; call: how it is called; reads: the columns that each feature reads, empty if unknown;
        serialize: rows to tf.Examples, string [rows].
        """
        if not reads or call.signature_name != ModelCall.signature_name or TRANSFORMED not in loaded.signatures:
            return None
        preprocess = loaded.signatures[call.preprocessing_function_name]

        def transform(rows: pa.RecordBatch) -> Features:
            found = preprocess(examples=serialize(rows))
            return {name: found[name].numpy() for name in reads}

        sample = cls(transform, FeatureModel.of(loaded, call, reads), reads, batch, transform(batch))
        expected = call.predictions(loaded, serialize(batch)).numpy().reshape(batch.num_rows, -1)
        (found,) = sample.predict_each([{}])
        return sample if np.allclose(found, expected, _ROUNDING, _ROUNDING, equal_nan=True) else None

    def first(self, rows: int) -> TransformedSample:
        """The same of the first rows alone."""
        features = {name: values[:rows] for name, values in self.features.items()}
        return replace(self, batch=self.batch.take(pa.array(np.arange(rows))), features=features)

    @functools.cached_property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """The features that read each column."""
        found: dict[str, list[str]] = {}
        for name, read in self.reads.items():
            for column in read:
                found.setdefault(column, []).append(name)
        return found

    def permuted(self, columns: Collection[str], order: NDArray[np.int64]) -> Features:
        """The features that change if the rows of these columns are those of `order`."""
        changed = set(columns)
        names = self._reading(columns)
        part = [name for name in names if not changed.issuperset(self.reads[name])]
        found = {name: self.features[name][order] for name in names if changed.issuperset(self.reads[name])}
        if part:
            rows = pa.array(order)
            values = {name: self.batch.column(name).take(rows) for name in self._read_by(part) if name in changed}
            (again,) = self._transformed(part, [values])
            found |= again
        return found

    def replaced(self, replacements: Sequence[Mapping[str, pa.Array]]) -> Iterator[Features]:
        """The features that change with each of these in place of the columns of their names, the same in each."""
        names = self._reading(replacements[0]) if replacements else []
        together = max(1, MOST_ROWS // self.batch.num_rows)
        for start in range(0, len(replacements), together):
            yield from self._transformed(names, replacements[start : start + together])

    def predict_each(self, changes: Iterable[Features]) -> Iterator[Array]:
        """The predictions with each of these in place of the features of their names."""
        return self.model.predict_each(self.features, changes)

    def _transformed(self, names: Sequence[str], replacements: Sequence[Mapping[str, pa.Array]]) -> Iterator[Features]:
        """These features with each of the replacements: only the columns that they read are written into examples."""
        own = {name: self.batch.column(name) for name in self._read_by(names)}
        batches = [pa.RecordBatch.from_pydict({**own, **each}) for each in replacements]
        found, rows = self.transform(concatenated(batches)), self.batch.num_rows
        for start in range(0, rows * len(replacements), rows):
            yield {name: found[name][start : start + rows] for name in names}

    def _reading(self, columns: Iterable[str]) -> list[str]:
        """The features that read any of these columns."""
        return [*dict.fromkeys(name for column in columns for name in self.readers.get(column, ()))]

    def _read_by(self, names: Iterable[str]) -> list[str]:
        """The columns of the sample that these features read."""
        read = dict.fromkeys(column for name in names for column in self.reads[name])
        return [name for name in read if self.batch.schema.get_field_index(name) >= 0]


@dataclass(frozen=True)
class FeatureModel:
    """A model of features, those of the same dtype and shape in one tensor: a call takes time per tensor.

    stacks: the names in each tensor; predict: one tensor [names, rows, ...] for each stack to predictions; row_work:
    what a row takes; signature: the model's, whose functions are in TensorFlow's runtime only as long as it is kept.
    """

    stacks: Sequence[Sequence[str]]
    predict: Callable[..., tf.Tensor]
    row_work: int
    signature: Any

    @classmethod
    def of(cls, loaded: Any, call: ModelCall, features: Collection[str]) -> FeatureModel:
        """From a SavedModel that takes these features."""
        signature, inputs = loaded.signatures[TRANSFORMED], signature_names(features)
        specs = {name: signature.structured_input_signature[1][given] for name, given in inputs.items()}
        alike: dict[Any, list[str]] = {}
        for name, spec in specs.items():
            fixed = spec.shape[1:].is_fully_defined()
            alike.setdefault((spec.dtype, *spec.shape[1:]) if fixed else name, []).append(name)
        stacks = [*alike.values()]

        def predict(*tensors: tf.Tensor) -> tf.Tensor:
            given = {
                inputs[name]: each
                for names, tensor in zip(stacks, tensors, strict=True)
                for name, each in zip(names, tf.unstack(tensor, len(names)), strict=True)
            }
            outputs = signature(**given)
            return outputs[call.output_name(outputs)]

        shapes = [tf.TensorSpec([len(names), *specs[names[0]].shape], specs[names[0]].dtype) for names in stacks]
        function = tf.function(predict, input_signature=shapes, autograph=False)
        if isinstance(signature, ServedSignature):
            concrete = function.get_concrete_function()
            work = row_work(signature.graph)
            return cls(stacks, lambda *tensors: call_as_it_is(concrete, tensors)[0], work, signature)
        return cls(stacks, function, row_work(signature.graph.as_graph_def(add_shapes=True)), signature)

    def predict_each(self, base: Features, changes: Iterable[Features]) -> Iterator[Array]:
        """The predictions, float64 [rows, outputs], with each of the changes of `base`; several in a call."""
        rows = len(next(iter(base.values())))
        together = max(1, min(MOST_ROWS // rows, MOST_VALUES // sum(one.size for one in base.values())))
        remaining, tiled = iter(changes), dict[int, list[_Stack]]()
        while some := list(itertools.islice(remaining, together)):
            if len(some) not in tiled:
                tiled = {len(some): [_Stack(names, base, len(some)) for names in self.stacks]}
            found = np.asarray(self.predict(*(stack.with_changes(some) for stack in tiled[len(some)])), np.float64)
            yield from np.split(found.reshape(len(found), -1), len(some))


def row_work(graph: tf.compat.v1.GraphDef) -> int:
    """About what it takes to predict a row, at least 1: the values for it that the functions of a graph compute, and a
    sixteenth of the products in its matrices, as far as the shapes are known. A unit took 3 ns of a processor.
    """
    work = 0
    for function in graph.library.function:
        shapes = {node.name: node.attr["_output_shapes"].list.shape for node in function.node_def}
        for node in function.node_def:
            values = sum(_values_of_row(shape) for shape in shapes[node.name])
            inner = shapes.get(node.input[0].partition(":")[0]) if node.op == "MatMul" else None
            work += values + (values * max(inner[0].dim[-1].size, 0) // 16 if inner and inner[0].dim else 0)
    return max(work, 1)


def _values_of_row(shape: Any) -> int:
    """0 for a tensor without a first dimension of any size; further such dimensions count as 1."""
    sizes = [dimension.size for dimension in shape.dim]
    return math.prod(size for size in sizes if size >= 0) if sizes and sizes[0] < 0 else 0


class _Stack:
    """Features of one dtype and shape in a tensor, the rows of one change after the other."""

    def __init__(self, names: Sequence[str], base: Features, count: int) -> None:
        self._places, self._base = {name: place for place, name in enumerate(names)}, base
        self._rows = len(base[names[0]])
        one = np.stack([base[name] for name in names])
        self._values = np.concatenate([one] * count, axis=1)

    def with_changes(self, changes: Sequence[Features]) -> tf.Tensor:
        """[names, rows * changes, ...]."""
        own = [(number, name) for number, each in enumerate(changes) for name in each if name in self._places]
        for number, name in own:
            self._put(number, name, changes[number][name])
        tensor = tf.constant(self._values)
        for number, name in own:
            self._put(number, name, self._base[name])
        return tensor

    def _put(self, number: int, name: str, feature: NDArray[Any]) -> None:
        target = self._values[self._places[name], number * self._rows : (number + 1) * self._rows]
        if feature.shape != target.shape:  # of any number of values: at most as many as in the sample
            target[...] = PADDING
            target = target[:, : feature.shape[1]]
        target[...] = feature
