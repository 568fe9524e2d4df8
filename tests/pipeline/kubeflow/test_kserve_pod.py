"""The Pusher's pod with `deploy.kserve`: its own process, on a stand-in of KServe."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command import PATIENCE
from compiled_trips import TRIPS, trips
from kserve_cluster import Cluster
from kserve_objects import FIRST
from kserve_pods import Plan
from test_kubeflow_entrypoint import Pod

from headrace.common.errors import ConfigError
from headrace.components.stored_models.blessed_record import Registry, inside
from headrace.components.stored_models.blessing import record_blessing
from headrace.configs.loading.loader import load_with_locations
from headrace.configs.rules import on_kubeflow
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import FOLDER, Store

ROOT = "minio://bucket/root"
HOME = f"{ROOT}/trips"
MODEL = f"{HOME}/run/trainer/5/model"
SETTINGS = (
    f"kubeflow.pipeline_root={ROOT}",
    "deploy.canary=null",
    "deploy.kserve={name: headrace-model, canary_percent: 10, ready: 2s, observe: 1s}",
)


@pytest.fixture
def pod(forked_pods: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pod:
    monkeypatch.setenv(FOLDER, str(tmp_path / "pod" / "store"))
    return Pod(tmp_path / "pod")


def blessed(pod: Pod, folder: Path) -> str:
    """A blessed model in the store; its entry, as RecordBlessing outputs it."""
    store = Store({}, str(pod.root / "store"))
    store.write(f"{MODEL}/Format-Serving/saved_model.pb", "graph")
    paths = PodPaths(str(folder))
    file = paths.local(f"{HOME}/blessed.json")
    with present({"registry": str(file)}, paths, store):
        record_blessing(file, str(paths.local(MODEL)), datetime(2026, 3, 1, tzinfo=UTC))
        (entry,) = Registry.read(file).models
    return (
        entry.with_paths(lambda uri: inside(file.parent, uri)).model_copy(update={"contents": None}).model_dump_json()
    )


def executor_input(entry: str) -> dict[str, Any]:
    root = f"{HOME}/run/pusher/7"

    def artifact(name: str, uri: str, **metadata: int) -> dict[str, Any]:
        type_ = {"schemaTitle": "system.Artifact"}
        return {"artifacts": [{"name": name, "uri": uri, "type": type_, "metadata": metadata}]}

    blessing = artifact("blessing", f"{HOME}/run/evaluator/6/blessing", blessed=1)
    return {
        "inputs": {
            "parameterValues": {"model": json.dumps({"uri": MODEL}), "entry": entry},
            "artifacts": {"model_blessing": blessing},
        },
        "outputs": {
            "artifacts": {name: artifact(name, f"{root}/{name}") for name in ("pushed_model", "executor-logs")},
            "outputFile": f"/{root.replace('minio://', 'minio/')}/output_metadata.json",
        },
    }


def run_pusher(pod: Pod, entry: str) -> tuple[int, str]:
    task = next(task for task in component_tasks(trips(*SETTINGS)) if task.name == "pusher")
    process = pod.start(task.invocation, executor_input(entry))
    out, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, out


def test_pod_that_would_end_before_its_rollout_is_refused() -> None:
    short = "kubeflow.components.Pusher.timeout=20m"
    with pytest.raises(ConfigError, match=r"deploy\.kserve: .*ends after 20m.*2,400 seconds.*Pusher\.timeout"):
        load_with_locations(TRIPS, overrides=["deploy.kserve={name: taxi}", short], rules=on_kubeflow.RULES)
    enough = ["deploy.kserve={name: taxi, ready: 4m, observe: 5m}", short]
    load_with_locations(TRIPS, overrides=enough, rules=on_kubeflow.RULES)


@pytest.mark.slow
def test_pod_points_the_service_to_what_it_pushed(pod: Pod, cluster: Cluster, tmp_path: Path) -> None:
    code, out = run_pusher(pod, blessed(pod, tmp_path / "record"))
    assert code == 0, out
    version = cluster.uri.rpartition("/")[2]
    assert cluster.uri == f"s3://bucket/root/trips/kserve/models/{version}"
    copied = pod.root / f"store/minio/bucket/root/trips/kserve/models/{version}/{version}/saved_model.pb"
    assert copied.read_text() == "graph"
    assert (pod.root / f"store/minio/bucket/root/trips/serving/trips/{version}/saved_model.pb").read_text() == "graph"
    assert f"serves version {version}" in out
    assert cluster.service["metadata"]["annotations"]["headrace/run"] == "run/pusher"


@pytest.mark.slow
def test_pod_whose_version_fails_ends_with_the_reason(pod: Pod, cluster: Cluster, tmp_path: Path) -> None:
    cluster.plans[FIRST] = Plan()
    cluster.otherwise = Plan(load_error="Op type not registered 'Sorcery'")
    code, out = run_pusher(pod, blessed(pod, tmp_path / "record"))
    assert code == 1, out
    assert "failed on InferenceService headrace-model" in pod.message
    assert "Op type not registered 'Sorcery'" in pod.message
    assert "Traceback" not in pod.message
    assert (cluster.uri, cluster.canary) == (FIRST, None)
