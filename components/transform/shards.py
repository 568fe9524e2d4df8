"""Reads shards of examples in batches, and transforms them by the graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import impl_helper
from tensorflow_transform.tf_metadata import schema_utils
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples
from tfx.utils import io_utils
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.common.errors import TrainingError
from headrace.components.examples.compression import Compression
from headrace.components.examples.tfexample.encode import feature_dictionary
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.transform.columnar import Coded, Columnar, Values
from headrace.components.transform.example_errors import errors_written_to
from headrace.components.transform.record_blocks import BATCH, record_blocks, rows_at_once
from headrace.trainer.columns.analysis import Statistics
from headrace.trainer.input.reading import records_of
from headrace.trainer.input.transformed_columns import ColumnsWriter
from headrace.trainer.sections import TrainerSections

BATCHES, NARROW = 4, 1000
"""Batches that are transformed at once, since the cost of encoding is per column, if a transformed example has at most
this many values.
"""
READ_BATCHES = 16
"""Batches whose data columns are read at once: what is computed of distinct values is computed for fewer of them."""


Learned = tuple[str, Statistics]
"""Feature columns, TrainerSections as JSON, and their statistics, which the graph has as constants."""


class TransformShard(NamedTuple):
    """A file of examples, and the file for its transformed examples."""

    split: str
    source: str
    target: str


class TransformShards(beam.DoFn):
    """Shards to files of transformed examples, and the number of rows of each split.

    schema: of the raw examples, serialized; failed: the file to which the message of a TrainingError is written;
    learned: None if the features are not this project's feature columns; columns: the schema of files of columns (see
    trainer/input/transformed_columns.py), None to write TFRecords.
    """

    def __init__(
        self,
        graph: str,
        schema: bytes,
        failed: Path,
        learned: Learned | None = None,
        columns: pa.Schema | None = None,
    ) -> None:
        self._graph, self._schema, self._failed, self._learned = graph, schema, failed, learned
        self._columns = columns

    def setup(self) -> None:
        """Load the graph, unless the features come from columns."""
        output = tft.TFTransformOutput(self._graph)
        self._spec = output.transformed_feature_spec()
        self._converter = impl_helper.make_tensor_to_arrow_converter(output.transformed_metadata.schema)
        self._batches = BATCHES if _values(self._spec) <= NARROW else 1
        self._columnar = self._loaded_columnar()
        self._features = self._load_graph() if self._columnar is None else None

    def _loaded_columnar(self) -> Columnar | None:
        if self._learned is None:
            return None
        sections, statistics = self._learned
        columnar = Columnar(TrainerSections.from_json(sections), self._schema)
        if not columnar.covers:
            return None
        columnar.load(self._graph, statistics)
        return columnar

    def _load_graph(self) -> Any:
        """The function from serialized examples to features."""
        spec = schema_utils.schema_as_feature_spec(schema_pb2.Schema.FromString(self._schema)).feature_spec
        # as TFT's own layer does, but without searching the graph for the inputs of each output
        self._loaded = tf.saved_model.load(tft.TFTransformOutput(self._graph).transform_savedmodel_dir)
        transform_fn = self._loaded.transform_fn
        return tf.function(
            lambda serialized: transform_fn(
                *tf.nest.flatten(tf.io.parse_example(serialized, spec), expand_composites=True)
            ),
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,  # there is nothing to convert, and searching for it takes half a second
        )

    def process(self, shard: TransformShard) -> Iterator[dict[str, int]]:
        Path(shard.target).parent.mkdir(parents=True, exist_ok=True)
        write = self._write_records if self._columns is None else self._write_columns
        yield {shard.split: write(shard.source, shard.target)}

    def _write_columns(self, source: str, target: str) -> int:
        rows = 0
        with ColumnsWriter(target, self._columns) as writer:
            for columns in self._transformed(source):
                rows += writer.add(columns)
        return rows

    def _write_records(self, source: str, target: str) -> int:
        compressor, rows = Compression().compressor(), 0
        _, at_once = rows_at_once(source, self._batches)
        with open(target, "wb") as file:
            for columns in self._transformed(source):
                stored = dict(one for each in columns.items() for one in _stored(self._spec.get(each[0]), *each))
                dictionaries = {
                    name: feature_dictionary(name, column.dictionary)
                    for name, column in stored.items()
                    if isinstance(column, pa.DictionaryArray)
                }
                batch = pa.RecordBatch.from_pydict(stored)
                for first in range(0, batch.num_rows, at_once):
                    for part in _parts(framed_examples(batch.slice(first, at_once), dictionaries)):
                        file.write(compressor.compress(part))
                rows += batch.num_rows
            file.write(compressor.flush())
        return rows

    def _transformed(self, source: str) -> Iterator[dict[str, pa.Array]]:
        """The features of some examples after others; ids of vocabularies as codes of the distinct ones."""
        if self._columnar is None:
            for serialized in read_records(source, self._batches):
                yield self._by_graph(serialized)
            return
        size, counted = rows_at_once(source, READ_BATCHES)
        rows = min(counted, size * self._batches)
        for block in record_blocks(source, counted):
            features = self._columnar.coded_features(block)
            if features is not None:
                yield {name: _column(values) for name, values in features.items()}
                continue
            serialized = block.serialized()
            for first in range(0, len(block), rows):
                yield self._by_graph(serialized[first : first + rows])

    def _by_graph(self, serialized: tf.Tensor) -> dict[str, pa.Array]:
        with errors_written_to(self._failed):
            self._features = self._features or self._load_graph()
            features = self._features(serialized)
            _check_lengths(features, len(serialized))
        batch = self._converter.convert(features)  # a SparseTensor of several dimensions has columns for its indices
        return dict(zip(batch.schema.names, batch.columns, strict=True))


def read_records(file: str, batches: int = 1) -> Iterator[tf.Tensor]:
    """The records of a TFRecord file, plain or gzipped, in batches: string [batch].

    batches: how many of them to join if the records are short.
    """
    _, rows = rows_at_once(file, batches)
    yield from records_of(file).batch(rows)


def records_of_split(examples: Examples, split: str) -> Iterator[bytes]:
    """The serialized examples of a split, one by one."""
    pattern = io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split))
    for file in sorted(tf.io.gfile.glob(pattern)):
        for batch in read_records(file):
            yield from batch.numpy()


def read_batches(file: str, schema: bytes) -> Iterator[pa.RecordBatch]:
    """The examples of a file, decoded as by TFXIO. schema: serialized."""
    decoder = ExamplesToRecordBatchDecoder(schema)
    for serialized in read_records(file):
        yield decoder.DecodeBatch(serialized.numpy().tolist())


def _values(spec: Mapping[str, Any]) -> float:
    """The values of a transformed example; infinite if a feature has any number of them."""
    fixed = (one.shape if isinstance(one, tf.io.FixedLenFeature) else None for one in spec.values())
    return sum(math.inf if shape is None else math.prod(shape) for shape in fixed)


def _parts(framed: pa.BinaryArray) -> Iterator[memoryview]:
    """The bytes of each BATCH of records: the gzip members do not depend on how many batches were joined."""
    _, offsets, data = framed.buffers()
    edges, letters = np.frombuffer(offsets, np.int32)[: len(framed) + 1], memoryview(data)
    for first in range(0, len(framed), BATCH):
        yield letters[edges[first] : edges[min(first + BATCH, len(framed))]]


def _stored(feature: object, name: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The columns of an example that a feature is parsed from: of a ragged one its values, under a name of their own,
    and the lengths of the rows of each level below the first.
    """
    if not isinstance(feature, tf.io.RaggedFeature):
        yield name, column
        return
    for partition in feature.partitions:
        inner = column.values
        if not isinstance(inner, pa.LargeListArray):  # the innermost levels of fixed length are in the values
            break
        if isinstance(partition, tf.io.RaggedFeature.RowLengths):
            yield partition.key, pa.LargeListArray.from_arrays(column.offsets, pc.list_value_length(inner))
        column = pa.LargeListArray.from_arrays(inner.offsets.take(column.offsets), inner.values)
    yield feature.value_key, column


def _column(values: Values | Coded) -> pa.Array:
    """A feature of a block as a column, coded or not."""
    if not isinstance(values, Coded):
        return pa.array(values)
    codes = pa.array(values.codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array(values.ids), safe=False)


def _check_lengths(features: dict[str, tf.Tensor], examples: int) -> None:
    """Raise TrainingError if a feature does not have one value per example. Only a user's function can do that."""
    for name, values in features.items():
        if (found := values.shape[0]) != examples:
            raise TrainingError(
                f"features.{name}: {found} values came out for {examples} examples. A function must compute one value"
                " for each example from the tensors that it is given: not a fixed number of values, nor a filtered or"
                " reduced tensor"
            )
