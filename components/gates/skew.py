"""The gate for skew: what a model server was asked, held against the data that is trained on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

from headrace.components.gates.data_rules import SplitStatistics
from headrace.components.gates.distance import judge_distance
from headrace.components.gates.verdict import GateRow, GateVerdict
from headrace.configs.schema.gates import SkewGate

SKEW = "gates.skew"


def judge_skew(
    gate: SkewGate,
    served: DatasetFeatureStatisticsList,
    trained: DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    columns: Sequence[str],
    labels: Collection[str],
) -> GateVerdict:
    """The verdict on the distance of logged requests from the train split.

    Args:
        gate: its limits.
        served: the statistics of the requests; without examples if nothing was logged.
        trained: those of the train split.
        schema: of the data; its skew comparators take precedence over the gate's limits for all columns.
        columns: the data columns to compare; empty for all.
        labels: the columns of the labels, which requests need not have.
    """
    requests = sum(one.num_examples for one in served.datasets)
    if requests < gate.min_examples:
        few = f"{requests:,} requests are logged, fewer than min_examples: {gate.min_examples:,}"
        why = few if requests else "no request is logged yet"
        return GateVerdict.of(SKEW, gate.on_anomaly, [_too_few(requests, gate)] if gate.required else (), why)
    sides = [SplitStatistics.of("train", one.datasets) for one in (served, trained)]
    names = [one.name for one in schema.feature if not columns or one.name in columns]
    further = [*_types(names, *sides)]
    return judge_distance(
        SKEW, gate, served, trained, schema, columns, comparator="skew", optional={*labels}, further=further
    )


def _too_few(requests: int, gate: SkewGate) -> GateRow:
    limit = gate.min_examples
    return GateRow(
        what="the log",
        measure="requests",
        value=f"{requests:,}",
        limit=f"at least {limit:,}",
        excess=1 - requests / limit,
    )


def _types(names: Sequence[str], served: SplitStatistics, trained: SplitStatistics) -> Iterator[GateRow]:
    """A row for each column of texts on one side and of numbers on the other, which no distance compares."""
    for name in names:
        if served.present(name) and trained.present(name):
            now, before = (_type(side, name) for side in (served, trained))
            if now != before:
                yield GateRow(what=name, measure="type", value=now, limit=before, before=before, now=now, excess=1.0)


def _type(split: SplitStatistics, column: str) -> str:
    return "numbers" if split.columns[column].HasField("num_stats") else "texts"
