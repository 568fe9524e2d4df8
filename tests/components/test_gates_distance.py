"""Gates for drift, against TFDV's own comparators and computations with pandas and SciPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

from headrace.components.gates.distance import judge_distance
from headrace.components.gates.verdict import GateVerdict
from headrace.configs.schema.gates import DistanceGate

Sides = tuple[pd.DataFrame, pd.DataFrame]
COLUMNS = ["fare", "kind", "gone"]
L_INFINITY, JENSEN_SHANNON, MISSING = (
    "L-infinity distance",
    "Jensen-Shannon divergence",
    "change of the missing share",
)


@pytest.fixture(scope="module")
def frames() -> Sides:
    """Before and now: `fare` shifts, `kind` gets a new value, and half of `gone` is missing."""
    random = np.random.default_rng(7)
    before = pd.DataFrame(
        {
            "fare": random.normal(10, 2, 2000) * 1e5,
            "kind": random.choice(["a", "b"], 2000),
            "gone": random.choice(["x", "y"], 2000),
            "id": range(2000),
        }
    )
    now = pd.DataFrame(
        {
            "fare": random.normal(14, 2, 1000) * 1e5,
            "kind": ["a"] * 750 + ["c"] * 250,
            "gone": pd.Series(random.choice(["x", "y"], 1000)).where(random.random(1000) < 0.5, None),
            "id": range(1000),
        }
    )
    return before, now


@pytest.fixture(scope="module")
def statistics(frames: Sides) -> tuple[DatasetFeatureStatisticsList, DatasetFeatureStatisticsList]:
    before, now = map(tfdv.generate_statistics_from_dataframe, frames)
    return before, now


def judge(statistics: Any, gate: DistanceGate, schema: schema_pb2.Schema | None = None) -> GateVerdict:
    before, now = statistics
    return judge_distance("gates.drift.blessed", gate, now, before, schema or tfdv.infer_schema(before), COLUMNS)


def measured(verdict: GateVerdict) -> dict[tuple[str, str], float]:
    return {(row.what, row.measure): float(row.value) for row in verdict.rows}


def tfdvs(statistics: Any, **thresholds: str) -> dict[str, float]:
    """The drift that TFDV measures itself, with comparators set in a schema by hand."""
    before, now = statistics
    schema = tfdv.infer_schema(before)
    for column, comparator in thresholds.items():
        text_format.Parse(comparator, tfdv.get_feature(schema, column).drift_comparator)
    anomalies = tfdv.validate_statistics(now, schema, previous_statistics=before)
    return {one.path.step[0]: one.drift_measurements[0].value for one in anomalies.drift_skew_info}


def test_distances_are_those_of_tfdv_and_of_a_computation_of_our_own(frames: Sides, statistics: Any) -> None:
    gate = DistanceGate.model_validate({"columns": {"kind": {"jensen_shannon": 0.1}}})
    found = measured(judge(statistics, gate))
    assert set(found) == {
        ("fare", JENSEN_SHANNON),
        ("kind", L_INFINITY),
        ("kind", JENSEN_SHANNON),
        ("gone", L_INFINITY),
        *((column, MISSING) for column in COLUMNS),
    }  # and not `id`, which no feature reads
    infinity, divergence = "infinity_norm {threshold: 0.1}", "jensen_shannon_divergence {threshold: 0.1}"
    one = tfdvs(statistics, fare=divergence, kind=infinity, gone=infinity)
    assert found["fare", JENSEN_SHANNON] == pytest.approx(one["fare"], rel=1e-3)
    assert found["kind", L_INFINITY] == pytest.approx(one["kind"], rel=1e-3)
    assert found["gone", L_INFINITY] == pytest.approx(one["gone"], rel=1e-3)
    assert found["kind", JENSEN_SHANNON] == pytest.approx(tfdvs(statistics, kind=divergence)["kind"], rel=1e-3)
    before, now = (frame["kind"].value_counts(normalize=True) for frame in frames)
    p, q = before.align(now, fill_value=0)
    assert found["kind", L_INFINITY] == pytest.approx((p - q).abs().max(), rel=1e-3)
    assert found["kind", JENSEN_SHANNON] == pytest.approx(_divergence(p.to_numpy(), q.to_numpy()), rel=1e-3)
    for column in COLUMNS:
        change = abs(frames[1][column].isna().mean() - frames[0][column].isna().mean())
        assert found[column, MISSING] == pytest.approx(change, abs=1e-4)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    middle = (p + q) / 2
    return float(sum(np.sum(one[one > 0] * np.log2(one[one > 0] / middle[one > 0])) for one in (p, q)) / 2)


def test_worst_columns_come_first_with_both_values(frames: Sides, statistics: Any) -> None:
    verdict = judge(statistics, DistanceGate(categorical=0.3, numeric=0.5, missing=0.4))
    kind, gone, *within = (row for row in verdict.rows if row.what != "fare")
    before, now = (frame["kind"].value_counts(normalize=True) for frame in frames)
    assert (kind.what, kind.passed, gone.what, gone.measure, gone.passed) == ("kind", False, "gone", MISSING, False)
    assert (kind.before, kind.now) == (f"'b' {before['b']:.2%}", f"'b' {now.get('b', 0):.2%}")
    assert (gone.before, gone.now) == ("0.00% missing", f"{frames[1]['gone'].isna().mean():.2%} missing")
    assert all(row.passed for row in within)
    (fare,) = (row for row in verdict.rows if row.what == "fare" and row.measure == JENSEN_SHANNON)
    assert (fare.before, fare.now) == tuple(f"mean {frame['fare'].mean():,.0f}" for frame in frames)
    assert [row.excess for row in verdict.rows] == sorted((row.excess for row in verdict.rows), reverse=True)


def test_limits_of_columns_win_over_those_of_the_schema_and_these_over_the_gates(statistics: Any) -> None:
    schema = tfdv.infer_schema(statistics[0])
    tfdv.get_feature(schema, "kind").drift_comparator.jensen_shannon_divergence.threshold = 0.9
    tfdv.get_feature(schema, "gone").drift_comparator.infinity_norm.threshold = 0.8
    columns = {"gone": {"l_infinity": 0.7, "missing": 0.6}}
    verdict = judge(statistics, DistanceGate.model_validate({"numeric": None, "columns": columns}), schema)
    assert {(row.what, row.measure): row.limit for row in verdict.rows} == {
        ("kind", JENSEN_SHANNON): "0.9",
        ("gone", L_INFINITY): "0.7",
        ("gone", MISSING): "0.6",
        ("fare", MISSING): "0.1",
        ("kind", MISSING): "0.1",
    }
    assert verdict.passed


def test_shares_of_values_that_tfdv_does_not_count_are_not_taken_for_equal(statistics: Any) -> None:
    """TFDV itself measures an L-infinity distance of 0 between any two columns of numbers."""
    assert tfdvs(statistics, fare="infinity_norm {threshold: 0.1}")["fare"] == 0
    verdict = judge(statistics, DistanceGate.model_validate({"columns": {"fare": {"l_infinity": 0.1}}}))
    assert ("fare", L_INFINITY) not in measured(verdict)
    assert verdict.note.startswith("TFDV cannot measure fare (L-infinity distance)")


def test_equal_data_has_no_distance_and_a_limit_of_zero_allows_it(statistics: Any) -> None:
    before, _ = statistics
    gate = DistanceGate(categorical=0, numeric=0, missing=0)
    verdict = judge((before, before), gate)
    assert (verdict.passed, verdict.judged) == (True, 6)
    assert not judge(statistics, gate).passed


def test_a_column_that_is_gone_is_missing_and_no_examples_are_not_judged(statistics: Any) -> None:
    before, now = statistics
    without = DatasetFeatureStatisticsList()
    without.CopyFrom(now)
    for feature in [one for one in without.datasets[0].features if one.path.step[0] == "kind"]:
        without.datasets[0].features.remove(feature)
    verdict = judge((before, without), DistanceGate())
    (kind,) = (row for row in verdict.rows if row.what == "kind")
    assert (kind.measure, kind.value, kind.now) == (MISSING, "1", "100.00% missing")
    empty = DatasetFeatureStatisticsList()
    empty.datasets.add(num_examples=0)
    assert "no examples in the split train" in judge((before, empty), DistanceGate()).note


def test_verdict_is_json_that_is_read_back(statistics: Any, tmp_path: Path) -> None:
    verdict = judge(statistics, DistanceGate(on_anomaly="warn"))
    (tmp_path / "value").write_text(verdict.model_dump_json(), encoding="utf-8")
    found = json.loads((tmp_path / "value").read_text(encoding="utf-8"))
    assert (found["gate"], found["on_anomaly"], found["failed"]) == ("gates.drift.blessed", "warn", verdict.failed)
    assert GateVerdict.model_validate(found) == verdict
