"""tf.Transform over whole shards: the same graph and examples as TFX's Transform, without a Beam element for each row.

TFX's executor passes each record through Beam's readers and writers, twice for the split that is analyzed. Here a shard
is read, decoded, transformed, encoded and written in batches; Beam spreads the shards.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import metadata_io, schema_utils
from tfx import types
from tfx.components.transform import component, executor_utils
from tfx.components.util import udf_utils
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.types import artifact_utils
from tfx.utils import io_utils, json_utils
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.tfxio import tf_example_record

from headrace.components.example_gen import shard_names, shared_spans
from headrace.components.example_gen.packing import Packing
from headrace.components.example_gen.tfrecord import framed_examples
from headrace.components.span_analysis import AnalyzeBySpan, KeptAnalysis
from headrace.configs.errors import TrainingError

BATCH = 2048
"""Examples that pass the graph at once, at most."""
BATCH_BYTES = 1 << 26
"""Bytes of examples that pass the graph at once, about: images are long."""
PEEKED = 16
"""Examples of a file that tell how long they are."""

Artifacts = dict[str, list[types.Artifact]]


class Shard(NamedTuple):
    """A file of examples, and where its transformed examples go."""

    split: str
    source: str
    target: str


class Executor(base_beam_executor.BaseBeamExecutor):
    """Does what TFX's does with `disable_statistics=True`, from the same inputs to the same outputs."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:  # noqa: N802
        """Analyze the splits named for it (train, if none), write the graph, then transform."""
        executor_utils.MatchNumberOfTransformedExamplesArtifacts(input_dict, output_dict)
        examples, transformed = input_dict["examples"], output_dict.get("transformed_examples", [])
        splits = executor_utils.ResolveSplitsConfig(exec_properties.get("splits_config"), examples)
        schema_file = io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict["schema"]))
        schema = io_utils.parse_pbtxt_file(schema_file, schema_pb2.Schema())
        graph = artifact_utils.get_single_uri(output_dict["transform_graph"])
        with _example_told():
            self._analyze(_files(examples, splits.analyze), schema, exec_properties, graph, _spans(examples))
        executor_utils.SetSplitNames(splits.transform, transformed)
        for source, target in zip(examples, transformed, strict=False):
            self._transform(_shards(source, target, splits.transform), schema, graph, target)

    def _analyze(
        self, files: list[str], schema: schema_pb2.Schema, properties: dict[str, Any], graph: str, keys: dict[str, str]
    ) -> None:
        tfxio = tf_example_record.TFExampleBeamRecord("tfrecords_gzip", ["Transform"], schema=schema)
        by_span = bool(keys and properties.get("store"))
        function = _preprocessing_fn(properties, by_span=by_span)
        temporary, reader = f"{graph}/.temp_path", functools.partial(read, schema=schema.SerializeToString())
        kept = None
        with (
            self._make_beam_pipeline() as pipeline,
            tft_beam.Context(temp_dir=temporary, force_tf_compat_v1=False),
        ):
            if by_span:
                store, shared = Path(properties["store"]), shared_spans.current()
                kept = KeptAnalysis(store, _meaning(properties, schema), keys, shared)
                transform_fn = AnalyzeBySpan(function, tfxio, kept, reader).analyze(pipeline, files)
            else:
                spread = pipeline | "Shards" >> beam.Create(files) | "Spread" >> beam.Reshuffle()
                batches = spread | "Read" >> beam.FlatMap(reader).with_output_types(pa.RecordBatch)
                transform_fn = (batches, tfxio.TensorAdapterConfig()) | "Analyze" >> tft_beam.AnalyzeDataset(function)
            _ = transform_fn | "WriteTransformFn" >> tft_beam.WriteTransformFn(graph)
        if kept is not None:
            kept.publish(shard_names.by_span(files, keys))
        metadata_io.write_metadata(tft.DatasetMetadata(schema), f"{graph}/{tft.TFTransformOutput.RAW_METADATA_DIR}")
        tf.io.gfile.rmtree(temporary)

    def _transform(self, shards: list[Shard], schema: schema_pb2.Schema, graph: str, target: types.Artifact) -> None:
        counted, failed = Path(target.uri) / ".rows", Path(target.uri) / ".failed"
        with _error_told_in(failed), self._make_beam_pipeline() as pipeline:
            _ = (
                pipeline
                | "Shards" >> beam.Create(shards)
                | "Spread" >> beam.Reshuffle()
                | "Transform" >> beam.ParDo(TransformShards(graph, schema.SerializeToString(), failed))
                | "CountRows" >> beam.CombineGlobally(_add)
                | "WriteRows" >> beam.Map(lambda rows: counted.write_text(json.dumps(rows), encoding="utf-8"))
            )
        target.set_string_custom_property("rows", counted.read_text(encoding="utf-8"))
        counted.unlink()


class Transform(component.Transform):
    """TFX's Transform with the executor above."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(self, *, store: str = "", code: str = "", **parameters: Any) -> None:
        """`store`: the folder where the analysis of spans is kept between runs, "" for nowhere; `code`: a digest of the
        code that analyzes, but for what `custom_config` tells of; and TFX's parameters.
        """
        super().__init__(**parameters)
        self.spec.exec_properties.update(store=store, code=code)


class TransformShards(beam.DoFn):
    """Shards to files of transformed examples, and the number of rows of each split. schema: serialized, of the raw
    examples; failed: the file that takes the message of a TrainingError.
    """

    def __init__(self, graph: str, schema: bytes, failed: Path) -> None:
        self._graph, self._schema, self._failed = graph, schema, failed

    def setup(self) -> None:
        """Load the graph."""
        spec = schema_utils.schema_as_feature_spec(schema_pb2.Schema.FromString(self._schema)).feature_spec
        output = tft.TFTransformOutput(self._graph)
        layer = output.transform_features_layer()
        # where several values of an example count, the column has a name of its own
        self._keys = {name: getattr(one, "value_key", name) for name, one in output.transformed_feature_spec().items()}
        self._features = tf.function(
            lambda serialized: layer(tf.io.parse_example(serialized, spec)),
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,  # there is nothing to convert, and looking for it takes half a second
        )

    def process(self, shard: Shard) -> Iterator[dict[str, int]]:
        """Write one shard."""
        Path(shard.target).parent.mkdir(parents=True, exist_ok=True)
        with open(shard.target, "wb") as file:
            yield {shard.split: self._write(shard.source, file)}

    def _write(self, source: str, file: BinaryIO) -> int:
        stream, rows = Packing().stream(), 0
        for serialized in records(source):
            try:
                features = self._features(serialized)
                _check_lengths(features, len(serialized))
            except (TrainingError, tf.errors.InvalidArgumentError) as error:
                self._failed.write_text(_told(error), encoding="utf-8")
                raise
            columns = {self._keys[name]: _array(values) for name, values in features.items()}
            batch = pa.RecordBatch.from_pydict(columns)
            file.write(stream.compress(memoryview(framed_examples(batch).buffers()[2])))
            rows += batch.num_rows
        file.write(stream.flush())
        return rows


def _told(error: Exception) -> str:
    """What is wrong with an example. A feature's own check speaks of the feature; what TensorFlow's operations say
    stands behind the places that it names.
    """
    if isinstance(error, TrainingError):
        return str(error)
    text = str(error)
    own = re.search(r"features\.\w+: [^\n\]]*", text)
    if own:
        return own[0].replace("\\'", "'").strip()
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and line.strip() != "<stack traces unavailable>"
    ]
    said = [line for line in lines if not re.match(r"Graph execution|Detected at|File |\[\[|\(\d+\)|def |\d+ ", line)]
    return f"an example cannot be transformed: {said[0] if said else error}"


@contextmanager
def _example_told() -> Iterator[None]:
    """Raise a TrainingError for an example that the analysis cannot take: TFT's own error shows the whole batch."""
    try:
        yield
    except ValueError as error:
        said = re.search(r'trying to apply the transformation: "(.*?)"\.\s+Batch instances', str(error), re.DOTALL)
        if said is None:
            raise
        raise TrainingError(_told(ValueError(said[1]))) from error


@contextmanager
def _error_told_in(file: Path) -> Iterator[None]:
    """Raise the TrainingError whose message is in the file: Beam's threads make another kind of each error."""
    try:
        yield
    except Exception:
        if file.exists():
            message = file.read_text(encoding="utf-8")
            file.unlink()
            raise TrainingError(message) from None
        raise


def _array(values: tf.Tensor | tf.RaggedTensor) -> pa.Array:
    """[batch], [batch, values] or more dimensions as a column."""
    if isinstance(values, tf.RaggedTensor):
        splits = values.row_splits.numpy().astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(splits), pa.array(values.flat_values.numpy()))
    array = values.numpy()
    if array.ndim == 1:
        return pa.array(array)
    splits = np.arange(len(array) + 1, dtype=np.int32) * (array[:1].size or 1)
    return pa.ListArray.from_arrays(pa.array(splits), pa.array(array.ravel()))


def _check_lengths(features: dict[str, tf.Tensor], examples: int) -> None:
    """Raise TrainingError if a feature does not have one value for each example; only a user's function can do that."""
    for name, values in features.items():
        if (found := values.shape[0]) != examples:
            raise TrainingError(
                f"features.{name}: {found} values came out for {examples} examples. A function must compute one"
                " value for each example from the tensors that it is given: not a fixed number of them, nor a filtered"
                " or reduced tensor"
            )


def records(file: str) -> Iterator[tf.Tensor]:
    """The records of a TFRecord file, plain or gzip, in batches: string [batch]."""
    every = tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else "")
    longest = max((len(record.numpy()) for record in every.take(PEEKED)), default=1)
    yield from every.batch(max(1, min(BATCH, BATCH_BYTES // longest)))


def read(file: str, schema: bytes) -> Iterator[pa.RecordBatch]:
    """The examples of a file as TFXIO decodes them."""
    decoder = ExamplesToRecordBatchDecoder(schema)
    for serialized in records(file):
        yield decoder.DecodeBatch(serialized.numpy().tolist())


def _preprocessing_fn(exec_properties: dict[str, Any], *, by_span: bool) -> Callable[..., Any]:
    function = udf_utils.get_fn(exec_properties, "preprocessing_fn")
    custom_config = json_utils.loads(exec_properties["custom_config"])
    return functools.partial(function, custom_config={**custom_config, "by_span": "yes"} if by_span else custom_config)


def _meaning(exec_properties: dict[str, Any], schema: schema_pb2.Schema) -> str:
    """All but the graph and the span that decides what is kept of a span; TFT itself tells graphs apart."""
    told = json_utils.loads(exec_properties["custom_config"])
    sources = {name: text for name, text in told.items() if name != "config"}
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    splits = exec_properties.get("splits_config")
    return json.dumps([exec_properties["code"], sources, str(sorted(spec.items())), splits], sort_keys=True)


def _spans(examples: list[types.Artifact]) -> dict[str, str]:
    """The key of each span's name; none where the examples do not come in spans."""
    told = examples[0].get_string_custom_property("spans") if len(examples) == 1 else ""
    spans: dict[str, str] = json.loads(told or "{}")
    return spans


def _files(examples: list[types.Artifact], splits: Sequence[str]) -> list[str]:
    uris = [uri for split in splits for uri in artifact_utils.get_split_uris(examples, split)]
    return [file for uri in uris for file in sorted(tf.io.gfile.glob(io_utils.all_files_pattern(uri)))]


def _shards(source: types.Artifact, target: types.Artifact, splits: Sequence[str]) -> list[Shard]:
    shards = []
    for split in splits:
        files, (folder,) = _files([source], [split]), artifact_utils.get_split_uris([target], split)
        for number, file in enumerate(files):
            name = f"transformed_examples-{number:05d}-of-{len(files):05d}.gz"
            shards.append(Shard(split, file, f"{folder}/{name}"))
    return shards


def _add(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
