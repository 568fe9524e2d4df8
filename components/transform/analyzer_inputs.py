"""From serialized examples to what the analyzers of all columns add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils

from headrace.configs.schema.data import bits_column
from headrace.trainer import columns
from headrace.trainer.columns import Batch
from headrace.trainer.columns.analysis import ColumnAnalyzers
from headrace.trainer.columns.analyzers.numbers import Floats
from headrace.trainer.columns.analyzers.texts import VocabularyAnalyzer
from headrace.trainer.columns.base import prefix_errors
from headrace.trainer.columns.raw import with_float64
from headrace.trainer.columns.stacked import stacked_numbers
from headrace.trainer.sections import TrainerSections
from headrace.trainer.target import with_target


class AnalyzerInputs:
    """The inputs of the analyzers, computed from serialized examples by a graph of its own.

    inputs = AnalyzerInputs(sections, schema)
    accumulator = inputs.analyzers.add(accumulator, *inputs(serialized))
    """

    def __init__(self, sections: TrainerSections, schema: bytes) -> None:
        """Trace the graph. Raises TrainingError if a column does not have the type that its feature needs.

        Args:
            sections: The features.
            schema: Of the examples, serialized.
        """
        self._columns = with_target(columns.build(sections.features), sections.label)
        self.analyzers = ColumnAnalyzers(self._columns)
        read = _read_by_analyzers(sections, self._columns)
        self._float64 = [name for name in sections.float64 if name in read]
        self._spec = _spec_of(sections, self._columns, schema)
        signature = [tf.TensorSpec([None], tf.string)]
        self._function = tf.function(self._inputs, input_signature=signature, autograph=False)
        self._function.get_concrete_function()

    def __call__(self, serialized: tf.Tensor) -> tuple[Floats | None, list[Any]]:
        """The arguments of `ColumnAnalyzers.add` for a batch of serialized examples: string [batch]."""
        numbers, texts = self._function(serialized)
        return (numbers[0].numpy() if numbers else None), [text.numpy() for text in texts]

    def _inputs(self, serialized: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        tensors = with_float64(tf.io.parse_example(serialized, self._spec), self._float64)
        batch = Batch(tensors, self._columns)
        derived: dict[str, tf.Tensor] = {}
        for name, column in self._columns.items():
            with prefix_errors(name):
                for analyzer in column.analyzers():
                    if isinstance(analyzer, VocabularyAnalyzer):
                        continue
                    if analyzer.key not in tensors or tensors[analyzer.key].dtype == tf.string:
                        # no data column of numbers: what the column computes, or the error that names the feature
                        derived[analyzer.key] = column.analyzed_numbers(batch, analyzer.key)
        size = tf.size(serialized, tf.int64)
        keys = self.analyzers.keys
        vectors = [derived.pop(key) for key in keys if key in derived and derived[key].shape.rank == 2]
        single = keys[: len(keys) - len(vectors)]  # vectors come last
        numbers = [stacked_numbers({**tensors, **derived}, single, size)] if single else []
        numbers = [tf.concat([*numbers, *vectors], axis=1)] if vectors else numbers
        texts = []
        for vocabulary_column in self.analyzers.vocabularies.values():
            with prefix_errors(vocabulary_column.name):
                texts.append(vocabulary_column.vocabulary_texts(batch))
        return numbers, texts


def _read_by_analyzers(sections: TrainerSections, built: Mapping[str, columns.Column]) -> set[str]:
    """The data columns that analyzers read: of features, and of a label that is a text."""
    read = [(name, column.feature) for name, column in built.items() if column.analyzers()]
    features = [(name, sections.features.get(name, feature)) for name, feature in read]
    return {column for name, feature in features for column in feature.data_columns(name, sections.features)}


def _spec_of(sections: TrainerSections, built: Mapping[str, columns.Column], schema: bytes) -> dict[str, Any]:
    """How to parse the data columns that the analyzers read; all of them if one is missing, for the error's sake."""
    spec = schema_utils.schema_as_feature_spec(schema_pb2.Schema.FromString(schema)).feature_spec
    names = _read_by_analyzers(sections, built)
    names |= {bits_column(name) for name in names & {*sections.float64}}
    return {name: one for name, one in spec.items() if name in names} if names <= spec.keys() else spec
