"""Distances between the statistics of two sets of data, as TFDV's comparators in a schema ask for them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.dsl.io import fileio
from tfx.types import Artifact, artifact_utils
from tfx.utils import io_utils

from headrace.components.examples import shard_names
from headrace.components.spans import shared_spans
from headrace.components.statistics.combine import (
    Accumulator,
    AccumulatorCombiner,
    StatisticsCombiner,
    combine_directly,
)
from headrace.components.statistics.spans import SpanStatisticsStore, is_whole, load

MEASURES = {
    anomalies_pb2.DriftSkewInfo.Measurement.L_INFTY: "L-infinity",
    anomalies_pb2.DriftSkewInfo.Measurement.JENSEN_SHANNON_DIVERGENCE: "Jensen-Shannon",
    anomalies_pb2.DriftSkewInfo.Measurement.NORMALIZED_ABSOLUTE_DIFFERENCE: "normalized absolute difference",
}


@dataclass(frozen=True)
class DriftDistance:
    """The distance of one column. measure: TFDV's comparator; limit: the largest value that is not drift."""

    column: str
    measure: str
    value: float
    limit: float

    @property
    def too_far(self) -> bool:
        return self.value > self.limit

    def __str__(self) -> str:
        return f"{self.column}: {self.measure} {self.value:.3g}, limit {self.limit:g}"


def measured_distances(
    now: DatasetFeatureStatisticsList,
    before: DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    *,
    skew: bool = False,
) -> list[DriftDistance]:
    """The distances that the drift comparators of a schema ask for, the farthest beyond its limit first.

    Empty if either side has no examples. skew: its skew comparators count instead; `now` is then what was served, and
    `before` what is trained on.
    """
    if not now.datasets[0].num_examples or not before.datasets[0].num_examples:
        return []
    if skew:
        anomalies = tfdv.validate_statistics(before, schema, serving_statistics=now)
    else:
        anomalies = tfdv.validate_statistics(now, schema, previous_statistics=before)
    found = [
        DriftDistance(".".join(info.path.step), MEASURES.get(one.type, "distance"), one.value, one.threshold)
        for info in anomalies.drift_skew_info
        for one in (info.skew_measurements if skew else info.drift_measurements)
    ]
    return sorted(found, key=lambda one: one.limit - one.value)


def span_keys(examples: Artifact) -> dict[str, str]:
    """The key in the store of each span of the examples, in their order; empty for data without spans."""
    keys: dict[str, str] = json.loads(examples.get_string_custom_property("spans") or "{}")
    return keys


def statistics_of_spans(
    names: Collection[str], examples: Artifact, split: str, store: str, code: str
) -> DatasetFeatureStatisticsList:
    """The statistics of one split of some spans, from accumulators in the store, else from their shards.

    Args:
        names: the spans, at least one.
        examples: of all spans.
        split: the split.
        store: the folder of statistics stored by span, "" for none.
        code: a digest of the code that computed them.
    """
    keys, combiner = span_keys(examples), StatisticsCombiner()
    stored = SpanStatisticsStore(Path(store), code, keys, shared_spans.current())
    if store:
        stored.fetch(names)
    total = combiner.create_accumulator()
    missing = [name for name in names if not (store and is_whole(stored.file(name, split)))]
    for name in names:
        if name not in missing:
            total = combiner.merge_accumulators([total, load(stored.file(name, split))])
    files = fileio.glob(io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split)))
    shards = shard_names.by_span(sorted(files), keys) if missing else {}
    computed: list[Accumulator] = []
    own = {name: shards.get(name, []) for name in missing}
    combine_directly(own, AccumulatorCombiner(), lambda found: computed.append(found[1]))
    return combiner.extract_output(combiner.merge_accumulators([total, *computed]))
