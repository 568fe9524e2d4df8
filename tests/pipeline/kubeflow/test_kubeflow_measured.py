"""What pods took in earlier runs, as their logs in the object store say, and what the next ones ask for by that."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from compiled_trips import compiled, trips

from headrace.configs.schema.pod_resources import PeakUsage
from headrace.pipeline.api import compile as compile_pipeline
from headrace.pipeline.folders import Folders
from headrace.pipeline.kubeflow.compiler import measured
from headrace.pipeline.kubeflow.entrypoint import last_line
from headrace.pipeline.kubeflow.store import Store, open_store
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status

HOME = Path("minio/mlpipeline/v2/artifacts/trips")
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The object store, empty."""
    monkeypatch.setenv("HEADRACE_STORE", str(tmp_path / "store"))
    return tmp_path / "store" / HOME


def log(folder: Path, run: int, task: str, number: int, text: str) -> None:
    file = folder / f"run-{run}" / task / "salt" / f"executor-logs-{number}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (10 * run + number, 10 * run + number))


def test_the_last_five_runs_count_each_by_the_last_try_of_a_task(folder: Path, tmp_path: Path) -> None:
    for run in range(7):
        log(folder, run, "trainer", 0, f"Trainer: started\n{last_line('Trainer', 10, (9000 - run) * MIB, 15)}\n")
    log(folder, 6, "trainer", 1, f"step 1\n{last_line('Trainer', 10, 2000 * MIB, 31.4)}\n")
    log(folder, 6, "pusher", 0, "Pusher: started\nkilled\n")
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "executor-logs").write_text(last_line("Pusher", 1, 1, 1))
    config = trips(f"pipeline.root={tmp_path}/runs")
    assert measured.peaks(config, open_store({})) == {"Trainer": PeakUsage(8998 * MIB, 3.14, in_pod=True)}


def test_what_pods_took_goes_before_what_was_taken_here_and_makes_the_request(folder: Path, tmp_path: Path) -> None:
    nodes = [NodeRecord(id=name, upstream=[]) for name in ("Trainer", "Transform")]
    for node in nodes:
        node.peak_bytes, node.cpus = 4096 * MIB, 1.2
    config = trips(f"pipeline.root={tmp_path}/runs", "kubeflow.resources=auto")
    run = Folders.of(config).runs / "run-1"
    run.mkdir(parents=True)
    RunRecord("run-1", "trips", "", started=1.0, finished=2.0, status=Status.DONE, nodes=nodes).write(run)
    log(folder, 1, "trainer", 0, last_line("Trainer", 10, 1043 * MIB, 17))
    executors = compiled(f"pipeline.root={tmp_path}/runs", "kubeflow.resources=auto")["deploymentSpec"]["executors"]
    asked = {name: one["container"]["resources"] for name, one in executors.items()}
    trainer, transform = asked["exec-trainer"], asked["exec-transform"]
    assert (trainer["resourceMemoryRequest"], trainer["resourceCpuRequest"]) == ("1536Mi", "2")  # (1.02 + 0.1) * 1.25
    assert transform["resourceMemoryRequest"] == "6Gi"  # (4 + 0.6) * 1.25
    assert asked["exec-pusher"]["resourceMemoryRequest"] == "1Gi"  # of the table


@pytest.mark.slow
def test_a_store_out_of_reach_is_reported_and_runs_here_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr("headrace.pipeline.kubeflow.store.ATTEMPTS", 2)
    config = trips(f"pipeline.root={tmp_path}/runs")
    store = Store({"endpoint": "http://127.0.0.1:1"})
    assert measured.peaks(config, store) == {}
    assert "minio://mlpipeline/v2/artifacts/trips cannot be read" in log.text


@pytest.mark.slow
def test_warning_is_shown_although_libraries_are_hidden_while_the_pipeline_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr("headrace.pipeline.kubeflow.store.ATTEMPTS", 2)
    settings = ("kubeflow.resources=auto", "kubeflow.object_store.endpoint=http://127.0.0.1:1")
    logger = logging.getLogger("headrace")
    with open(2, "w", encoding="utf-8", closefd=False) as stderr:
        logger.addHandler(handler := logging.StreamHandler(stderr))
        try:
            compile_pipeline(trips(f"pipeline.root={tmp_path}/runs", *settings))
        finally:
            logger.removeHandler(handler)
    assert "artifacts/trips cannot be read" in capfd.readouterr().err
