"""A pipeline through a stock Kubeflow Pipelines release: its API server, driver and launcher, over an object store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from command import ROOT, headrace
from kfp_argo import ReachedError
from kfp_cluster import BUCKET, SECRET, Bucket, Cluster, cluster
from kfp_metadata import ended_tasks
from kfp_server import Server

from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.verify.driver import TaskRun
from headrace.pipeline.kubeflow.verify.verify import compared
from headrace.pipeline.results.record import RunRecord

pytestmark = pytest.mark.slow

TAXI = ROOT / "configs" / "taxi.yaml"
TRIPS = ROOT / "tests" / "pipeline" / "kubeflow" / "golden" / "trips.yaml"
HOME = "v2/artifacts/chicago-taxi"
LOOKERS = {"spans", "baseline", "record-blessing"}


@dataclass(frozen=True)
class Story:
    """A local run, and the same pipeline twice in the cluster."""

    record: RunRecord
    first: dict[str, TaskRun]
    second: dict[str, TaskRun]
    logs: dict[str, str]
    names: list[str]
    files: Path
    options: tuple[str, ...]


@pytest.fixture(scope="module")
def there(
    server: Server, kfp_binary: Path, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with cluster(server, kfp_binary, bucket, tmp_path_factory.mktemp("cluster")) as there:
        yield there


@pytest.fixture(scope="module")
def story(
    there: Cluster, bucket: Bucket, new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Story:
    # The keys are those of Kubeflow's own Secret, as nothing else is said.
    options = ("kubeflow.image=registry.example/headrace:1", f"kubeflow.object_store.endpoint={bucket.server}")
    file = compiled(tmp_path_factory.mktemp("compiled"), TAXI, *options)
    chosen = there.uploaded(file)
    first, second = there.run(chosen), there.run(chosen)
    runs = [ended_tasks(there.database, run.run_id) for run in (first, second)]
    local = headrace(new_folder("local"), "run", str(TAXI))
    assert local.code == 0, local.out + local.err
    logs = {name: pod.log for name, pod in first.pods.items()}
    files = bucket.copy(tmp_path_factory.mktemp("minio") / BUCKET)
    return Story(local.run, runs[0], runs[1], logs, bucket.names(), files, options)


def compiled(folder: Path, config: Path, *options: str, profile: str = "") -> Path:
    """The file that a config is compiled to."""
    file = folder / "pipeline.yaml"
    given = [part for option in options for part in ("--set", option)] + (["--profile", profile] if profile else [])
    done = headrace(ROOT, "compile", str(config), *given, "-o", str(file))
    assert done.code == 0, done.out + done.err
    return file


def test_kubeflows_own_driver_and_launcher_give_what_a_local_run_gives(story: Story) -> None:
    config = load(TAXI, overrides=story.options)
    lines = list(compared(config, story.record, story.first, lambda uri: path_of(story, uri)))
    different = [str(line) for line in lines if not line.same]
    assert not different
    found = {f"{line.component}.{line.output}": line.what for line in lines}
    assert "byte for byte" in found["ExampleGen.examples"]
    assert "byte for byte" in found["Transform.transformed_examples"]
    assert "4 metrics in 30 slices" in found["Evaluator.evaluation"]
    assert "Pusher.pushed_model" in found


def path_of(story: Story, uri: str) -> Path:
    return story.files.parent / uri.removeprefix("minio://")


def test_pushed_model_lies_whole_in_the_object_store(story: Story) -> None:
    reported = story.first["pusher"].artifacts["pushed_model"]["metadata"]
    version = reported["pushed_version"]
    assert f"{HOME}/serving/chicago-taxi/{version}/saved_model.pb" in story.names


def test_kubeflows_own_cache_takes_all_but_the_lookers(story: Story) -> None:
    assert {name for name, task in story.second.items() if task.cached} == story.second.keys() - LOOKERS
    assert not [name for name, task in story.first.items() if task.cached]


def test_each_pods_log_is_stored_by_the_launcher(story: Story) -> None:
    stored = [name.split("/")[-3] for name in story.names if name.rpartition("/")[2].startswith("executor-logs")]
    assert set(stored) == story.first.keys()
    assert "Trainer: done" in story.logs["trainer"]


def test_a_finished_training_leaves_no_checkpoints_in_the_store(story: Story) -> None:
    assert not [name for name in story.names if name.startswith(f"{HOME}/checkpoints/")]


def test_the_account_of_runs_may_read_what_driver_and_launcher_read(story: Story, there: Cluster) -> None:
    runner = (ROOT / "kubernetes" / "base" / "runner.yaml").read_text()
    rules = [rule for one in yaml.safe_load_all(runner) if one["kind"] == "Role" for rule in one["rules"]]
    asked = there.kubernetes.asked
    assert {("configmaps", "kfp-launcher"), ("secrets", SECRET)} <= asked
    assert story.first  # after the runs
    for kind, name in asked:
        allowed = (rule for rule in rules if kind in rule["resources"] and "get" in rule["verbs"])
        assert any(name in rule.get("resourceNames", [name]) for rule in allowed), f"{kind}/{name}"


def test_kubeflows_own_driver_gives_a_pod_every_setting(there: Cluster, tmp_path: Path) -> None:
    asked = yaml.safe_load((TRIPS.with_name("trips.cluster.yaml")).read_text())["kubeflow"]
    everything = json.dumps({**asked["defaults"], **asked["components"]["Trainer"]})
    file = compiled(tmp_path, TRIPS, f"kubeflow.defaults={everything}", profile="cluster")
    run = there.submitted(there.uploaded(file))
    with pytest.raises(ReachedError) as reached:
        there.argo(there.server.executed(run.run_id), stops=True).run()
    patch, template = reached.value.patch, reached.value.template
    (container,) = patch["containers"]
    assert container["image"] == "registry.example/headrace-gpu:1"
    assert container["resources"] == {
        "limits": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"},
        "requests": {"cpu": "4", "memory": "2Gi"},
    }
    assert patch["nodeSelector"] == {"pool": "gpu"}
    assert patch["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    assert patch["imagePullSecrets"] == [{"name": "gpu-registry"}, {"name": "mirror"}]
    user = {"runAsUser": 1001, "runAsGroup": 2000, "runAsNonRoot": True}
    assert container["securityContext"] == {**user, "capabilities": {"drop": ["ALL"]}}
    assert patch["activeDeadlineSeconds"] == 7200
    variables = {one["name"]: one.get("value") or one["valueFrom"]["secretKeyRef"] for one in container["env"]}
    password = {"name": "database", "key": "password", "optional": False}
    assert variables["NCCL_DEBUG"] == "INFO"
    assert variables["DB_PASSWORD"] == variables["DB_AGAIN"] == password
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    sources = {one["name"]: one for one in patch["volumes"]}
    assert mounts["/data"]["subPath"] == "trips"
    assert sources[mounts["/data"]["name"]]["persistentVolumeClaim"] == {"claimName": "data"}
    assert sources[mounts["/headrace"]["name"]]["persistentVolumeClaim"] == {"claimName": "artifacts"}
    assert sources[mounts["/certificates"]["name"]]["secret"] == {"secretName": "certificates", "optional": True}
    assert sources[mounts["/dev/shm"]["name"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "4Gi"}
    assert template["metadata"]["labels"]["team"] == "taxi"
    wait = {"duration": "10", "factor": "3", "maxDuration": str(2 * 86400)}
    # Argo lays Kubeflow's policy under it, so what this tries again is errors of the cluster alone.
    assert template["retryStrategy"] == {"limit": "2", "backoff": wait, "retryPolicy": "OnError"}
