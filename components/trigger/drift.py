"""Drift of the newest span from the data that the blessed model was trained on, by TFDV's comparators."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
from tfx.types import Artifact, artifact_utils

from headrace.components.schema import read_schema
from headrace.components.spans.split_spans import RoleOfSpans
from headrace.components.statistics.distances import (
    DriftDistance,
    measured_distances,
    span_keys,
    statistics_of_spans,
)
from headrace.components.trigger.decision import Decision, TrainingRecord
from headrace.configs.schema.schedule import DriftConfig

logger = logging.getLogger(__name__)

SPLIT = "train"
NAMED_COLUMNS = 3
"""How many columns a reason names."""


def decide_by_drift(  # noqa: PLR0913
    *,
    name: str,
    examples: Artifact,
    statistics: Artifact,
    schema: Artifact,
    trained: TrainingRecord,
    limits: DriftConfig,
    columns: Sequence[str],
    store: str,
    code: str,
) -> Decision:
    """Whether the newest span drifted from the blessed model's data.

    Args:
        name: the newest span's name, "" for data without spans.
        examples: of all spans.
        statistics: of all spans.
        schema: of the data.
        trained: the record of earlier trainings.
        limits: the largest distances that are not drift.
        columns: the columns to compare.
        store: the folder of statistics stored by span, "" for none.
        code: a digest of the code that computed them.
    """
    before = trained.blessed
    file = Path(before.statistics, f"Split-{SPLIT}", DEFAULT_FILE_NAME) if before else None
    if file is None or not file.exists():
        return Decision("yes", "the statistics of the blessed model's data are gone")
    split = RoleOfSpans.of(examples).split_with(name)
    newest = newest_statistics(name, split, examples, statistics, store, code)
    if not newest.datasets[0].num_examples:
        return Decision("no", f"{name or 'the data'} has no examples in the split {split}")
    now = read_schema(Path(schema.uri) / "schema.pbtxt")
    found = distances(newest, tfdv.load_stats_binary(str(file)), now, limits, list(columns))
    for one in found:
        logger.info(one)
    return decision(found, name or "the data")


def decision(found: Sequence[DriftDistance], what: str) -> Decision:
    """The decision on data called `what` from its distances, largest first."""
    far = [one for one in found if one.too_far]
    if far:
        more = f" and {len(far) - NAMED_COLUMNS} more columns" if len(far) > NAMED_COLUMNS else ""
        return Decision("yes", f"{what} drifted: {'; '.join(map(str, far[:NAMED_COLUMNS]))}{more}")
    if not found:
        return Decision("yes", f"no column of {what} can be compared with the blessed model's data")
    return Decision("no", f"{what} did not drift from the blessed model's data: the largest distance is {found[0]}")


def newest_statistics(
    name: str, split: str, examples: Artifact, statistics: Artifact, store: str, code: str
) -> DatasetFeatureStatisticsList:
    """The statistics of a split of the newest span: from the store if they are there, else from its shards."""
    if name not in span_keys(examples):
        whole = Path(artifact_utils.get_split_uri([statistics], split), DEFAULT_FILE_NAME)
        return tfdv.load_stats_binary(str(whole))
    return statistics_of_spans([name], examples, split, store, code)


def distances(
    newest: DatasetFeatureStatisticsList,
    trained: DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    limits: DriftConfig,
    columns: list[str],
) -> list[DriftDistance]:
    """The distance of each column that has a limit, the farthest beyond its limit first."""
    compared = _with_limits(schema, limits, columns)
    return measured_distances(newest, trained, compared)


def _with_limits(schema: schema_pb2.Schema, limits: DriftConfig, columns: list[str]) -> schema_pb2.Schema:
    """A schema of only the columns to compare, with their limits as drift comparators."""
    compared = schema_pb2.Schema()
    domains: Mapping[str, schema_pb2.StringDomain] = {one.name: one for one in schema.string_domain}
    for feature in schema.feature:
        is_text = feature.type == schema_pb2.BYTES
        limit = limits.columns.get(feature.name, limits.categorical if is_text else limits.numeric)
        if feature.name not in columns or limit is None:
            continue
        added = compared.feature.add()
        added.CopyFrom(feature)
        added.ClearField("skew_comparator")
        added.ClearField("drift_comparator")
        if is_text:
            added.drift_comparator.infinity_norm.threshold = limit
        else:
            added.drift_comparator.jensen_shannon_divergence.threshold = limit
        if added.domain in domains:
            compared.string_domain.add().CopyFrom(domains[added.domain])
    return compared
