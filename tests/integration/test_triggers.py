"""A pipeline that trains only where there is a reason to: what each night does, and how its cache is explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import Finished, headrace

from headrace.configs.loading.loader import load
from headrace.pipeline.cache.predict import predict
from headrace.pipeline.results.run_folder import RunFolder

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: nightly}
data: {source: {kind: csv, path: "days/{YYYY}-{MM}-{DD}.csv"}, window: 2}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
  kind: {column: vocabulary}
model: {kind: mine.build, hidden: [4]}
train: {epochs: 1, batch_size: 64}
evaluate: {metrics: [auc], better_than_constant: false}
deploy: {push: null}
schedule: {cron: "0 5 * * *", retrain: drift}
"""
MODEL = """\
import keras


def build(features, label, model):
    deep = keras.layers.Dense(model.hidden[0], activation="relu")(features.deep())
    return keras.Model(features.inputs, keras.layers.Dense(1, activation="sigmoid")(deep))
"""
ROWS = 600


def write_day(folder: Path, day: int, *, taxed: float = 1.0, share: float = 0.5) -> None:
    """Trips of a day: fares around 10, times `taxed`; `share` of them of kind a."""
    random = np.random.default_rng(day)
    fares, kinds = random.gamma(10, taxed, ROWS), np.where(random.random(ROWS) < share, "a", "b")
    tips = (fares > 10 * taxed).astype(int)
    rows = [f"{fare:.2f},{kind},{tip}" for fare, kind, tip in zip(fares, kinds, tips, strict=True)]
    (folder / "days").mkdir(exist_ok=True)
    (folder / "days" / f"2026-11-{day:02d}.csv").write_text("\n".join(["fare,kind,tip", *rows, ""]))


NEW_SPAN = ("--set", "schedule.retrain=new_span")


@dataclass
class Nights:
    """The runs, in their order."""

    folder: Path
    runs: dict[str, Finished] = field(default_factory=dict)

    def run(self, name: str, *options: str) -> None:
        self.runs[name] = headrace(self.folder, "run", "nightly.yaml", *options)
        assert self.runs[name].code == 0, self.runs[name].out + self.runs[name].err

    def __getitem__(self, name: str) -> Finished:
        return self.runs[name]


@pytest.fixture(scope="module")
def nights(new_folder: Callable[[str], Path]) -> Nights:
    reported = Nights(new_folder("nights"))
    (reported.folder / "nightly.yaml").write_text(CONFIG)
    (reported.folder / "mine.py").write_text(MODEL)
    for day in (1, 2):
        write_day(reported.folder, day)
    reported.run("first")
    reported.run("nothing")
    stale = ("--set", "gates.freshness={max_days: 1}", "--param", "run_date=2026-11-04")
    reported.runs["stale"] = headrace(reported.folder, "run", "nightly.yaml", *stale)
    write_day(reported.folder, 3)
    reported.run("alike")
    write_day(reported.folder, 4, taxed=3, share=0.9)
    reported.run("drifted")
    (reported.folder / "mine.py").write_text(MODEL.replace("relu", "tanh"))
    reported.run("edited", *NEW_SPAN)
    (reported.folder / "mine.py").write_text("# Mine.\n" + MODEL.replace("relu", "tanh"))
    reported.run("commented", *NEW_SPAN)
    return reported


def test_first_run_trains_and_writes_down_what_on(nights: Nights) -> None:
    first = nights["first"]
    assert {"Trainer", "Evaluator"} <= first.ran()
    assert first.statuses()["RecordTraining"] == "done"
    assert first.run.ended is None


def test_run_without_anything_new_ends_at_once_as_a_success_and_says_why(nights: Nights) -> None:
    nothing = nights["nothing"]
    assert nothing.statuses() == {"Spans": "done"}
    assert nothing.ending("ended").startswith("nothing new: ")
    assert nothing.ending("ended").endswith(" up to 2026-11-02")
    assert not (nothing.folder / "logs" / "start.log").exists()  # TensorFlow was not even started
    assert "Ended early: nothing new" in (nothing.folder / "report.html").read_text()


def test_run_without_anything_new_is_stopped_by_old_data_and_status_names_the_gate(nights: Nights) -> None:
    stale = nights["stale"]
    assert stale.code == 1
    assert {node for node, status in stale.statuses().items() if status != "skipped"} == {"Spans"}
    assert stale.statuses()["Spans"] == "failed"
    verdict = RunFolder.read(stale.folder).gates
    assert verdict is not None
    (freshness,) = verdict.gates
    (row,) = freshness.rows
    assert (freshness.gate, row.what, row.value, row.limit) == ("gates.freshness", "2026-11-02", "2 days", "1 day")
    assert freshness.stops
    line = "2026-11-02: age of the newest span 2 days, limit 1 day"
    status = headrace(nights.folder, "status", "nightly.yaml", stale.run.run_id)
    for text in (status.out, stale.out):
        assert "gates.freshness stops the run:" in text
        assert line in text
    page = (stale.folder / "report.html").read_text()
    assert "gates.freshness" in page
    assert "2 days" in page


def test_new_span_like_those_trained_on_ends_the_run_before_the_transform(nights: Nights) -> None:
    alike = nights["alike"]
    assert alike.statuses()["StatisticsGen"] == "done"
    assert alike.statuses()["Drift"] == "done"
    assert {alike.statuses()[node] for node in ("Transform", "Trainer", "RecordTraining")} == {"skipped"}
    assert alike.ending("ended").startswith("2026-11-03 did not drift ")


def test_span_that_drifted_is_trained_on_and_the_log_has_every_distance(nights: Nights) -> None:
    drifted = nights["drifted"]
    assert {"Transform", "Trainer"} <= drifted.ran()
    log = (drifted.folder / "logs" / "Drift.log").read_text()
    assert "2026-11-04 drifted: " in log
    assert "fare: Jensen-Shannon " in log
    assert "kind: L-infinity " in log
    trained = json.loads((nights.folder / "runs" / "nightly" / "trained.json").read_text())
    assert trained["judged"]["spans"] == ["2026-11-03", "2026-11-04"]
    assert trained["blessed"]["statistics"].startswith("artifacts/StatisticsGen/")


def test_edited_model_is_trained_though_no_data_is_new_and_the_night_after_ends_at_once(nights: Nights) -> None:
    edited, commented = nights["edited"], nights["commented"]
    assert {"Trainer", "Evaluator"} <= edited.ran()
    assert edited.statuses()["Transform"] == "cached"
    log = (edited.folder / "logs" / "Spans.log").read_text()
    assert "settings or code changed" in log
    assert commented.statuses() == {"Spans": "done"}
    assert not (commented.folder / "logs" / "start.log").exists()  # nor was TensorFlow


def test_explain_cache_names_the_new_span_and_what_followed(nights: Nights) -> None:
    done = headrace(nights.folder, "explain-cache", "nightly.yaml", nights["drifted"].run.run_id, "--json")
    reported = {one["component"]: one for one in json.loads(done.out)["components"]}
    assert reported["ExampleGen"]["result"] == "ran"
    assert reported["ExampleGen"]["run"] == nights["alike"].run.run_id
    assert reported["ExampleGen"]["reasons"] == ["input spans from Spans: new: 2026-11-04; no longer read: 2026-11-02"]
    assert reported["Transform"]["reasons"][0].startswith("input examples from ExampleGen: made by run ")


def test_explain_cache_before_a_run_reports_that_there_is_nothing_to_run_for(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(nights.folder)
    reported = predict(load("nightly.yaml")).components
    assert [one.result for one in reported] == ["always runs", *["not run"] * (len(reported) - 1)]
    (reason,) = reported[1].reasons
    assert reason.startswith("nothing new: ")
    assert reason.endswith(" up to 2026-11-04")


def test_explain_cache_before_a_run_reports_what_it_would_reuse(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(nights.folder)
    reported = {one.component: one for one in predict(load("nightly.yaml", None, ["train.epochs=2"])).components}
    assert reported["Transform"].result == "would be reused"
    assert reported["Transform"].run == nights["drifted"].run.run_id
    assert reported["Trainer"].reasons == ["setting train.epochs: 1 → 2"]
    assert reported["Evaluator"].reasons[0].startswith("Baseline, Trainer would run")


def test_drifted_span_that_is_held_out_from_training_is_judged_and_is_a_reason_to_train(
    new_folder: Callable[[str], Path],
) -> None:
    nights = Nights(new_folder("held-out"))
    gates = "gates: {drift: {blessed: {on_anomaly: warn}, earlier_spans: {on_anomaly: warn}}}\n"
    config = CONFIG.replace("window: 2", "window: 3, split_spans: {test: 1}") + gates
    (nights.folder / "nightly.yaml").write_text(config)
    (nights.folder / "mine.py").write_text(MODEL)
    for day in (1, 2, 3):
        write_day(nights.folder, day)
    nights.run("first")
    write_day(nights.folder, 4, taxed=3, share=0.9)
    nights.run("drifted")
    drifted = nights["drifted"]
    assert {"Transform", "Trainer"} <= drifted.ran()
    assert "2026-11-04 drifted: " in (drifted.folder / "logs" / "Drift.log").read_text()
    verdict = RunFolder.read(drifted.folder).gates
    assert verdict is not None
    days = [pd.read_csv(nights.folder / f"days/2026-11-0{day}.csv")["kind"] for day in (1, 2, 3, 4)]
    compared = {"gates.drift.blessed": days[:2], "gates.drift.earlier_spans": days[1:3]}
    for one in verdict.gates:
        rows = {(row.what, row.measure): row for row in one.rows}
        expected = abs((days[3] == "a").mean() - (pd.concat(compared.pop(one.gate)) == "a").mean())
        assert float(rows["kind", "L-infinity distance"].value) == pytest.approx(expected, abs=0.04)
        assert not rows["fare", "Jensen-Shannon divergence"].passed
    assert not compared
