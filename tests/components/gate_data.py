"""Small splits with the statistics that TFDV computes of them, and what the data gate says of them."""

from typing import Any

import pyarrow as pa
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory

from headrace.components.gates.data_gate import find_anomalies
from headrace.components.gates.data_rules import SplitStatistics
from headrace.configs.schema.label import LabelConfig

BINARY = LabelConfig(key="y", kind="binary")
WAY_OUT = "; `label.missing: drop` leaves such rows out"
Rows = dict[str, list[Any]]


def split(name: str, columns: Rows) -> SplitStatistics:
    arrays = {key: lists(values) for key, values in columns.items()}
    statistics = generate_statistics_in_memory(pa.RecordBatch.from_pydict(arrays), tfdv.StatsOptions())
    return SplitStatistics.of(name, statistics.datasets)


def lists(values: list[Any]) -> pa.Array:
    """A missing value is an empty list, as in our examples; a column without any value has no kind."""
    if all(value is None for value in values):
        return pa.nulls(len(values))
    return pa.array([[] if value is None else [value] for value in values])


def judge(label: LabelConfig, columns: tuple[str, ...] = (), **splits: Rows) -> list[tuple[str, str, str, str]]:
    found = find_anomalies([split(name, rows) for name, rows in splits.items()], {}, label, columns)
    return [(each.split, each.column, each.rule, each.what) for each in found]
