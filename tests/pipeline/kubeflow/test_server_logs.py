"""Logs of components on Kubeflow: by the name of the pod, and from the launcher's copy."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faulty_backend import Backend, connected, fails
from kube_api import use_kubeconfig

from headrace.common.errors import RunError
from headrace.configs.schema.kubeflow import ServerAuth
from headrace.pipeline.kubeflow.document import flat_graph
from headrace.pipeline.kubeflow.server.logs import LauncherLogs, fnv1a, follow, pods, read_log
from headrace.pipeline.kubeflow.server.status import Clock
from headrace.pipeline.kubeflow.store import Store

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
RETRIED = flat_graph(COMPILED)["trainer"]


WORKFLOW = "taxi-abc"


def run_of(*nodes: str) -> Any:
    """A run whose entries have these nodes as children, as the API names them."""
    children = [SimpleNamespace(pod_name=f"{WORKFLOW}-{fnv1a(WORKFLOW + node)}") for node in nodes]
    details = [SimpleNamespace(display_name="executor", child_tasks=[child]) for child in children]
    reported = SimpleNamespace(task_details=details)
    return SimpleNamespace(run_id="id-0", display_name="taxi-1", run_details=reported, tasks=None)


def pod_of(node: str, template: str = "system-container-impl") -> str:
    return f"{WORKFLOW}-{template}-{fnv1a(WORKFLOW + node)}"


STOCK = ("(0)", "(0).root", "(0).root(0)", "(0).root(0).trainer", "(0).root(0).trainer(0)")
TRIES = ("(0).root(0).trainer(0).executor", *(f"(0).root(0).trainer(0).executor({number})" for number in range(2)))
"""Nodes by Kubeflow's stock configuration of Argo, in which every node may be retried."""


@pytest.mark.parametrize(("text", "value"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)])
def test_the_hash_is_that_of_its_authors(text: str, value: int) -> None:
    assert fnv1a(text) == value


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((*STOCK, *TRIES), [TRIES[2], TRIES[1]]),
        ((*STOCK, "(0).root(0).trainer(0).driver"), []),
        ((".root", ".root.trainer", ".root.trainer.executor"), [".root.trainer.executor"]),
        ((".root", ".root.trainer.executor", ".root.trainer.executor(0)"), [".root.trainer.executor(0)"]),
        ((*STOCK, "(0).root(0).evaluator(0).executor(0)"), []),
        ((), []),
    ],
)
def test_pods_are_those_whose_nodes_the_api_names_the_last_try_first(
    nodes: tuple[str, ...], expected: list[str]
) -> None:
    assert pods(run_of(*nodes), "trainer", {}) == [pod_of(node) for node in expected]


def test_a_pod_under_conditions_has_them_in_the_name_of_its_node() -> None:
    inner = {"trainer": {"componentRef": {"name": "comp-trainer"}}}
    components = {
        "comp-condition-1": {"dag": {"tasks": {"condition-2": {"componentRef": {"name": "comp-condition-2"}}}}},
        "comp-condition-2": {"dag": {"tasks": inner}},
    }
    root = {"dag": {"tasks": {"condition-1": {"componentRef": {"name": "comp-condition-1"}}}}}
    (task,) = flat_graph({"root": root, "components": components}).items()
    for node in (
        ".root.condition-1.condition-2.trainer.executor",
        "(0).root(0).condition-1(0).condition-2(0).trainer(0).executor(0)",
    ):
        parents = [node[: place.start()] for place in re.finditer(r"[.(]", node)]
        parents += [node[: place.end()] for place in re.finditer(r"\)", node)]
        assert pods(run_of(*filter(None, parents), node), *task) == [pod_of(node)]


@pytest.fixture(autouse=True)
def _no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))


UNREADABLE = fails(
    200, '{"error_message":"Failed to read logs: pods \\"x\\" is forbidden: pods/log at the cluster scope"}'
)
GONE = fails(500, "Could not get main container logs: gone")


def test_a_log_is_read_by_the_name_of_the_last_try_s_pod(backend: Backend, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("tells-nobody")
    backend.faults = [UNREADABLE, GONE, fails(200, "step 1\n")]
    server = connected(backend, auth=ServerAuth(kind="bearer", file=str(token)))
    kept = LauncherLogs(Store({}, str(tmp_path)), "s3://bucket", "kubeflow")
    assert read_log(server, run_of(*STOCK, *TRIES), "trainer", RETRIED, kept) == "step 1\n"
    template = "metadata-0-2-retry-system-container-impl"
    assert [path for _, path in backend.seen if "v1alpha1" in path] == [
        f"/apis/v1alpha1/runs/id-0/nodes/{pod_of(node, template)}/log" for node in (TRIES[2], TRIES[1])
    ]
    assert backend.headers[0]["authorization"] == "Bearer tells-nobody"


def test_a_log_that_the_api_server_may_not_read_is_read_by_kubeflow_s_interface(
    backend: Backend, tmp_path: Path
) -> None:
    for refusal in (UNREADABLE, fails(200, "<!doctype html><title>Kubeflow</title>")):
        backend.faults = [refusal, fails(200, "step 2\n")]
        kept = LauncherLogs(Store({}, str(tmp_path)), "s3://bucket", "team-a")
        assert read_log(connected(backend), run_of(*STOCK, *TRIES), "trainer", {}, kept) == "step 2\n"
        path = f"/k8s/pod/logs?podname={pod_of(TRIES[2])}&runid=id-0&podnamespace=team-a"
        assert backend.seen[-1] == ("GET", path)


@pytest.mark.parametrize(("run_id", "readable"), [("id-0", True), ("id-1", False)])
def test_a_log_is_read_through_the_kubeconfig_if_the_pod_is_this_run_s(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_id: str, readable: bool
) -> None:
    use_kubeconfig(monkeypatch, tmp_path, backend.url)
    pod = {"metadata": {"name": "x", "labels": {"pipeline/runid": run_id}}}
    kept = LauncherLogs(Store({}, str(tmp_path)), "minio://bucket", "kubeflow")
    backend.faults = [UNREADABLE, GONE, fails(200, pod), fails(200, "step 3\n")]
    run = run_of(".root", ".root.trainer.executor")
    if readable:
        assert read_log(connected(backend), run, "trainer", {}, kept) == "step 3\n"
        name = pod_of(".root.trainer.executor")
        assert backend.seen[-1][1] == f"/api/v1/namespaces/kubeflow/pods/{name}/log?container=main"
        assert backend.headers[-1]["authorization"] == "Bearer mine"
    else:
        with pytest.raises(RunError, match=r"kubeconfig of this machine: .*pod \S+ .*another run"):
            read_log(connected(backend), run, "trainer", {}, kept)
        assert len(backend.seen) == 3


def test_a_log_that_cannot_be_read_is_reported_with_each_reason_and_the_way_to_it(
    backend: Backend, tmp_path: Path
) -> None:
    kept = LauncherLogs(Store({}, str(tmp_path)), "minio://bucket/taxi", "kubeflow")
    backend.faults = [UNREADABLE, GONE]
    with pytest.raises(RunError) as refused:
        read_log(connected(backend), run_of(".root", ".root.trainer.executor"), "trainer", {}, kept)
    message = str(refused.value)
    assert "the API server: pods/log at the cluster scope" in message
    assert "Kubeflow's interface" in message
    assert "kubeconfig of this machine: " in message
    assert "copy in minio://bucket/taxi/id-0/trainer: there is none yet" in message
    assert message.endswith(f"kubectl logs -n kubeflow -c main {pod_of('.root.trainer.executor')}")
    with pytest.raises(RunError, match="trainer has no pod in the run taxi-1"):
        read_log(connected(backend), run_of(), "trainer", {}, kept)


def test_a_log_that_is_gone_is_read_from_the_launchers_copy_of_the_last_try(backend: Backend, tmp_path: Path) -> None:
    for number in range(2):
        file = tmp_path / "minio" / "bucket" / "taxi" / "id-0" / "trainer" / "salt" / f"executor-logs-{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"try {number}\n")
        os.utime(file, (number, number))
    (file.parent / "model").mkdir()
    (file.parent / "model" / "executor-logs").write_text("no log")
    backend.faults = [UNREADABLE, GONE]
    kept = LauncherLogs(Store({}, str(tmp_path)), "minio://bucket/taxi", "kubeflow")
    assert read_log(connected(backend), run_of(".root", ".root.trainer.executor"), "trainer", {}, kept) == "try 1\n"


def test_a_followed_log_is_reported_once_and_a_further_try_from_its_beginning() -> None:
    texts: list[str | None] = [None, "a\n", "a\nb\n", None, "again\n", "again\nc\n"]
    reported, slept = list[str](), list[float]()

    def read() -> str:
        text = texts.pop(0)
        if text is None:
            raise RunError("out of reach")
        return text

    follow(read, lambda: len(texts) == 1, reported.append, Clock(slept.append))
    assert "".join(reported) == "a\nb\nagain\nc\n"
    assert len(slept) == 5
    texts = [None]
    with pytest.raises(RunError, match="out of reach"):
        follow(read, lambda: True, reported.append, Clock(slept.append))
