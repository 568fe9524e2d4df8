"""What the verbs tell of runs as a cluster reports them, against the API server of a stock Kubeflow Pipelines release.

What does not depend on reports is in test_kfp_verbs.py, for any server.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from kfp_commands import Built, name_of
from kfp_server import Server
from kfp_workflows import archived, report, with_pod

pytestmark = pytest.mark.slow

numbers = itertools.count(1000)


@pytest.fixture
def kubeflow(server: Server) -> Built:
    return Built(server, next(numbers))


def test_status_shows_each_components_state(kubeflow: Built) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    assert "no run nowhere" in kubeflow("status", "nowhere", code=1).err
    nodes = {
        "a": ("spans", "Succeeded", 0, 9),
        "b": ("executor", "Succeeded", 2, 9),
        "c": ("example-gen", "Succeeded", 10, 11),
        "d": ("executor", "Skipped", 10, 10),
        "e": ("statistics-gen", "Running", 12, 0),
    }
    report(kubeflow.server, run["run_id"], "Running", nodes)
    shown = [line.split()[1:] for line in kubeflow("status").lines]
    assert ["Spans", "done", "9.0", "s"] in shown
    assert ["ExampleGen", "cached", "1.0", "s"] in shown
    assert ["StatisticsGen", "running"] in shown
    nodes["e"] = ("statistics-gen", "Failed", 12, 20)
    report(kubeflow.server, run["run_id"], "Failed", nodes)
    done = kubeflow("status", run["run_id"], code=1)
    assert done.lines[-1] == f"run       {run['display_name']}  failed: StatisticsGen"
    assert any(line.split()[1:] == ["Trainer", "skipped"] for line in done.lines)


def test_a_cancelled_run_is_ended_once(kubeflow: Built) -> None:
    name = name_of(kubeflow("submit"))
    assert "is being cancelled" in kubeflow("cancel", name).out
    (run,) = kubeflow.runs()
    assert run["state"] == "CANCELING"
    assert kubeflow.server.workflow(run["run_id"])["spec"]["activeDeadlineSeconds"] == 0
    report(kubeflow.server, run["run_id"], "Running", {"a": ("spans", "Running", 0, 0)})  # what else would be lost
    assert [line.split()[2] for line in kubeflow("runs").lines] == ["cancelling"]
    assert kubeflow("status", name).lines[-1].endswith("being cancelled")
    assert "is being cancelled" in kubeflow("cancel", name).out  # of which the server is not asked again
    assert "is still being cancelled" in kubeflow("retry", name, code=1).err


def test_logs_name_an_archive_or_the_launchers_copy_as_their_source(kubeflow: Built, tmp_path: Path) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    assert "Trainer has no pod in the run" in kubeflow("logs", "Trainer", code=1).err
    pod = with_pod(kubeflow.server, kubeflow.server.workflow(run["run_id"]), run["run_id"], "trainer")
    store: dict[str, Any] = {"HEADRACE_STORE": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    gone = kubeflow("logs", "Trainer", code=1, **store).err
    folder = f"mlpipeline/v2/artifacts/{kubeflow.pipeline}/{run['run_id']}/trainer"
    assert f"kubectl logs -n kubeflow -c main {pod}" in gone
    assert f"the launcher's copy in minio://{folder}" in gone
    copy = tmp_path / "minio" / folder / "salt" / "executor-logs-0"
    copy.parent.mkdir(parents=True)
    copy.write_text("epoch 3/10\n")
    assert kubeflow("logs", "Trainer", **store).out == "epoch 3/10\n"
    archived(kubeflow.server, run["run_id"], pod, "epoch 2/10\n")
    assert kubeflow("logs", "Trainer", **store).out == "epoch 2/10\n"
