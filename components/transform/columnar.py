"""Feature columns computed from Arrow columns: what the transform graph computes, to the last bit, without loading it.

Each feature here depends on one value of one data column, or of each column of a cross. A vocabulary's ids are looked
up for the distinct values of a batch; every other kind is computed by its own class, on the distinct values or on the
tensors of the same batch that the graph would get. So nothing but the lookup is written twice.

    columnar = Columnar(sections, schema)
    if columnar.covers: ...                              # else everything goes through the graph
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils

from headrace.components.transform.record_blocks import Block
from headrace.components.transform.single_values import (
    INTEGER_MISSING,
    SingleValues,
    as_texts,
    is_single,
    single_values,
)
from headrace.components.transform.text_ids import TextIds
from headrace.configs.schema.data import bits_column
from headrace.configs.schema.label import LabelConfig
from headrace.trainer import columns
from headrace.trainer.columns import Batch, Column
from headrace.trainer.columns.analysis import ColumnAnalyzers, Statistics
from headrace.trainer.columns.analyzers.numbers import Floats
from headrace.trainer.columns.boolean import BooleanColumn
from headrace.trainer.columns.bucketized import BucketizedColumn
from headrace.trainer.columns.crossed import CrossedColumn
from headrace.trainer.columns.hashed import HashedColumn
from headrace.trainer.columns.identity import IdentityColumn
from headrace.trainer.columns.numeric import NumericColumn
from headrace.trainer.columns.vocabulary import Vocabulary, VocabularyColumn
from headrace.trainer.preprocessing import transform_label, transform_weight
from headrace.trainer.sections import TrainerSections

NUMBERS, TEXTS = {tf.int64, tf.float32}, {tf.int64, tf.string}
TYPES: dict[type[Column[Any]], set[tf.DType]] = {
    NumericColumn: NUMBERS,
    BucketizedColumn: NUMBERS,
    IdentityColumn: {tf.int64},
    HashedColumn: TEXTS,
    VocabularyColumn: TEXTS,
    BooleanColumn: NUMBERS | TEXTS,
}
"""The kinds of columns that are computed here, and the types of data columns that they take."""
KEYS = {BucketizedColumn, IdentityColumn, HashedColumn, BooleanColumn}
"""Those that may be a key of a cross here: their categories are computed without looking anything up."""
LABELS = {"binary": TEXTS, "multiclass": TEXTS, "regression": NUMBERS}
"""The same for the kinds of labels. For other types the graph has the error."""

Values = NDArray[np.generic]
Compute = Callable[[Mapping[str, tf.Tensor]], tf.Tensor]


class Coded(NamedTuple):
    """Ids of some values, int64 [values], and the place of each row's among them, int64 [rows]."""

    ids: NDArray[np.int64]
    codes: NDArray[np.int64]

    def rows(self) -> NDArray[np.int64]:
        """The ids of all rows: int64 [rows]."""
        return self.ids[self.codes]


class Columnar:
    """The features and the label of a config whose every column is computed from columns."""

    def __init__(self, sections: TrainerSections, schema: bytes) -> None:
        """schema: of the raw examples, serialized."""
        self._sections = sections
        self._spec = schema_utils.schema_as_feature_spec(schema_pb2.Schema.FromString(schema)).feature_spec
        self._columns = columns.build(sections.features)
        self._numeric = {name: one for name, one in self._columns.items() if isinstance(one, NumericColumn)}
        self._vocabularies: dict[str, VocabularyIds] = {}
        self._results: dict[Any, tf.Tensor] = {}

    @property
    def covers(self) -> bool:
        """Whether everything is computed here, as far as the schema says."""
        label = self._sections.label
        return (
            all(map(is_single, self._spec.values()))
            and all(self._has(part.key, LABELS.get(part.kind, set())) for part in label.parts.values())
            and (label.weight is None or self._has(label.weight, NUMBERS))
            and all(bits_column(name) in self._spec for name in self._sections.float64)
            and all(map(self._covers, self._columns.values()))
        )

    def load(self, graph: str, statistics: Statistics) -> None:
        """Read what was learned. graph: the folder of the transform graph; statistics: what it has as constants."""
        output = tft.TFTransformOutput(graph)
        self._results = {one: tf.constant(value) for one, value in statistics.items()}
        for name, column in self._columns.items():
            if isinstance(column, VocabularyColumn):
                self._vocabularies[name] = VocabularyIds(column, output)

    def features(self, block: Block) -> dict[str, Values] | None:
        """What the graph computes of some examples: [rows] each. None if they must go through the graph."""
        found = self.coded_features(block)
        if found is None:
            return None
        return {name: one.rows() if isinstance(one, Coded) else one for name, one in found.items()}

    def coded_features(self, block: Block) -> dict[str, Values | Coded] | None:
        """The same, ids of vocabularies as the distinct ones and their codes."""
        values, label = self._values(block), self._sections.label
        if values is None:
            return None
        found: dict[str, Values | Coded] = {
            part.key: _of_distinct(part.key, values[part.key], functools.partial(_label, part))
            for part in label.parts.values()
        }
        if (weight := label.weight) is not None:
            found[weight] = transform_weight(weight, Batch({weight: tf.constant(values[weight].dense)}, {})).numpy()
        found |= self._numbers(values)
        for name, column in self._columns.items():
            if name in self._vocabularies:
                found[name] = self._vocabularies[name](values[_key(column)])
            elif isinstance(column, CrossedColumn):
                found[name] = self._crossed(column, values)
            elif name not in self._numeric:
                found[name] = _of_distinct(_key(column), values[_key(column)], self._alone(name, column))
        return found

    def analyzed(self, block: Block, analyzers: ColumnAnalyzers) -> tuple[Floats | None, list[pa.Array]] | None:
        """The arguments of `ColumnAnalyzers.add`. None if the examples must go through the graph."""
        if (values := self._values(block)) is None:
            return None
        numbers = np.stack([values[key].floats() for key in analyzers.keys], axis=1) if analyzers.keys else None
        return numbers, [values[one.key].texts(one.missing) for one in analyzers.vocabularies]

    def _values(self, block: Block) -> dict[str, SingleValues] | None:
        """The data columns; None unless each has at most one value per example, of the type that the graph parses."""
        batch = block.columns
        values = None if batch is None else single_values(batch, self._spec)
        if values is None:
            return None
        float64 = self._sections.float64
        return {**values, **{name: values[name].with_bits(values[bits_column(name)]) for name in float64}}

    def _covers(self, column: Column[Any]) -> bool:
        if type(column) is CrossedColumn:
            members = self._members(column)
            own = all(type(one) in KEYS and self._covers(one) for one in members.values())
            return own and all(self._has(key, TEXTS) for key in column.feature.keys if key not in members)
        multivalued = getattr(column, "multivalued", False)
        return not multivalued and self._has(_key(column), TYPES.get(type(column), set()))

    def _members(self, column: CrossedColumn) -> dict[str, Column[Any]]:
        """The keys of a cross that are features; the others are data columns."""
        return {key: self._columns[key] for key in column.feature.keys if key in self._columns and key != column.name}

    def _crossed(self, column: CrossedColumn, values: Mapping[str, SingleValues]) -> Values:
        members = self._members(column)
        keys = {_key(members[key]) if key in members else key for key in column.feature.keys}
        batch = Batch({key: values[key].tensor for key in keys}, members, results=self._results)
        return column.transform(batch).numpy()

    def _has(self, key: str, types: set[tf.DType]) -> bool:
        return key in self._spec and self._spec[key].dtype in types

    def _alone(self, name: str, column: Column[Any]) -> Compute:
        return lambda tensors: column.transform(Batch(tensors, {name: column}, results=self._results))

    def _numbers(self, values: Mapping[str, SingleValues]) -> dict[str, Values]:
        """The numeric features, computed of the same matrix as in the graph."""
        keys = {column.key for column in self._numeric.values()}
        tensors = {key: tf.constant(values[key].dense) for key in keys}
        batch = Batch(tensors, self._numeric, results=self._results)
        return {name: column.transform(batch).numpy() for name, column in self._numeric.items()}


class VocabularyIds:
    """What `VocabularyColumn.transform` computes, of the distinct values of a batch."""

    def __init__(self, column: VocabularyColumn, output: tft.TFTransformOutput) -> None:
        feature = column.feature
        given = Vocabulary(column.name, column.key, feature, feature.missing).given()
        if given is not None:
            lines = [value.encode() for value in given]
        else:
            with tf.io.gfile.GFile(output.vocabulary_file_by_name(column.name), "rb") as file:
                lines = file.read().split(b"\n")[:-1]
        self._ids = TextIds(lines)
        self._buckets = feature.oov_buckets
        missing = feature.missing
        substitute = pa.array([str(missing).encode()], pa.binary())
        self._missing = len(lines) + self._buckets if missing is None else self._look_up(substitute)[0]

    def __call__(self, values: SingleValues) -> Coded:
        distinct, codes = values.codes
        return Coded(np.append(self._look_up(_in_decimal(distinct)), self._missing), codes)

    def _look_up(self, texts: pa.Array) -> NDArray[np.int64]:
        ids = self._ids.look_up(texts)
        unknown = np.flatnonzero(ids == len(self._ids))
        if self._buckets > 1 and len(unknown):
            others = texts.take(pa.array(unknown)).to_numpy(zero_copy_only=False)
            ids[unknown] += tf.strings.to_hash_bucket_fast(tf.constant(others, tf.string), self._buckets).numpy()
        return ids


def _in_decimal(distinct: pa.Array) -> pa.Array:
    """Values as texts, integers in decimal."""
    return distinct.cast(pa.string()).cast(pa.binary()) if pa.types.is_integer(distinct.type) else distinct


def _of_distinct(key: str, values: SingleValues, compute: Compute) -> Values:
    """What is computed of each row's value, computed once of each distinct one; of floats, of each row's."""
    if values.is_float:
        return compute({key: tf.constant(values.dense)}).numpy()
    distinct, codes = values.codes
    if pa.types.is_large_binary(distinct.type):
        tensor = tf.constant([*as_texts(distinct), b""], tf.string)
    else:
        tensor = tf.constant(np.append(distinct.to_numpy(), INTEGER_MISSING))
    return compute({key: tensor}).numpy()[codes]


def _label(label: LabelConfig, tensors: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return transform_label(label, Batch(tensors, {}))


def _key(column: Column[Any]) -> str:
    return str(getattr(column, "key", column.name))
