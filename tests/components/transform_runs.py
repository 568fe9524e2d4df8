"""Runs of Transform's executors, ours or TFX's, over shards of a test's own."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import beam_here
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import artifact_utils, standard_artifacts

Artifacts = dict[str, list[Any]]


def written(folder: Path, schema: str, shards: Mapping[str, Sequence[Sequence[bytes]]]) -> Artifacts:
    """What Transform reads. schema: a text of it; shards: the serialized examples of each shard, by split."""
    for split, made in shards.items():
        (folder / "examples" / f"Split-{split}").mkdir(parents=True)
        for number, records in enumerate(made):
            name = f"data_tfrecord-{number:05d}-of-{len(made):05d}.gz"
            with tf.io.TFRecordWriter(str(folder / "examples" / f"Split-{split}" / name), "GZIP") as file:
                for record in records:
                    file.write(record)
    (folder / "schema").mkdir()
    message = text_format.Parse(schema, schema_pb2.Schema())
    (folder / "schema" / "schema.pbtxt").write_text(text_format.MessageToString(message))
    examples, schemas = standard_artifacts.Examples(), standard_artifacts.Schema()
    examples.uri, schemas.uri = str(folder / "examples"), str(folder / "schema")
    examples.split_names = artifact_utils.encode_split_names(list(shards))
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    return {"examples": [examples], "schema": [schemas]}


def run(
    executor: Any,
    inputs: Artifacts,
    folder: Path,
    config: dict[str, Any],
    *,
    args: Sequence[str] = (),
    **properties: Any,
) -> Artifacts:
    outputs: Artifacts = {}
    for key, kind in (
        ("transform_graph", standard_artifacts.TransformGraph), ("transformed_examples", standard_artifacts.Examples)
    ):  # fmt: skip
        artifact = kind()
        artifact.uri = str(folder / key)
        outputs[key] = [artifact]
    context = executor.Context(make_beam_pipeline_fn=lambda: beam_here.pipeline(*args))
    exec_properties = {
        "preprocessing_fn": "headrace.trainer.preprocessing.preprocessing_fn",
        "custom_config": json.dumps({"config": json.dumps(config)}),
        "disable_statistics": 1,
        "force_tf_compat_v1": 0,
    }
    executor(context).Do(inputs, outputs, exec_properties | properties)
    return outputs
