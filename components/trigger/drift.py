"""How far the newest span's data is from the data that the blessed model was trained on, by TFDV's own comparators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

from headrace.configs.schedule import DriftConfig

NAMES = {
    anomalies_pb2.DriftSkewInfo.Measurement.L_INFTY: "L-infinity",
    anomalies_pb2.DriftSkewInfo.Measurement.JENSEN_SHANNON_DIVERGENCE: "Jensen-Shannon",
}


@dataclass(frozen=True)
class Distance:
    """Of one column. `measure`: TFDV's comparator; `limit`: what it may be at most."""

    column: str
    measure: str
    value: float
    limit: float

    @property
    def too_far(self) -> bool:
        return self.value > self.limit

    def __str__(self) -> str:
        return f"{self.column}: {self.measure} {self.value:.3g}, and the limit is {self.limit:g}"


def distances(
    newest: DatasetFeatureStatisticsList,
    trained: DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    limits: DriftConfig,
    columns: list[str],
) -> list[Distance]:
    """Of each of the columns that has a limit, the farthest beyond its limit first."""
    compared = _with_limits(schema, limits, columns)
    if not newest.datasets[0].num_examples or not trained.datasets[0].num_examples:
        return []
    anomalies = tfdv.validate_statistics(newest, compared, previous_statistics=trained)
    found = [
        Distance(".".join(info.path.step), NAMES.get(one.type, "distance"), one.value, one.threshold)
        for info in anomalies.drift_skew_info
        for one in info.drift_measurements
    ]
    return sorted(found, key=lambda one: one.limit - one.value)


def _with_limits(schema: schema_pb2.Schema, limits: DriftConfig, columns: list[str]) -> schema_pb2.Schema:
    """A schema with nothing but the columns that are compared, and their limits."""
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
