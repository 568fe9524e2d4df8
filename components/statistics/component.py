"""StatisticsGen from whole batches: the statistics of TFX's component in a fraction of its time.

For each split, TFX sends every batch and every value of a text column through a Beam graph of its own. Here a shard is
read, decoded and accumulated in batches; Beam only distributes the shards and merges their accumulators.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.statistics_gen import component
from tfx.components.statistics_gen import executor as stock
from tfx.components.util import examples_utils
from tfx.dsl.components.base import executor_spec
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.utils import io_utils, json_utils

from headrace.components.beam_pipelines import workers_here
from headrace.components.spans import shared_spans
from headrace.components.statistics.combine import (
    CombineShards,
    Shards,
    StatisticsCombiner,
    Write,
    combine_directly,
    to_files,
)
from headrace.components.statistics.spans import SpanStatisticsStore, combine_by_span

OPTIONS = ("stats_options_json", "sample_rate_by_split", "sharded_stats_output")

Artifacts = dict[str, list[types.Artifact]]


class Executor(stock.Executor):
    """Replaces TFX's executor: the same inputs and outputs.

    TFX's executor runs if a schema or TFDV options are given, or if the examples are not plain tf.Examples.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:  # noqa: N802
        """Write FeatureStats.pb for each split that is not excluded."""
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        splits = _splits(examples, exec_properties)
        has_options = input_dict.get("schema") or any(exec_properties.get(option) for option in OPTIONS)
        if has_options or not splits or not _is_plain(examples):
            super().Do(input_dict, output_dict, exec_properties)
            return
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        _describe(statistics, splits, examples.span)
        shards = {split: _files(examples, split) for split in splits}
        folders = {split: artifact_utils.get_split_uri([statistics], split) for split in splits}
        targets = {split: f"{folder}/{stock.DEFAULT_FILE_NAME}" for split, folder in folders.items()}
        keys = json.loads(examples.get_string_custom_property("spans") or "{}")
        if keys and exec_properties.get("store"):
            store, code = Path(exec_properties["store"]), exec_properties["code"]
            stored = SpanStatisticsStore(store, code, keys, shared_spans.current())
            combine_by_span(shards, stored, self._combine, to_files(targets))
        else:
            self._combine(shards, StatisticsCombiner(), to_files(targets))

    def _combine(self, shards: Shards, combiner: StatisticsCombiner, write: Write) -> None:
        if workers := workers_here(self):
            combine_directly(shards, combiner, write, workers)
            return
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | CombineShards(shards, combiner, write)


class StatisticsGen(component.StatisticsGen):
    """TFX's StatisticsGen with the executor above."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(self, examples: types.BaseChannel, store: str = "", code: str = "") -> None:
        """store: the folder in which accumulators are stored by span, "" for none; code: a digest of the code that
        computes them.
        """
        super().__init__(examples=examples)
        self.spec.exec_properties.update(store=store, code=code)


def _splits(examples: types.Artifact, exec_properties: dict[str, Any]) -> list[str]:
    excluded = json_utils.loads(exec_properties.get("exclude_splits") or "null") or []
    return [name for name in artifact_utils.decode_split_names(examples.split_names) if name not in excluded]


def _is_plain(examples: types.Artifact) -> bool:
    """Whether they are tf.Examples in TFRecord files, in a folder for each split.

    The format is called "tfrecords_gzip" also without gzip: TFX has no other name, and its readers go by file names.
    """
    return (
        examples_utils.get_payload_format(examples) == example_gen_pb2.FORMAT_TF_EXAMPLE
        and examples_utils.get_file_format(examples) == "tfrecords_gzip"
        and not examples.has_custom_property(examples_utils.CUSTOM_SPLIT_PATTERN_PROPERTY_NAME)
    )


def _describe(statistics: types.Artifact, splits: list[str], span: int) -> None:
    """Set the properties that TFX's executor sets."""
    statistics.split_names = artifact_utils.encode_split_names(splits)
    statistics.span = span
    statistics.set_string_custom_property(stock.STATS_DASHBOARD_LINK, "")
    rates = json_utils.dumps(dict.fromkeys(splits, 1.0))
    statistics.set_json_value_custom_property(stock.SAMPLE_RATE_BY_SPLIT_PROPERTY_NAME, rates)


def _files(examples: types.Artifact, split: str) -> list[str]:
    return sorted(fileio.glob(io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split))))
