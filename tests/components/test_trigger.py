"""Whether there is a reason to train, and how far data drifted, by TFDV."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow_data_validation as tfdv
from changed_bytes import assert_each_changed_byte_is_detected
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatistics, DatasetFeatureStatisticsList
from tfx.types import standard_artifacts

from headrace.common.storage.files import FileState
from headrace.components.spans.manifest import Span, SpanManifest
from headrace.components.statistics.distances import DriftDistance
from headrace.components.trigger.decision import TrainingData, TrainingRecord, decide
from headrace.components.trigger.drift import decide_by_drift, decision, distances
from headrace.configs.schema.schedule import DriftConfig, Retrain


def manifest(*names: str, size: int = 1) -> SpanManifest:
    return SpanManifest(tuple(Span(n, (FileState(f"/d/{name}", size, "t"),), name) for n, name in enumerate(names)))


def trained_on(found: SpanManifest, work: str = "w") -> TrainingData:
    names = tuple(span.name for span in found.spans)
    return TrainingData(fingerprint=found.fingerprint, spans=names, work=work, statistics="/s")


LAST = trained_on(manifest("a", "b"))
BLESSED = TrainingRecord(judged=LAST, blessed=LAST)


@pytest.mark.parametrize(
    ("now", "trained", "work", "retrain", "go", "why"),
    [
        (manifest("a", "b"), BLESSED, "w", "always", "yes", "asked for"),
        (manifest("a", "b"), TrainingRecord(), "w", "new_span", "yes", "no model has been judged yet"),
        (manifest("a", "b"), BLESSED, "other", "drift", "yes", "settings or code changed"),
        (manifest("a", "b"), BLESSED, "w", "drift", "no", r"nothing new: .*\bb$"),
        (manifest("b", "c"), BLESSED, "w", "new_span", "yes", "new data: c$"),
        (manifest(*"bcdefg"), BLESSED, "w", "new_span", "yes", "new data: e, f, g and 2 more"),
        (manifest("b"), BLESSED, "w", "new_span", "yes", "other data: b to b"),
        (manifest("a", "b", size=2), BLESSED, "w", "new_span", "yes", "the data changed"),
        (manifest("b", "c"), BLESSED, "w", "drift", "if-drifted", "new data: c; .*Drift"),
        (
            manifest("b", "c"),
            TrainingRecord(judged=LAST),
            "w",
            "drift",
            "yes",
            "new data: c, .*no model is blessed",
        ),
    ],
)
def test_reason_to_train(
    now: SpanManifest, trained: TrainingRecord, work: str, retrain: Retrain, go: str, why: str
) -> None:
    found = decide(now, trained, work, retrain)
    assert found.go == go
    assert pd.Series([found.why]).str.match(why).all(), found.why


def test_data_that_did_not_drift_is_not_a_reason_a_second_time_under_the_same_limits() -> None:
    now = manifest("b", "c")
    passed = BLESSED.with_passed(now.fingerprint, "limits")
    found = decide(now, passed, "w", "drift", "limits")
    assert found.go == "no"
    assert re.fullmatch(r"nothing new: .* did not drift .*\bc", found.why)
    assert decide(now, passed, "w", "drift", "others").go == "if-drifted"
    assert decide(manifest("c", "d"), passed, "w", "drift", "limits").go == "if-drifted"
    assert decide(now, passed, "w", "new_span", "limits").go == "yes"
    assert passed.with_judged(LAST, blessed=False).passed is None


def test_a_model_of_older_spans_leaves_the_newest_known_unless_it_is_the_one_in_use() -> None:
    first, backfilled, other = (trained_on(manifest(name), "w") for name in ("10", "9", "8"))
    passed = TrainingRecord().with_judged(first, blessed=True).with_passed("f", "limits")
    found = passed.with_judged(backfilled, blessed=False).with_judged(other, blessed=False)
    assert (found.judged, found.newest, found.blessed, found.passed) == (other, first, first, ("f", "limits"))
    assert decide(manifest("10"), found, "w", "new_span").go == "no"
    assert decide(manifest("8"), found, "w", "new_span").go == "no"  # where the newer spans are gone
    assert decide(manifest("9"), found, "w", "new_span").go == "yes"
    assert decide(manifest("11"), found, "w", "new_span").why == "new data: 11"
    assert found.with_judged(trained_on(manifest("11"), "w"), blessed=False).newest is None
    in_use = passed.with_judged(backfilled, blessed=True)
    assert decide(manifest("10"), in_use, "w", "new_span").go == "yes"
    changed = passed.with_judged(trained_on(manifest("9"), "other"), blessed=False)
    assert decide(manifest("10"), changed, "other", "new_span").go == "yes"


def test_what_was_trained_on_moves_with_the_pipelines_folder_and_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    data = LAST.model_copy(update={"statistics": str(here / "artifacts" / "7")})
    elsewhere = LAST.model_copy(update={"statistics": "/elsewhere"})
    older = elsewhere.model_copy(update={"spans": ("a",)})
    written = TrainingRecord().with_judged(data, blessed=True).with_judged(elsewhere, blessed=False)
    written.write(here / "trained.json")
    assert "newest" not in (here / "trained.json").read_text()  # nor anything that earlier versions did not know
    written.with_judged(older, blessed=False).write(here / "trained.json")
    here.rename(there)
    found = TrainingRecord.read(there / "trained.json")
    assert found.blessed == data.model_copy(update={"statistics": str(there / "artifacts" / "7")})
    assert found.newest == elsewhere
    assert found.judged == older
    assert TrainingRecord.read(tmp_path / "none.json") == TrainingRecord()
    assert_each_changed_byte_is_detected(
        there / "trained.json", TrainingRecord.read, "Delete it: the next run then trains"
    )
    (there / "trained.json").write_text(found.model_dump_json())  # as earlier versions wrote it, without a checksum
    assert TrainingRecord.read(there / "trained.json") == found


@pytest.fixture(scope="module")
def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    random = np.random.default_rng(7)
    then = pd.DataFrame({"fare": random.normal(10, 2, 2000), "kind": ["a"] * 1000 + ["b"] * 1000, "id": range(2000)})
    now = pd.DataFrame({"fare": random.normal(14, 2, 1000), "kind": ["a"] * 750 + ["c"] * 250, "id": range(1000)})
    return then, now


def test_distances_are_tfdvs_and_those_of_a_computation_of_our_own(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    then, now = map(tfdv.generate_statistics_from_dataframe, frames)
    found = {one.column: one for one in distances(now, then, tfdv.infer_schema(then), DriftConfig(), ["fare", "kind"])}
    assert set(found) == {"fare", "kind"}  # and not `id`, which no feature reads
    shares = [frame["kind"].value_counts(normalize=True) for frame in frames]
    expected = shares[1].sub(shares[0], fill_value=0).abs().max()
    assert found["kind"].measure == "L-infinity"
    assert found["kind"].value == pytest.approx(expected)  # 0.5: b had half, and has none
    edges = np.linspace(0, 25, 60)
    before, after = (np.histogram(frame["fare"], edges)[0] / len(frame) for frame in frames)
    assert found["fare"].measure == "Jensen-Shannon"
    assert found["fare"].value == pytest.approx(_divergence(before, after), abs=0.06)  # TFDV has ten bins
    assert found["fare"].too_far


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    middle = (p + q) / 2
    parts = [np.sum(one[one > 0] * np.log2(one[one > 0] / middle[one > 0])) for one in (p, q)]
    return float(sum(parts) / 2)


def test_limits_of_single_columns_win_and_null_leaves_columns_out(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    then, now = map(tfdv.generate_statistics_from_dataframe, frames)
    limits = DriftConfig(numeric=None, columns={"kind": 0.9})
    (one,) = distances(now, then, tfdv.infer_schema(then), limits, ["fare", "kind"])
    assert (one.column, one.limit, one.too_far) == ("kind", 0.9, False)


def test_verdict_names_the_farthest_columns() -> None:
    near, far = DriftDistance("a", "L-infinity", 0.01, 0.1), DriftDistance("b", "Jensen-Shannon", 0.5, 0.1)
    drifted = decision([far, near], "2026-11-04")
    assert drifted.go == "yes"
    assert drifted.why.startswith("2026-11-04 drifted: b: Jensen-Shannon 0.5")
    assert drifted.why.endswith(" 0.1")
    same = decision([near], "2026-11-04")
    assert same.go == "no"
    assert "a: L-infinity 0.01" in same.why
    assert same.why.endswith(" 0.1")
    assert decision([], "the data").go == "yes"  # as nobody can know


def test_a_span_without_examples_did_not_drift(tmp_path: Path) -> None:
    statistics = standard_artifacts.ExampleStatistics()
    statistics.uri, statistics.split_names = str(tmp_path), '["train"]'
    none = DatasetFeatureStatisticsList(datasets=[DatasetFeatureStatistics(num_examples=0)])
    (tmp_path / "Split-train").mkdir()
    (tmp_path / "Split-train" / "FeatureStats.pb").write_bytes(none.SerializeToString())
    trained = TrainingRecord(blessed=LAST.model_copy(update={"statistics": str(tmp_path)}))
    found = decide_by_drift(
        name="2026-11-04",
        examples=standard_artifacts.Examples(),
        statistics=statistics,
        schema=standard_artifacts.Schema(),
        trained=trained,
        limits=DriftConfig(),
        columns=["fare"],
        store="",
        code="",
    )
    assert (found.go, found.why) == ("no", "2026-11-04 has no examples in the split train")
