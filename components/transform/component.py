"""Transform over whole shards: the graph and examples of TFX's Transform, without a Beam element for each row.

TFX's executor passes each record through Beam's readers and writers, twice for the split that is analyzed. Here a shard
is read, decoded, transformed, encoded and written in batches; Beam distributes the shards.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
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
from tfx_bsl.tfxio import tf_example_record

from headrace.components.example_gen.shards import shard_names
from headrace.components.example_gen.spans import shared_spans
from headrace.components.span_analysis import AnalysisCache, AnalyzeBySpan
from headrace.components.transform.shards import (
    TransformShard,
    TransformShards,
    read_batches,
    shorten_analysis_error,
    training_error_from,
)

Artifacts = dict[str, list[types.Artifact]]


class Executor(base_beam_executor.BaseBeamExecutor):
    """Replaces TFX's executor with `disable_statistics=True`: the same inputs and outputs."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:  # noqa: N802
        """Analyze the configured splits (by default train), write the graph, and transform all splits."""
        executor_utils.MatchNumberOfTransformedExamplesArtifacts(input_dict, output_dict)
        examples, transformed = input_dict["examples"], output_dict.get("transformed_examples", [])
        splits = executor_utils.ResolveSplitsConfig(exec_properties.get("splits_config"), examples)
        schema_file = io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict["schema"]))
        schema = io_utils.parse_pbtxt_file(schema_file, schema_pb2.Schema())
        graph = artifact_utils.get_single_uri(output_dict["transform_graph"])
        with shorten_analysis_error():
            self._analyze(_files(examples, splits.analyze), schema, exec_properties, graph, _span_keys(examples))
        executor_utils.SetSplitNames(splits.transform, transformed)
        for source, target in zip(examples, transformed, strict=False):
            self._transform(_shards(source, target, splits.transform), schema, graph, target)

    def _analyze(
        self, files: list[str], schema: schema_pb2.Schema, properties: dict[str, Any], graph: str, keys: dict[str, str]
    ) -> None:
        tfxio = tf_example_record.TFExampleBeamRecord("tfrecords_gzip", ["Transform"], schema=schema)
        by_span = bool(keys and properties.get("store"))
        function = _preprocessing_fn(properties, by_span=by_span)
        temporary, reader = f"{graph}/.temp_path", functools.partial(read_batches, schema=schema.SerializeToString())
        stored = None
        with (
            self._make_beam_pipeline() as pipeline,
            tft_beam.Context(temp_dir=temporary, force_tf_compat_v1=False),
        ):
            if by_span:
                store, shared = Path(properties["store"]), shared_spans.current()
                stored = AnalysisCache(store, _analysis_identity(properties, schema), keys, shared)
                transform_fn = AnalyzeBySpan(function, tfxio, stored, reader).analyze(pipeline, files)
            else:
                shards = pipeline | "Shards" >> beam.Create(files) | "Spread" >> beam.Reshuffle()
                batches = shards | "Read" >> beam.FlatMap(reader).with_output_types(pa.RecordBatch)
                transform_fn = (batches, tfxio.TensorAdapterConfig()) | "Analyze" >> tft_beam.AnalyzeDataset(function)
            _ = transform_fn | "WriteTransformFn" >> tft_beam.WriteTransformFn(graph)
        if stored is not None:
            stored.publish(shard_names.by_span(files, keys))
        metadata_io.write_metadata(tft.DatasetMetadata(schema), f"{graph}/{tft.TFTransformOutput.RAW_METADATA_DIR}")
        tf.io.gfile.rmtree(temporary)

    def _transform(
        self, shards: list[TransformShard], schema: schema_pb2.Schema, graph: str, target: types.Artifact
    ) -> None:
        counted, failed = Path(target.uri) / ".rows", Path(target.uri) / ".failed"
        with training_error_from(failed), self._make_beam_pipeline() as pipeline:
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
        """Add two parameters to TFX's.

        store: the folder in which the analysis is stored by span, "" for none; code: a digest of the code that
        analyzes, without the user's, whose digest is in `custom_config`.
        """
        super().__init__(**parameters)
        self.spec.exec_properties.update(store=store, code=code)


def _preprocessing_fn(exec_properties: dict[str, Any], *, by_span: bool) -> Callable[..., Any]:
    function = udf_utils.get_fn(exec_properties, "preprocessing_fn")
    custom_config = json_utils.loads(exec_properties["custom_config"])
    return functools.partial(function, custom_config={**custom_config, "by_span": "yes"} if by_span else custom_config)


def _analysis_identity(exec_properties: dict[str, Any], schema: schema_pb2.Schema) -> str:
    """What the stored analysis of a span depends on, apart from the span and the graph, which TFT's keys cover."""
    custom_config = json_utils.loads(exec_properties["custom_config"])
    sources = {name: text for name, text in custom_config.items() if name != "config"}
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    splits = exec_properties.get("splits_config")
    return json.dumps([exec_properties["code"], sources, str(sorted(spec.items())), splits], sort_keys=True)


def _span_keys(examples: list[types.Artifact]) -> dict[str, str]:
    """The key of each span, by its name; empty if the examples have no spans."""
    text = examples[0].get_string_custom_property("spans") if len(examples) == 1 else ""
    spans: dict[str, str] = json.loads(text or "{}")
    return spans


def _files(examples: list[types.Artifact], splits: Sequence[str]) -> list[str]:
    uris = [uri for split in splits for uri in artifact_utils.get_split_uris(examples, split)]
    return [file for uri in uris for file in sorted(tf.io.gfile.glob(io_utils.all_files_pattern(uri)))]


def _shards(source: types.Artifact, target: types.Artifact, splits: Sequence[str]) -> list[TransformShard]:
    shards = []
    for split in splits:
        files, (folder,) = _files([source], [split]), artifact_utils.get_split_uris([target], split)
        for number, file in enumerate(files):
            name = f"transformed_examples-{number:05d}-of-{len(files):05d}.gz"
            shards.append(TransformShard(split, file, f"{folder}/{name}"))
    return shards


def _add(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
