"""Logs of components on Kubeflow: by the name of the pod, and from the launcher's copy."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faulty_backend import Backend, connected, fails

from configs.errors import RunError
from configs.kubeflow_server import ServerAuth
from pipeline.kubeflow.server.logs import Kept, fnv1a, log, pods
from pipeline.kubeflow.server.versions import graph
from pipeline.kubeflow.store import Store

COMPILED = {
    "pipeline_spec": {
        "root": {
            "dag": {
                "tasks": {"trainer": {"componentRef": {"name": "comp-trainer"}, "retryPolicy": {"maxRetryCount": 1.0}}}
            }
        },
        "components": {"comp-trainer": {"executorLabel": "exec-trainer"}},
    },
    "platform_spec": {
        "platforms": {
            "kubernetes": {
                "deploymentSpec": {
                    "executors": {"exec-trainer": {"podMetadata": {"labels": {"team": "a", "cost": "b"}}}}
                }
            }
        }
    },
}
RETRIED = graph(COMPILED)["trainer"]


def run_with(child: str | None) -> Any:
    children = [SimpleNamespace(pod_name=child)] if child else None
    detail = SimpleNamespace(display_name="trainer", child_tasks=children)
    return SimpleNamespace(run_id="id-0", display_name="taxi-1", run_details=SimpleNamespace(task_details=[detail]))


@pytest.mark.parametrize(("text", "value"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)])
def test_the_hash_is_that_of_its_authors(text: str, value: int) -> None:
    assert fnv1a(text) == value


def test_a_log_is_read_by_the_name_of_the_last_try_s_pod(backend: Backend, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("tells-nobody")
    backend.faults = [fails(200, '{"error_message":"no such pod"}'), fails(200, "step 1\n")]
    server = connected(backend, auth=ServerAuth(kind="bearer", file=str(token)))
    kept = Kept(Store({}, str(tmp_path)), "s3://bucket", "kubeflow")
    found = log(server, run_with("taxi-abc-123"), "trainer", RETRIED, kept)
    assert found == "step 1\n"
    node = "taxi-abc.root.trainer.executor"
    assert [path for _, path in backend.seen] == [
        f"/apis/v1alpha1/runs/id-0/nodes/taxi-abc-metadata-0-2-retry-system-container-impl-{fnv1a(f'{node}({number})')}/log"
        for number in (1, 0)
    ]
    assert backend.headers[0]["authorization"] == "Bearer tells-nobody"


def test_a_pod_under_conditions_has_them_in_the_name_of_its_node() -> None:
    inner = {"trainer": {"componentRef": {"name": "comp-trainer"}}}
    components = {
        "comp-condition-1": {"dag": {"tasks": {"condition-2": {"componentRef": {"name": "comp-condition-2"}}}}},
        "comp-condition-2": {"dag": {"tasks": inner}},
    }
    root = {"dag": {"tasks": {"condition-1": {"componentRef": {"name": "comp-condition-1"}}}}}
    (task,) = graph({"root": root, "components": components}).items()
    node = "taxi-abc.root.condition-1.condition-2.trainer.executor"  # Argo's `taskNodeName`: a graph's, and a task's
    assert pods(run_with("taxi-abc-123"), *task) == [f"taxi-abc-system-container-impl-{fnv1a(node)}"]


def test_a_log_that_is_gone_is_told_with_the_way_to_it(backend: Backend, tmp_path: Path) -> None:
    kept = Kept(Store({}, str(tmp_path)), "minio://bucket/taxi", "kubeflow")
    backend.faults = [fails(200, '{"error_message":"no such pod"}')]
    with pytest.raises(RunError) as refused:
        log(connected(backend), run_with("taxi-abc-123"), "trainer", {}, kept)
    assert "kubectl logs -n kubeflow -c main taxi-abc-system-container-impl-" in str(refused.value)
    assert "copy in minio://bucket/taxi/id-0/trainer: it wrote none there yet" in str(refused.value)
    with pytest.raises(RunError, match="trainer has no pod in the run taxi-1"):
        log(connected(backend), run_with(None), "trainer", {}, kept)


def test_a_log_that_is_gone_is_read_from_the_launchers_copy_of_the_last_try(backend: Backend, tmp_path: Path) -> None:
    for number in range(2):
        file = tmp_path / "minio" / "bucket" / "taxi" / "id-0" / "trainer" / "salt" / f"executor-logs-{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"try {number}\n")
        os.utime(file, (number, number))
    (file.parent / "model").mkdir()
    (file.parent / "model" / "executor-logs").write_text("no log")
    backend.faults = [fails(200, '{"error_message":"no such pod"}')]
    kept = Kept(Store({}, str(tmp_path)), "minio://bucket/taxi", "kubeflow")
    assert log(connected(backend), run_with("taxi-abc-123"), "trainer", {}, kept) == "try 1\n"
