"""StatisticsGen from whole batches: the statistics that TFX's component computes, in a fraction of its time.

TFX sends every batch and each value of a text column through a Beam graph of its own for each split. Here a shard is
read, decoded and summed up in batches; Beam only spreads the shards and adds up what they gave.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx import types
from tfx.components.statistics_gen import component
from tfx.components.statistics_gen import executor as stock
from tfx.components.util import examples_utils
from tfx.dsl.components.base import executor_spec
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.utils import io_utils, json_utils

from headrace.components.beam_pipelines import always_beam
from headrace.components.example_gen import shared_spans
from headrace.components.statistics.combine import AddUp, Shards, Statistics, Write, add_up, to_files
from headrace.components.statistics.spans import KeptSums, by_span

SMALL = 4 << 20
"""Bytes of gzipped examples that take a third of a second; starting Beam would add half as much."""
OPTIONS = ("stats_options_json", "sample_rate_by_split", "sharded_stats_output")

Artifacts = dict[str, list[types.Artifact]]


class Executor(stock.Executor):
    """Does what TFX's does, from the same inputs to the same outputs.

    Where a schema or options of TFDV are given, or the examples are no plain tf.Examples, TFX's own way is taken.
    """

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:  # noqa: N802
        """Write FeatureStats.pb for each split that is not excluded."""
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        splits = _splits(examples, exec_properties)
        optioned = input_dict.get("schema") or any(exec_properties.get(option) for option in OPTIONS)
        if optioned or not splits or not _plain(examples):
            super().Do(input_dict, output_dict, exec_properties)
            return
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        _describe(statistics, splits, examples.span)
        shards = {split: _files(examples, split) for split in splits}
        folders = {split: artifact_utils.get_split_uri([statistics], split) for split in splits}
        targets = {split: f"{folder}/{stock.DEFAULT_FILE_NAME}" for split, folder in folders.items()}
        keys = json.loads(examples.get_string_custom_property("spans") or "{}")
        if keys and exec_properties.get("store"):
            kept = KeptSums(Path(exec_properties["store"]), exec_properties["code"], keys, shared_spans.current())
            by_span(shards, kept, self._add_up, to_files(targets))
        else:
            self._add_up(shards, Statistics(), to_files(targets))

    def _add_up(self, shards: Shards, statistics: Statistics, write: Write) -> None:
        if _size(shards) <= SMALL and not always_beam(self):
            add_up(shards, statistics, write)
            return
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | AddUp(shards, statistics, write)


class StatisticsGen(component.StatisticsGen):
    """TFX's StatisticsGen with the executor above."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(self, examples: types.BaseChannel, store: str = "", code: str = "") -> None:
        """`store`: the folder where sums of spans are kept between runs, "" for nowhere; `code`: a digest of the code
        that adds them up.
        """
        super().__init__(examples=examples)
        self.spec.exec_properties.update(store=store, code=code)


def _splits(examples: types.Artifact, exec_properties: dict[str, Any]) -> list[str]:
    excluded = json_utils.loads(exec_properties.get("exclude_splits") or "null") or []
    return [name for name in artifact_utils.decode_split_names(examples.split_names) if name not in excluded]


def _plain(examples: types.Artifact) -> bool:
    """Whether they are tf.Examples in TFRecord files, a folder for each split. The format is called "tfrecords_gzip"
    without gzip too: TFX knows no other, and its readers go by the names of the files.
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


def _size(shards: Shards) -> int:
    return sum(tf.io.gfile.stat(file).length for files in shards.values() for file in files)
