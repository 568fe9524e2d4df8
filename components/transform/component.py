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
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import metadata_io
from tfx import types
from tfx.components.transform import component, executor_utils
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.types import artifact_utils
from tfx.utils import io_utils

from headrace.common.errors import TrainingError
from headrace.components.beam_pipelines import is_small
from headrace.components.transform.columns_analysis import analyze_columns, uses_tft
from headrace.components.transform.example_errors import training_error_from
from headrace.components.transform.shards import Learned, TransformShard, TransformShards
from headrace.components.transform.task import AnalysisTask
from headrace.components.transform.tft_analysis import analyze_by_tft
from headrace.configs.schema.transform import Materialize
from headrace.trainer import columns
from headrace.trainer.input.transformed_columns import columns_schema, file_name
from headrace.trainer.preprocessing import preprocessing_fn
from headrace.trainer.sections import TrainerSections

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
        files, keys = _files(examples, splits.analyze), _span_keys(examples)
        task = AnalysisTask(files, schema, exec_properties, graph, keys)
        learned = self._analyze(task)
        executor_utils.SetSplitNames(splits.transform, transformed)
        as_columns = _columns_schema(task)
        transform = functools.partial(
            TransformShards, graph, schema.SerializeToString(), learned=learned, columns=as_columns
        )
        for source, target in zip(examples, transformed, strict=False):
            self._transform(_shards(source, target, splits.transform, as_columns is not None), target, transform)

    def _analyze(self, task: AnalysisTask) -> Learned | None:
        """Write the graph. Returns what is needed to compute the features without it, if they are feature columns."""
        sections, learned = _sections(task), None
        if sections is None or uses_tft(sections, task):
            analyze_by_tft(task, self._make_beam_pipeline)
        else:
            make_pipeline = None if is_small(self, task.files) else self._make_beam_pipeline
            learned = sections.to_json(), analyze_columns(task, sections, make_pipeline)
        metadata_io.write_metadata(
            tft.DatasetMetadata(task.schema), f"{task.graph}/{tft.TFTransformOutput.RAW_METADATA_DIR}"
        )
        if tf.io.gfile.exists(task.temporary):
            tf.io.gfile.rmtree(task.temporary)
        return learned

    def _transform(
        self, shards: list[TransformShard], target: types.Artifact, make: Callable[..., TransformShards]
    ) -> None:
        counted, failed = Path(target.uri) / ".rows", Path(target.uri) / ".failed"
        transform = make(failed=failed)
        if is_small(self, [shard.source for shard in shards]):
            with training_error_from(failed):
                transform.setup()
                rows = _add([count for shard in shards for count in transform.process(shard)])
            target.set_string_custom_property("rows", json.dumps(rows))
            return
        with training_error_from(failed), self._make_beam_pipeline() as pipeline:
            _ = (
                pipeline
                | "Shards" >> beam.Create(shards)
                | "Spread" >> beam.Reshuffle()
                | "Transform" >> beam.ParDo(transform)
                | "CountRows" >> beam.CombineGlobally(_add)
                | "WriteRows" >> beam.Map(lambda rows: counted.write_text(json.dumps(rows), encoding="utf-8"))
            )
        target.set_string_custom_property("rows", counted.read_text(encoding="utf-8"))
        counted.unlink()


class Transform(component.Transform):
    """TFX's Transform with the executor above."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self, *, store: str = "", code: str = "", materialize: Materialize = "always", **parameters: Any
    ) -> None:
        """Add three parameters to TFX's.

        store: the folder in which the analysis is stored by span, "" for none; code: a digest of the code that
        analyzes, without the user's, whose digest is in `custom_config`; materialize: as `transform.materialize`, but
        `auto` where nothing reads TFRecords.
        """
        super().__init__(**parameters)
        self.spec.exec_properties.update(store=store, code=code, materialize=materialize)


def _sections(task: AnalysisTask) -> TrainerSections | None:
    """The feature columns; None for a user's preprocessing_fn."""
    ours = f"{preprocessing_fn.__module__}.{preprocessing_fn.__name__}"
    if task.properties.get("module_file") or task.properties.get("preprocessing_fn") != ours:
        return None
    return TrainerSections.from_json(task.custom_config["config"])


def _columns_schema(task: AnalysisTask) -> pa.Schema | None:
    """The schema of the files of columns; None to write TFRecords. Raises TrainingError if there must be columns."""
    materialize = task.properties.get("materialize", "always")
    if materialize == "always":
        return None
    output, sections = tft.TFTransformOutput(task.graph), _sections(task)
    built = {} if sections is None else columns.build(sections.features)
    size = columns.vocabulary_size(output)
    small = {name for name, column in built.items() if 0 < (column.num_categories(size) or 0) < 1 << 31}
    schema = columns_schema(output.transformed_feature_spec(), small)
    if schema is None and materialize == "never":
        raise TrainingError(
            "transform.materialize: `never` is not possible with a tf.io.SparseFeature, or a feature that is ragged in"
            " several dimensions, which only tf.Examples hold; set it to `auto`"
        )
    return schema


def _span_keys(examples: list[types.Artifact]) -> dict[str, str]:
    """The key of each span, by its name; empty if the examples have no spans."""
    text = examples[0].get_string_custom_property("spans") if len(examples) == 1 else ""
    spans: dict[str, str] = json.loads(text or "{}")
    return spans


def _files(examples: list[types.Artifact], splits: Sequence[str]) -> list[str]:
    uris = [uri for split in splits for uri in artifact_utils.get_split_uris(examples, split)]
    return [file for uri in uris for file in sorted(tf.io.gfile.glob(io_utils.all_files_pattern(uri)))]


def _shards(
    source: types.Artifact, target: types.Artifact, splits: Sequence[str], as_columns: bool
) -> list[TransformShard]:
    shards = []
    for split in splits:
        files, (folder,) = _files([source], [split]), artifact_utils.get_split_uris([target], split)
        for number, file in enumerate(files):
            records = f"transformed_examples-{number:05d}-of-{len(files):05d}.gz"
            name = file_name(number, len(files)) if as_columns else records
            shards.append(TransformShard(split, file, f"{folder}/{name}"))
    return shards


def _add(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
