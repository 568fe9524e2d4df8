"""Gates on Kubeflow: what they compare with comes from the object store, and the task that stops names its gates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from headrace.common.errors import RunError
from headrace.components.gates.verdict import DataVerdicts
from headrace.components.spans.find import find_spans
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.trigger.decision import TrainingData, TrainingRecord
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.verify.cluster import Cluster
from headrace.pipeline.training_digest import training_digest

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: "%s/{YYYY}-{MM}-{DD}.csv"}, window: 3, run_date: "2026-11-04"}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}, kind: {column: vocabulary}}
gates:
  rows: {max_decrease: 0.5}
  freshness: {max_days: 1, column: at}
  drift: {blessed: {}, earlier_spans: {on_anomaly: warn}}
  skew: {source: {kind: jsonl, path: "%s/log/*.jsonl"}}
kubeflow: {image: "registry.example/headrace:1", parameters: [run_date, spans]}
"""
HOME = "minio://bucket/trips"
TASKS = (
    "spans",
    "example-gen",
    "statistics-gen",
    "schema-gen",
    "example-validator",
    "serving-log",
    "serving-statistics",
    "data-verdict",
    "data-gate",
)


def put_day(folder: Path, day: int, rows: int = 200, share: float = 0.5) -> None:
    random = np.random.default_rng(day)
    kinds = np.where(random.random(rows) < share, "a", "b")
    rows_of_day = enumerate(zip(random.gamma(9, size=rows), kinds, strict=True))
    lines = [f"{fare:.2f},{kind},{n % 2},2026-11-{day:02} 12:00" for n, (fare, kind) in rows_of_day]
    (folder / f"2026-11-{day:02}.csv").write_text("\n".join(["fare,kind,tip,at", *lines, ""]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        put_day(tmp_path, day)
    return tmp_path


def config(folder: Path, *overrides: str) -> PipelineConfig:
    (folder / "trips.yaml").write_text(CONFIG % (folder, folder))
    return load(folder / "trips.yaml", None, overrides)


def gated(folder: Path, *overrides: str) -> str:
    """The compiled pipeline up to DataGate."""
    first, *more = yaml.safe_load_all(compile_pipeline(config(folder, *overrides), {}))
    tasks = first["root"]["dag"]["tasks"]
    first["root"]["dag"]["tasks"] = {name: tasks[name] for name in TASKS}
    return yaml.safe_dump_all([first, *more])


def left_by(cluster: Cluster, task: str) -> str:
    """What a task wrote as its artifact in the run that was started last."""
    records = cluster.path(HOME).glob(f"*/{task}/*/record")
    return max(records, key=lambda path: path.stat().st_mtime_ns).read_text(encoding="utf-8")


def test_gates_are_tasks_that_run_every_time_with_the_runs_date(folder: Path) -> None:
    first = next(yaml.safe_load_all(compile_pipeline(config(folder), {})))
    tasks = first["root"]["dag"]["tasks"]
    assert not tasks["data-verdict"].get("cachingOptions", {}).get("enableCache")
    parameters = tasks["data-verdict"]["inputs"]["parameters"]
    assert parameters["as_of"]["taskOutputParameter"] == {"producerTask": "spans", "outputParameterKey": "as_of"}
    judged = tasks["data-gate"]["inputs"]["parameters"]["judged"]["taskOutputParameter"]
    assert judged == {"producerTask": "data-verdict", "outputParameterKey": "verdict"}
    assert "statistics" in tasks["record-blessing"]["inputs"]["artifacts"]


def test_pods_that_compare_with_the_blessed_model_have_the_statistics_of_its_data_and_no_others(tmp_path: Path) -> None:
    store, paths = Store({}, str(tmp_path / "store")), PodPaths(str(tmp_path / "pod"))
    home, there = paths.local(HOME), tmp_path / "store/minio/bucket/trips"
    names = ("old", "new")
    entries = [
        Entry(uri=str(home / name / "model"), blessed_at=f"2026-03-0{n}", statistics=str(home / name / "statistics"))
        for n, name in enumerate(names, 1)
    ]
    home.mkdir(parents=True)
    there.mkdir(parents=True)
    Registry(models=tuple(entries)).write(home / "blessed.json")
    (home / "blessed.json").rename(there / "blessed.json")
    for name in names:
        (there / name / "statistics/Split-train").mkdir(parents=True)
        (there / name / "statistics/Split-train/FeatureStats.pb").write_text(name)
    properties = {"registry": str(home / "blessed.json")}
    with present({**properties, "columns": "[]", "label": "{}"}, paths, store):  # RecordBlessing
        assert not (home / "new/statistics").exists()
    with present({**properties, "columns": "[]", "gates": "{}"}, paths, store):
        assert (home / "new/statistics/Split-train/FeatureStats.pb").read_text() == "new"
        assert not (home / "old/statistics").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("forked_pods")
def test_a_night_is_held_against_the_blessed_models_data_in_the_store_and_a_stop_names_its_gates(folder: Path) -> None:
    cluster = Cluster(folder / "cluster", "minio://bucket")
    first = cluster.run(gated(folder))
    judged = first.tasks["data-verdict"]
    assert cluster.path(judged.artifacts["record"]["uri"]).read_text(encoding="utf-8") == judged.parameters["verdict"]
    found = {one["gate"]: one for one in json.loads(judged.parameters["verdict"])["gates"]}
    assert {name: one["failed"] for name, one in found.items()} == dict.fromkeys(found, 0)
    assert "no model is blessed" in found["gates.drift.blessed"]["note"]
    assert found["gates.freshness"]["rows"][0]["value"] == "1 day"  # the values of the column, of 3 November
    assert found["gates.skew"]["note"] == "no request is logged yet"
    statistics = first.tasks["statistics-gen"].artifacts["statistics"]["uri"]
    home = cluster.path(HOME)
    blessed = Entry(uri=str(home / "m"), blessed_at="2026-11-04", statistics=str(cluster.path(statistics)))
    Registry(models=(blessed,)).write(home / "blessed.json")
    put_day(folder, 4, rows=50, share=0.95)
    (folder / "log").mkdir()
    (folder / "log/a.jsonl").write_text('{"fare": 9.5, "kind": "z"}\n' * 100)
    with pytest.raises(RunError, match=r"gates\.rows, gates\.drift\.blessed, gates\.skew stop ") as stopped:
        cluster.run(gated(folder))
    log = Path(str(stopped.value).rpartition("log: ")[2]).read_text(encoding="utf-8")
    assert "2026-11-04: change of rows -75.0%, limit a decrease of 0.5 (median of 2 spans: 200 rows" in log
    assert re.search(r"kind: L-infinity distance 0\.[345]\d+, limit 0\.1 \(.[ab]. \d", log)
    assert "kind: L-infinity distance 1, limit 0.1 ('z' 0.00% → 'z' 100.00%)" in log
    assert json.loads(left_by(cluster, "data-gate")) == {"anomalies": [], "action": "stop", "stopped": True}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_pods")
def test_newest_span_that_is_held_out_from_training_is_compared_with_those_in_training(folder: Path) -> None:
    put_day(folder, 4, share=0.95)
    done = Cluster(folder / "cluster", "minio://bucket").run(gated(folder, "data.split_spans={test: 1}"))
    verdicts = DataVerdicts.model_validate_json(done.tasks["data-verdict"].parameters["verdict"]).gates
    (drift,) = (one for one in verdicts if one.gate == "gates.drift.earlier_spans")
    (row,) = (row for row in drift.rows if (row.what, row.measure) == ("kind", "L-infinity distance"))
    two, three, four = (pd.read_csv(folder / f"2026-11-0{day}.csv")["kind"] == "a" for day in (2, 3, 4))
    assert float(row.value) == pytest.approx(four.mean() - pd.concat([two, three]).mean(), abs=0.04)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_pods")
def test_a_night_without_new_data_stops_in_its_first_task_once_the_data_is_too_old(folder: Path) -> None:
    reported = config(folder, "schedule={every: 24h, retrain: new_span}", "gates.freshness.column=null")
    found = find_spans(reported.data)
    cluster = Cluster(folder / "cluster", "minio://bucket")
    home = cluster.path(HOME)
    last = TrainingData(
        fingerprint=found.fingerprint, spans=("2026-11-03",), work=training_digest(reported), statistics=str(home / "s")
    )
    TrainingRecord().with_judged(last, blessed=True).write(home / "trained.json")
    text = yaml.safe_dump(next(yaml.safe_load_all(compile_pipeline(reported, {}))))
    on_time = cluster.run(text)
    assert (set(on_time.tasks), on_time.tasks["spans"].parameters["as_of"]) == ({"spans"}, "2026-11-04")
    with pytest.raises(RunError, match=r"gates\.freshness stops the run") as stopped:
        cluster.run(text, {"run_date": "2026-11-05"})
    log = Path(str(stopped.value).rpartition("log: ")[2]).read_text(encoding="utf-8")
    assert "age of the newest span 2 days, limit 1 day" in log
    (verdict,) = DataVerdicts.model_validate_json(left_by(cluster, "spans")).stopping
    assert (verdict.gate, verdict.rows[0].value, verdict.rows[0].limit) == ("gates.freshness", "2 days", "1 day")
