"""Gates for drift: distances of columns by TFDV's comparators, and the change of the share of missing values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList, FeatureNameStatistics

from headrace.common.figures import figure
from headrace.components.gates.data_rules import SplitStatistics
from headrace.components.gates.verdict import GateRow, GateVerdict
from headrace.components.statistics.distances import DriftDistance, measured_distances
from headrace.configs.schema.gates import ColumnDistances, DistanceGate

LONGEST = 40
"""Characters of a value that a row shows."""
_TINY = 1e-3
L_INFINITY, JENSEN_SHANNON = "L-infinity", "Jensen-Shannon"
Comparator = Literal["drift", "skew"]
"""Which comparators of a schema take precedence over the limits of a gate."""
_MEASURES = {L_INFINITY: "L-infinity distance", JENSEN_SHANNON: "Jensen-Shannon divergence"}


def judge_distance(  # noqa: PLR0913
    name: str,
    gate: DistanceGate,
    now: DatasetFeatureStatisticsList,
    before: DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    columns: Sequence[str],
    *,
    split: str = "train",
    comparator: Comparator = "drift",
    optional: Collection[str] = (),
    further: Sequence[GateRow] = (),
) -> GateVerdict:
    """The verdict on the distance of a split's statistics from earlier ones of the train split.

    Args:
        name: the gate's path in the config.
        gate: its limits.
        now: the statistics to judge.
        before: those that they are compared with.
        schema: of the data; its comparators take precedence over the gate's limits for all columns.
        columns: the data columns to compare; empty for all.
        split: the split that is judged.
        comparator: which of its comparators.
        optional: columns whose values may be missing.
        further: what else the gate judged.
    """
    ours, theirs = SplitStatistics.of(split, now.datasets), SplitStatistics.of("train", before.datasets)
    if not ours.examples or not theirs.examples:
        side, empty = ("the data to compare with", theirs) if ours.examples else ("the newest span", ours)
        return GateVerdict.of(name, gate.on_anomaly, (), f"{side} has no examples in the split {empty.name}")
    compared, skew = _with_limits(schema, gate, columns, comparator), comparator == "skew"
    measured = measured_distances(now, before, compared, skew=skew)
    distances = [one for one in measured if _is_measured(one, ours, theirs)]
    rows = [*further, *(_distance_row(one, ours, theirs) for one in distances)]
    for feature in _chosen(schema, columns):
        rows += () if feature.name in optional else _missing_row(feature.name, gate, ours, theirs)
    note = _not_measured(schema, gate, distances, ours, theirs, comparator)
    return GateVerdict.of(name, gate.on_anomaly, rows, note)


def _chosen(schema: schema_pb2.Schema, columns: Sequence[str]) -> Iterator[schema_pb2.Feature]:
    return (feature for feature in schema.feature if not columns or feature.name in columns)


def _with_limits(
    schema: schema_pb2.Schema, gate: DistanceGate, columns: Sequence[str], name: Comparator
) -> schema_pb2.Schema:
    """A schema of only the columns to compare, with all limits as its comparators."""
    compared = schema_pb2.Schema()
    domains: Mapping[str, schema_pb2.StringDomain] = {one.name: one for one in schema.string_domain}
    for feature in _chosen(schema, columns):
        added = compared.feature.add()
        added.CopyFrom(feature)
        added.ClearField(_field("drift" if name == "skew" else "skew"))
        comparator, own = getattr(added, _field(name)), gate.columns.get(feature.name, ColumnDistances())
        is_text = feature.type == schema_pb2.BYTES
        if not comparator.ListFields() and is_text and gate.categorical is not None:
            comparator.infinity_norm.threshold = gate.categorical
        if not comparator.ListFields() and not is_text and gate.numeric is not None:
            comparator.jensen_shannon_divergence.threshold = gate.numeric
        if own.l_infinity is not None:
            comparator.infinity_norm.threshold = own.l_infinity
        if own.jensen_shannon is not None:
            comparator.jensen_shannon_divergence.threshold = own.jensen_shannon
        if added.domain in domains:
            compared.string_domain.add().CopyFrom(domains[added.domain])
    return compared


def _field(name: Comparator) -> Literal["drift_comparator", "skew_comparator"]:
    return "skew_comparator" if name == "skew" else "drift_comparator"


def _is_measured(one: DriftDistance, *sides: SplitStatistics) -> bool:
    """Whether TFDV measured the distance: it has 0 for the shares of values of a column for which it counts none, such
    as numbers and images.
    """
    columns = [side.columns[one.column] for side in sides]
    numeric = one.measure == JENSEN_SHANNON and all(column.HasField("num_stats") for column in columns)
    return numeric or all(column.string_stats.rank_histogram.buckets for column in columns)


def _not_measured(
    schema: schema_pb2.Schema,
    gate: DistanceGate,
    distances: Sequence[DriftDistance],
    ours: SplitStatistics,
    theirs: SplitStatistics,
    comparator: Comparator,
) -> str:
    """The columns with values on both sides and a limit of their own that cannot be held against them."""
    measured = {(one.column, one.measure) for one in distances}
    lacking = [
        f"{feature.name} ({_MEASURES[measure]})"
        for feature in schema.feature
        for measure in _own_limits(feature, gate, comparator)
        if (feature.name, measure) not in measured and ours.present(feature.name) and theirs.present(feature.name)
    ]
    return f"TFDV cannot measure {', '.join(lacking)}, as it does not count the values" if lacking else ""


def _own_limits(feature: schema_pb2.Feature, gate: DistanceGate, name: Comparator) -> Iterator[str]:
    """The measures for which the config or the schema has a limit of this column."""
    own, comparator = gate.columns.get(feature.name, ColumnDistances()), getattr(feature, _field(name))
    if own.l_infinity is not None or comparator.HasField("infinity_norm"):
        yield L_INFINITY
    if own.jensen_shannon is not None or comparator.HasField("jensen_shannon_divergence"):
        yield JENSEN_SHANNON


def _distance_row(one: DriftDistance, ours: SplitStatistics, theirs: SplitStatistics) -> GateRow:
    before, now = _in_words(theirs.columns.get(one.column), ours.columns.get(one.column))
    return GateRow(
        what=one.column,
        measure=_MEASURES.get(one.measure, one.measure),
        value=figure(one.value),
        limit=f"{one.limit:g}",
        before=before,
        now=now,
        excess=(one.value - one.limit) / max(one.limit, _TINY),
    )


def _missing_row(column: str, gate: DistanceGate, ours: SplitStatistics, theirs: SplitStatistics) -> Iterator[GateRow]:
    own = gate.columns.get(column, ColumnDistances()).missing
    limit = gate.missing if own is None else own
    if limit is None:
        return
    before, now = (1 - _present(one, column) / one.examples for one in (theirs, ours))
    yield GateRow(
        what=column,
        measure="change of the missing share",
        value=figure(abs(now - before)),
        limit=f"{limit:g}",
        before=f"{before:.2%} missing",
        now=f"{now:.2%} missing",
        excess=(abs(now - before) - limit) / max(limit, _TINY),
    )


def _present(split: SplitStatistics, column: str) -> int:
    """The number of examples with a value; of those with a single number, without NaN."""
    statistics = split.columns.get(column)
    if statistics is None or not (kind := statistics.WhichOneof("stats")):
        return 0
    common = getattr(statistics, kind).common_stats
    return split.present(column) if common.max_num_values <= 1 else common.num_non_missing


def _in_words(before: FeatureNameStatistics | None, now: FeatureNameStatistics | None) -> tuple[str, str]:
    """The means of a numeric column; of a text column, the shares of the value whose share changed most."""
    if before is None or now is None:
        return "", ""
    if before.HasField("num_stats") and now.HasField("num_stats"):
        return f"mean {figure(before.num_stats.mean)}", f"mean {figure(now.num_stats.mean)}"
    theirs, ours = _shares(before), _shares(now)
    if not theirs and not ours:
        return "", ""
    most = max({**theirs, **ours}, key=lambda value: abs(ours.get(value, 0.0) - theirs.get(value, 0.0)))
    shown = repr(most if len(most) <= LONGEST else f"{most[:LONGEST]}...")
    return f"{shown} {theirs.get(most, 0.0):.2%}", f"{shown} {ours.get(most, 0.0):.2%}"


def _shares(column: FeatureNameStatistics) -> dict[str, float]:
    buckets = column.string_stats.rank_histogram.buckets
    total = sum(bucket.sample_count for bucket in buckets) or 1.0
    return {bucket.label: bucket.sample_count / total for bucket in buckets}
