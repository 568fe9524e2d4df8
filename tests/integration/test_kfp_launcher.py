"""A pipeline through a stock Kubeflow Pipelines release: its API server, driver and launcher, over an object store.

What stands for the rest of a cluster: a process that follows the Argo workflow (kfp_argo), pods as processes that have
their own `/minio` (kfp_kubernetes), ML Metadata's own store behind gRPC (kfp_metadata), and moto's S3 server.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import ROOT, headrace
from kfp_argo import Argo, Programs, ReachedError
from kfp_kubernetes import Kubernetes, pods_work
from kfp_metadata import ended_tasks
from kfp_server import Server, build_command, started

from configs.loader import load
from pipeline.kubeflow.verify.driver import TaskRun
from pipeline.kubeflow.verify.verify import compared
from pipeline.local.record import RunRecord

pytestmark = pytest.mark.slow

TAXI = ROOT / "configs" / "taxi.yaml"
TRIPS = ROOT / "tests" / "pipeline" / "kubeflow" / "golden" / "trips.yaml"
BUCKET = "mlpipeline"
PIPELINE_ROOT = f"minio://{BUCKET}/v2/artifacts"
HOME = "v2/artifacts/chicago-taxi"
SECRET = "mlpipeline-minio-artifact"
KEYS = {"accesskey": "headrace", "secretkey": "only-for-this-test"}
PROVIDERS = """
minio:
  default:
    endpoint: %s
    region: us-east-1
    disableSSL: true
    credentials: {fromEnv: false, secretRef: {secretName: %s, accessKeyKey: accesskey, secretKeyKey: secretkey}}
"""
LOOKERS = {"spans", "baseline", "record-blessing"}


@dataclass(frozen=True)
class Bucket:
    """The bucket of the runs on an S3 server."""

    server: str
    client: Any

    def names(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def copy(self, folder: Path) -> Path:
        """All of it in a folder."""
        for name in self.names():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(BUCKET, name, str(path))
        return folder


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
def bucket() -> Iterator[Bucket]:
    import boto3  # type: ignore[import-untyped]
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    keys = {"aws_access_key_id": KEYS["accesskey"], "aws_secret_access_key": KEYS["secretkey"]}
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=BUCKET)
    yield Bucket(url, client)
    server.stop()


@dataclass(frozen=True)
class Cluster:
    """All that a run needs."""

    server: Server
    kubernetes: Kubernetes
    programs: Programs
    metadata: str
    database: Path

    def argo(self, workflow: Any, *, stops: bool = False) -> Argo:
        """What runs a workflow."""
        return Argo(workflow, self.kubernetes, self.programs, services(self.server, self.metadata), stops)


@pytest.fixture(scope="module")
def cluster(
    server: Server, kfp_binary: Path, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    if why := pods_work():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("cluster")
    programs = Programs(build_command(kfp_binary, "driver"), build_command(kfp_binary, "launcher-v2"))
    launcher = {"defaultPipelineRoot": PIPELINE_ROOT, "providers": PROVIDERS % (bucket.server[7:], SECRET)}
    objects = {"secrets": {SECRET: KEYS}, "configmaps": {"kfp-launcher": launcher}}
    database = folder / "metadata.sqlite"
    program = (sys.executable, str(Path(__file__).with_name("kfp_metadata.py")), str(database))
    with (
        started(folder / "metadata.log", *program) as metadata,
        Kubernetes(folder, objects, [kfp_binary.parent]) as kubernetes,
    ):
        yield Cluster(server, kubernetes, programs, metadata, database)


@pytest.fixture(scope="module")
def story(
    cluster: Cluster, bucket: Bucket, new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Story:
    store = (f"kubeflow.object_store.secret={SECRET}", f"kubeflow.object_store.endpoint={bucket.server}")
    options = ("kubeflow.image=registry.example/headrace:1", *store)
    file = compiled(tmp_path_factory.mktemp("compiled"), TAXI, *options)
    runs, pods = [], []
    for workflow in submitted(cluster.server, file, 2):
        argo = cluster.argo(workflow)
        argo.run()
        runs.append(ended_tasks(cluster.database, workflow["metadata"]["labels"]["pipeline/runid"]))
        pods.append(argo.pods)
    local = headrace(new_folder("local"), "run", str(TAXI))
    assert local.code == 0, local.out + local.err
    logs = {name: pod.log for name, pod in pods[0].items()}
    files = bucket.copy(tmp_path_factory.mktemp("minio") / BUCKET)
    return Story(local.run, runs[0], runs[1], logs, bucket.names(), files, options)


def compiled(folder: Path, config: Path, *options: str, profile: str = "") -> Path:
    """The file that a config is compiled to."""
    file = folder / "pipeline.yaml"
    given = [part for option in options for part in ("--set", option)] + (["--profile", profile] if profile else [])
    done = headrace(ROOT, "compile", str(config), *given, "-o", str(file))
    assert done.code == 0, done.out + done.err
    return file


def submitted(server: Server, file: Path, times: int) -> Iterator[Any]:
    """The Argo workflows of so many runs of a pipeline, each made when it is asked for."""
    from kfp.client import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the client, about servers before 2.0
        client = Client(host=server.url)
    pipeline = client.upload_pipeline(str(file), pipeline_name=file.parent.name)
    version = client.list_pipeline_versions(pipeline.pipeline_id).pipeline_versions[0]
    chosen = {"pipeline_id": pipeline.pipeline_id, "version_id": version.pipeline_version_id}
    experiment = client.create_experiment(file.parent.name).experiment_id
    for number in range(times):
        run = client.run_pipeline(experiment, f"run {number}", **chosen, pipeline_root=PIPELINE_ROOT)
        yield server.workflow(run.run_id)


def services(server: Server, metadata: str) -> dict[str, str]:
    """Where the driver finds what a cluster has names for."""
    found = {"--ml_pipeline_server": server.services, "--mlmd_server": metadata}
    split = {name: address.split(":") for name, address in found.items()}
    return {
        option: value
        for name, (host, port) in split.items()
        for option, value in ((f"{name}_address", host), (f"{name}_port", port))
    }


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
    told = story.first["pusher"].artifacts["pushed_model"]["metadata"]
    version = told["pushed_version"]
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


def test_the_account_of_runs_may_read_what_driver_and_launcher_read(story: Story, cluster: Cluster) -> None:
    runner = (ROOT / "kubernetes" / "base" / "runner.yaml").read_text()
    rules = next(one for one in yaml.safe_load_all(runner) if one["kind"] == "Role")["rules"]
    asked = cluster.kubernetes.asked
    assert {("configmaps", "kfp-launcher"), ("secrets", SECRET)} <= asked
    assert story.first  # after the runs
    for kind, name in asked:
        allowed = (rule for rule in rules if kind in rule["resources"] and "get" in rule["verbs"])
        assert any(name in rule.get("resourceNames", [name]) for rule in allowed), f"{kind}/{name}"


def test_kubeflows_own_driver_gives_a_pod_every_setting(cluster: Cluster, tmp_path: Path) -> None:
    asked = yaml.safe_load((TRIPS.with_name("trips.cluster.yaml")).read_text())["kubeflow"]
    everything = json.dumps({**asked["defaults"], **asked["components"]["Trainer"]})
    file = compiled(tmp_path, TRIPS, f"kubeflow.defaults={everything}", profile="cluster")
    (workflow,) = submitted(cluster.server, file, 1)
    with pytest.raises(ReachedError) as reached:
        cluster.argo(workflow, stops=True).run()
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
    assert patch["imagePullSecrets"] == [{"name": "registry"}]
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
    wait = {"duration": "10", "factor": "1.5", "maxDuration": "300"}
    assert template["retryStrategy"] == {"limit": "2", "backoff": wait}
