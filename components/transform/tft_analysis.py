"""Transform's analysis by TensorFlow Transform: of a user's preprocessing_fn, and of functions with TFT's analyzers.

TFT builds Beam stages for each analyzer, and traces, saves and loads the graph several times, so feature columns
without such functions are analyzed without it (`columns_analysis`), with the same results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow_transform.beam as tft_beam
from tfx.components.util import udf_utils
from tfx_bsl.tfxio import tf_example_record

from headrace.components.examples import shard_names
from headrace.components.span_analysis import AnalyzeBySpan
from headrace.components.transform.example_errors import shorten_analysis_error
from headrace.components.transform.shards import read_batches
from headrace.components.transform.task import AnalysisTask


def analyze_by_tft(task: AnalysisTask, make_pipeline: Callable[[], beam.Pipeline]) -> None:
    """Write the transform function of a preprocessing_fn."""
    tfxio = tf_example_record.TFExampleBeamRecord("tfrecords_gzip", ["Transform"], schema=task.schema)
    function = _preprocessing_fn(task)
    reader = functools.partial(read_batches, schema=task.schema.SerializeToString())
    stored = task.cache() if task.by_span else None
    with (
        shorten_analysis_error(),
        make_pipeline() as pipeline,
        tft_beam.Context(temp_dir=task.temporary, force_tf_compat_v1=False),
    ):
        if stored is not None:
            transform_fn = AnalyzeBySpan(function, tfxio, stored, reader).analyze(pipeline, task.files)
        else:
            shards = pipeline | "Shards" >> beam.Create(task.files) | "Spread" >> beam.Reshuffle()
            batches = shards | "Read" >> beam.FlatMap(reader).with_output_types(pa.RecordBatch)
            transform_fn = (batches, tfxio.TensorAdapterConfig()) | "Analyze" >> tft_beam.AnalyzeDataset(function)
        _ = transform_fn | "WriteTransformFn" >> tft_beam.WriteTransformFn(task.graph)
    if stored is not None:
        stored.publish(shard_names.by_span(task.files, task.keys))


def _preprocessing_fn(task: AnalysisTask) -> Callable[..., Any]:
    function = udf_utils.get_fn(task.properties, "preprocessing_fn")
    custom_config = {**task.custom_config, "by_span": "yes"} if task.by_span else task.custom_config
    return functools.partial(function, custom_config=custom_config)
