"""One component in a pod: its invocation, its outputs, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from command import PATIENCE

from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.tasks import ComponentTask, component_tasks
from headrace.pipeline.kubeflow.pod.invocation import Invocation

ROOT = Path(__file__).parents[3]
HOME = "minio://bucket/root/trips"
CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: "%s/trips-{SPAN}.csv"}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""


@dataclass(frozen=True)
class Pod:
    """A pod whose root is a folder, and how its process ended. has_store: whether a folder in it is the object store,
    instead of the server that the environment names.
    """

    root: Path
    has_store: bool = True

    def start(self, invocation: Invocation, reported: dict[str, Any]) -> subprocess.Popen[str]:
        (self.root / "dev").mkdir(parents=True, exist_ok=True)
        arguments = ["--invocation", invocation.to_json(), "--executor-input", json.dumps(reported)]
        own = {"HEADRACE_POD": str(self.root)} | (
            {"HEADRACE_STORE": str(self.root / "store")} if self.has_store else {}
        )
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace.pipeline.kubeflow.entrypoint", *arguments],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def message(self) -> str:
        return (self.root / "dev" / "termination-log").read_text()

    @property
    def reported(self) -> dict[str, Any]:
        file = self.root / "minio" / "bucket" / "root" / "trips" / "run" / "spans" / "salt" / "output_metadata.json"
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def executor_input(**parameters: Any) -> dict[str, Any]:
    task_root = f"{HOME}/run/spans/salt"
    artifacts = {
        key: {"artifacts": [{"name": key, "uri": f"{task_root}/{key}", "type": {"schemaTitle": "system.Artifact"}}]}
        for key in ("record", "executor-logs")
    }
    return {
        "inputs": {"parameterValues": parameters},
        "outputs": {
            "artifacts": artifacts,
            "parameters": {"spans": {"outputFile": "/tmp/kfp/outputs/spans"}},
            "outputFile": f"/{task_root.replace('minio://', 'minio/')}/output_metadata.json",
        },
    }


@pytest.fixture
def spans(tmp_path: Path) -> ComponentTask:
    (tmp_path / "data").mkdir()
    for number in (3, 4):
        (tmp_path / "data" / f"trips-{number}.csv").write_text("fare,tip\n1.5,0\n")
    config = tmp_path / "trips.yaml"
    config.write_text(CONFIG % (tmp_path / "data"))
    return next(task for task in component_tasks(load(config)) if task.name == "spans")


@pytest.mark.slow
def test_component_runs_on_the_runs_parameters_and_reports_its_outputs(spans: ComponentTask, tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod")
    process = pod.start(spans.invocation, executor_input(spans="3"))
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    lines = [line for line in out.splitlines() if line.startswith("Spans:")]
    assert lines[0] == "Spans: started"
    assert lines[-1].startswith("Spans: done in ")
    assert "WARNING:absl" not in out
    manifest = json.loads(pod.reported["parameterValues"]["spans"])
    assert [span["number"] for span in manifest["spans"]] == [3]
    assert pod.reported["artifacts"] == {}  # the log is Kubeflow's own, the record has nothing to tell
    record = tmp_path / "pod" / "minio" / "bucket" / "root" / "trips" / "run" / "spans" / "salt" / "record"
    assert json.loads(record.read_text()) == manifest


@pytest.mark.slow
def test_a_failure_ends_with_its_cause_on_the_last_line_and_in_the_termination_message(
    spans: ComponentTask, tmp_path: Path
) -> None:
    pod = Pod(tmp_path / "pod")
    process = pod.start(spans.invocation, executor_input(spans="9"))
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert out.splitlines()[-1] == "Spans failed: there is no span 9"
    assert "Traceback" not in out
    assert pod.message.splitlines()[-1] == "Spans failed: there is no span 9"
    assert "There are 2, from 3 to 4" in pod.message
    assert len(pod.message.encode()) <= 4096


@pytest.mark.slow
def test_termination_is_reported_as_such(spans: ComponentTask, tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod")
    with_tfx = replace(spans.invocation, kind="mine.Spans")  # its imports take seconds
    process = pod.start(with_tfx, executor_input())
    assert process.stdout is not None
    while process.stdout.readline() != "Spans: started\n":
        pass
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, out
    assert out.splitlines()[-1].startswith("Spans failed: ended by SIGTERM")
    assert "SIGTERM" in pod.message


def test_invocation_survives_its_text(spans: ComponentTask) -> None:
    assert Invocation.from_json(spans.invocation.to_json()) == spans.invocation
