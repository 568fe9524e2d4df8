"""A pipeline through a stock Kubeflow Pipelines release: its API server, driver and launcher, over an object store.

What stands for the rest of a cluster: a process that follows the Argo workflow (kfp_argo), pods as processes that have
their own `/minio` (kfp_kubernetes), ML Metadata's own store behind gRPC (kfp_metadata), and moto's S3 server.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, headrace
from kfp_argo import Argo, Programs
from kfp_kubernetes import Kubernetes, pods_work
from kfp_metadata import ended_tasks
from kfp_server import Server, build_command, started

from configs.loader import load
from pipeline.kubeflow.verify.driver import TaskRun
from pipeline.kubeflow.verify.verify import compared
from pipeline.local.record import RunRecord

pytestmark = pytest.mark.slow

TAXI = ROOT / "configs" / "taxi.yaml"
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


@pytest.fixture(scope="module")
def story(
    server: Server,
    kfp_binary: Path,
    bucket: Bucket,
    new_folder: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Story:
    if why := pods_work():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("cluster")
    programs = Programs(build_command(kfp_binary, "driver"), build_command(kfp_binary, "launcher-v2"))
    store = (f"kubeflow.object_store.secret={SECRET}", f"kubeflow.object_store.endpoint={bucket.server}")
    options = ("kubeflow.image=registry.example/headrace:1", *store)
    file = folder / "pipeline.yaml"
    given = [part for option in options for part in ("--set", option)]
    done = headrace(ROOT, "compile", str(TAXI), *given, "-o", str(file))
    assert done.code == 0, done.out + done.err
    launcher = {"defaultPipelineRoot": PIPELINE_ROOT, "providers": PROVIDERS % (bucket.server[7:], SECRET)}
    objects = {"secrets": {SECRET: KEYS}, "configmaps": {"kfp-launcher": launcher}}
    database = folder / "metadata.sqlite"
    program = (sys.executable, str(Path(__file__).with_name("kfp_metadata.py")), str(database))
    metadata = started(folder / "metadata.log", *program)
    with metadata as address, Kubernetes(folder, objects, [kfp_binary.parent]) as kubernetes:
        runs, pods = [], []
        for workflow in submitted(server, file, 2):
            argo = Argo(workflow, kubernetes, programs, services(server, address))
            argo.run()
            runs.append(ended_tasks(database, workflow["metadata"]["labels"]["pipeline/runid"]))
            pods.append(argo.pods)
    local = headrace(new_folder("local"), "run", str(TAXI))
    assert local.code == 0, local.out + local.err
    logs = {name: pod.log for name, pod in pods[0].items()}
    return Story(local.run, runs[0], runs[1], logs, bucket.names(), bucket.copy(folder / "minio" / BUCKET), options)


def submitted(server: Server, file: Path, times: int) -> Iterator[Any]:
    """The Argo workflows of so many runs of a pipeline, each made when it is asked for."""
    from kfp.client import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the client, about servers before 2.0
        client = Client(host=server.url)
    pipeline = client.upload_pipeline(str(file), pipeline_name="taxi")
    version = client.list_pipeline_versions(pipeline.pipeline_id).pipeline_versions[0]
    chosen = {"pipeline_id": pipeline.pipeline_id, "version_id": version.pipeline_version_id}
    experiment = client.create_experiment("launcher").experiment_id
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
