"""Training in several pods on Kubeflow: the Trainer's task and its workers as processes, between an object store and as
much of Kubernetes as they need.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import forks
import jobsets
import pytest
import yaml
from command import PATIENCE, ROOT, wait_until
from test_distributed import compare
from trainings import train_alone

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.compiler.tasks import ComponentTask, component_tasks
from headrace.pipeline.kubeflow.document import task_specs
from headrace.pipeline.kubeflow.pod.invocation import Invocation

pytestmark = pytest.mark.slow

Prepare = Callable[[str], Any]
HOME = "minio://bucket/root/shop"
TRAIN = {"epochs": 3, "batch_size": 96, "input": {"cache": "memory"}, "jit": "off", "learning_rate": 0.02}
STEPS = {"steps_per_execution": 4, "checkpoint": {"every_steps": 8}}
WAIT_FOR_THE_CHIEF = f"""
from headrace.pipeline.kubeflow.distributed import launch
launch.LAST_SECONDS = {PATIENCE}
"""
"""The task reads the chief's log to its end, however long a busy machine takes: nothing kills its pod after the 30
seconds that Kubernetes would give it.
"""


def config(folder: Path, workers: int = 2, **train: Any) -> PipelineConfig:
    """A pipeline whose Trainer trains on the data set of this folder's fixtures."""
    (folder / "rows.csv").write_text("amount,bought\n1.5,0\n")
    config = {
        "pipeline": {"name": "shop"},
        "data": {"source": {"kind": "csv", "path": str(folder / "rows.csv")}},
        "label": {"key": "bought", "kind": "binary"},
        "features": {"amount": {"column": "numeric"}},  # replaced by those of the fixtures
        "train": {**TRAIN, **STEPS, "strategy": "multi_worker", **train},
        "kubeflow": {"image": "headrace:1", "workers": {"count": workers, "restarts": 1}},
    }
    (folder / "shop.yaml").write_text(yaml.safe_dump(config))
    return load(folder / "shop.yaml")


class Outcome(NamedTuple):
    """How the Trainer's task ended, and what it left."""

    code: int
    log: str
    root: Path
    """Of its pod."""

    @property
    def folder(self) -> Path:
        """With `run` and `Format-Serving`, as of a training on one machine."""
        return self.root / "found"


class Kubeflow:
    """Runs the Trainer's task of a config in a pod of its own, with the transformed examples in the object store."""

    def __init__(self, folder: Path, data: Any) -> None:
        self.folder, self.store, self._data = folder, folder / "store", data
        self._inputs = {
            "examples": self.store / "minio/bucket/root/shop/run/transform/salt/transformed_examples",
            "transform_graph": self.store / "minio/bucket/root/shop/run/transform/salt/transform_graph",
            "schema": self.store / "minio/bucket/root/shop/run/schema/salt/schema",
        }
        for split in ("train", "eval"):
            place = self._inputs["examples"] / f"Split-{split}"
            shutil.copytree(Path(data.patterns[split]).parent, place)
        shutil.copytree(
            data.output.transform_savedmodel_dir.removesuffix("/transform_fn"), self._inputs["transform_graph"]
        )
        self._inputs["schema"].mkdir(parents=True)
        (self._inputs["schema"] / "schema.pbtxt").write_text("")
        role = [rule for one in roles() for rule in one["rules"]]
        own = jobsets.environment(HEADRACE_STORE=str(self.store))
        keys = {"mlpipeline-minio-artifact": {"accesskey": "a", "secretkey": "b"}}
        self.cluster = jobsets.Cluster(folder, role, own, keys)
        self._first = folder / "first.py"
        self._first.write_text(WAIT_FOR_THE_CHIEF)

    def start(self, run: str, chosen: PipelineConfig, pod: str) -> tuple[subprocess.Popen[bytes], Path]:
        """The task's pod: a process, and its root."""
        task = next(task for task in component_tasks(chosen) if task.name == "trainer")
        root = self.folder / pod
        for path in self._inputs.values():  # as Kubeflow's launcher does
            shutil.copytree(path, root / path.relative_to(self.store))
        (root / "dev").mkdir()
        account = {"serviceAccountName": "headrace-runner", "containers": []}
        self.cluster.tasks[pod] = {"metadata": {"name": pod, "uid": f"uid-of-{pod}"}, "spec": account}
        invocation = self._of_data(task.invocation, chosen)
        arguments = [
            "--invocation",
            invocation.to_json(),
            "--executor-input",
            json.dumps(executor_input(task, run, self.uris)),
        ]
        environment = jobsets.environment(
            HEADRACE_STORE=str(self.store),
            HEADRACE_POD=str(root),
            PYTHONUNBUFFERED="1",
            KUBECONFIG=str(self.cluster.kubeconfig),
            KFP_POD_NAME=pod,
            **{forks.FIRST: str(self._first)},
            **compiled_environment(chosen),
        )
        with (root / "log").open("wb") as log:
            command = [sys.executable, "-P", "-m", "headrace.pipeline.kubeflow.entrypoint", *arguments]
            return forks.Forked(command, env=environment, stdout=log, stderr=subprocess.STDOUT), root

    def _of_data(self, invocation: Invocation, chosen: PipelineConfig) -> Invocation:
        """With the model and the features of the fixtures, of which one has a name that no config may have."""
        custom = json.loads(invocation.exec_properties["custom_config"])
        custom["config"] = self._data.sections().model_copy(update={"train": chosen.train}).to_json()
        properties = {**invocation.exec_properties, "custom_config": json.dumps(custom)}
        return dataclasses.replace(invocation, exec_properties=properties)

    def run(self, run: str, chosen: PipelineConfig, pod: str) -> Outcome:
        process, root = self.start(run, chosen, pod)
        return self.ended(run, process, root)

    def ended(self, run: str, process: subprocess.Popen[bytes], root: Path) -> Outcome:
        code = process.wait(PATIENCE)
        made = root / f"minio/bucket/root/shop/{run}/trainer/salt"
        found = root / "found"
        found.mkdir()
        for name, path in (("run", made / "model_run"), ("Format-Serving", made / "model" / "Format-Serving")):
            if path.exists():
                (found / name).symlink_to(path)
        return Outcome(code, (root / "log").read_text(errors="replace"), root)

    @property
    def uris(self) -> dict[str, str]:
        return {key: f"minio://{path.relative_to(self.store / 'minio')}" for key, path in self._inputs.items()}

    def left(self) -> list[str]:
        """What there is in the store beside the inputs and the outputs of tasks."""
        home = self.store / "minio/bucket/root/shop"
        return sorted(
            str(path.relative_to(home))
            for name in ("training", "checkpoints")
            for path in (home / name).rglob("*")
            if path.is_file()
        )


def executor_input(task: ComponentTask, run: str, uris: dict[str, str]) -> dict[str, Any]:
    """The executor input."""
    start = f"{HOME}/{run}/trainer/salt"
    properties = {"examples": {"split_names": '["train", "eval"]', "tfx_version": "1.21.0"}}
    artifacts = {
        key: {"artifacts": [{"name": "1", "uri": uri, "metadata": properties.get(key, {})}]}
        for key, uri in uris.items()
        if key in task.invocation.inputs
    }
    written = {key: {"artifacts": [{"name": key, "uri": f"{start}/{key}"}]} for key in task.invocation.artifact_outputs}
    return {
        "inputs": {"parameterValues": {}, "artifacts": artifacts},
        "outputs": {"artifacts": written, "outputFile": f"/minio/{start.removeprefix('minio://')}/output.json"},
    }


def compiled_environment(chosen: PipelineConfig) -> dict[str, str]:
    """Of the Trainer's container, as compiled."""
    pipeline = next(yaml.safe_load_all(compile_pipeline(chosen, {})))
    return {one["name"]: one["value"] for one in task_specs(pipeline)["trainer"].container["env"]}


def roles() -> Iterator[dict[str, Any]]:
    """What the runs' account may do, with the component applied."""
    for file in (ROOT / "kubernetes/base/runner.yaml", ROOT / "kubernetes/components/multi-worker/role.yaml"):
        yield from (one for one in yaml.safe_load_all(file.read_text()) if one["kind"] == "Role")


def at(pod: jobsets.Pod, text: str, act: Callable[[], None]) -> None:
    """Act once the pod's log has a text, or the pod has ended."""

    def watch() -> None:
        while text not in pod.text and pod.process.poll() is None:
            time.sleep(0.05)
        act()

    threading.Thread(target=watch, daemon=True).start()


@pytest.fixture(scope="module")
def kubeflow(prepared: Prepare, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubeflow]:
    found = Kubeflow(tmp_path_factory.mktemp("kubeflow"), prepared("binary"))
    with found.cluster:
        yield found


@pytest.fixture(scope="module")
def alone(prepared: Prepare, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on one device that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train_alone(prepared("binary").fn_args(folder, strategy="cpu", **TRAIN, **STEPS))
    return folder


class Trained(NamedTuple):
    """A training that was canceled, then taken up again by a further run, in which a worker was killed."""

    canceled: Outcome
    left: list[str]
    """In the store, after it was canceled."""
    alive: list[str]
    """Pods that were still there then."""
    resumed: Outcome
    after: list[str]
    """In the store, at the end."""


@pytest.fixture(scope="module")
def trained(kubeflow: Kubeflow, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    cluster, chosen = kubeflow.cluster, config(tmp_path_factory.mktemp("config"))
    process, root = kubeflow.start("canceled", chosen, "first-pod")
    cluster.on_pods = lambda one: at(one.pods[0], "steps_per_execution:", process.terminate)
    canceled = kubeflow.ended("canceled", process, root)
    assert wait_until(lambda: not cluster.jobsets)
    left, alive = kubeflow.left(), [pod.name for one in cluster.made for pod in one.pods if pod.phase == "Running"]

    def kill(one: jobsets.JobSet) -> None:
        if one.status["restarts"] == 0:
            at(one.pods[0], "checkpoint: resuming from", lambda: one.pods[1].end(signal.SIGKILL))

    cluster.on_pods = kill
    try:
        return Trained(canceled, left, alive, kubeflow.run("resumed", chosen, "second-pod"), kubeflow.left())
    finally:
        cluster.on_pods = lambda _: None


@pytest.fixture(scope="module")
def sharing(kubeflow: Kubeflow, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A training whose workers read files of their own."""
    chosen = config(
        tmp_path_factory.mktemp("config"), input={"cache": "memory", "own_shards": True}, steps_per_epoch=20
    )
    return kubeflow.run("sharing", chosen, "sharing-pod")


def test_cancel_ends_all_pods_and_keeps_a_checkpoint_in_the_store(trained: Trained, kubeflow: Kubeflow) -> None:
    assert trained.canceled.code == 143, trained.canceled.log
    assert not trained.alive
    assert trained.left
    assert all(name.startswith("checkpoints/") for name in trained.left)
    chief = kubeflow.cluster.made[0].pods[0]
    stopped = r"training was stopped by SIGTERM after batch \d+, in epoch \d\. It is saved in "
    assert re.search(stopped, chief.text)
    assert re.search(stopped, trained.canceled.log)  # the task waits for the chief's last words
    assert chief.process.returncode == 143


def test_pods_that_were_canceled_and_lost_one_come_to_the_weights_of_one_device(trained: Trained, alone: Path) -> None:
    assert trained.resumed.code == 0, trained.resumed.log
    compare(alone, trained.resumed.folder)
    assert (trained.resumed.folder / "Format-Serving" / "saved_model.pb").is_file()
    assert not trained.after


def test_chiefs_lines_and_the_lost_worker_are_in_the_tasks_log(trained: Trained) -> None:
    log = trained.resumed.log
    assert log.count("strategy: multi_worker over 2 workers") == 2
    assert log.count("checkpoint: resuming from") == 2
    assert "distributed training: a worker was lost" in log
    assert "epoch 3/3: loss " in log
    # That a worker was lost may be noticed before the chief's last words of the first try are read.
    assert "Traceback" not in log.rpartition("strategy: multi_worker over 2 workers")[2]


def test_jobset_belongs_to_the_tasks_pod_and_runs_with_its_account(trained: Trained, kubeflow: Kubeflow) -> None:
    first, second = kubeflow.cluster.made[:2]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "first-pod", "uid": "uid-of-first-pod"}
    assert first.manifest["metadata"]["ownerReferences"] == [owner]
    assert first.manifest["metadata"]["name"] != second.manifest["metadata"]["name"]
    pod = first.manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "headrace-runner"
    assert second.pods[0].environment["HEADRACE_STORE_ACCESS_KEY"] == "a"
    assert not kubeflow.cluster.refused
    assert trained.resumed.code == 0


def test_workers_fetch_and_read_files_of_their_own(sharing: Outcome, kubeflow: Kubeflow) -> None:
    assert sharing.code == 0, sharing.log
    record = json.loads((sharing.folder / "run" / "training.json").read_text())
    assert "each of 2 workers reads its own files and makes 48 examples of a batch" in record["input"]
    assert record["examples"] == {"train": 20 * 96, "eval": 500}
    assert record["epochs"][-1]["metrics"]["val_auc"] > 0.75  # by chance 0.5
    pods = kubeflow.cluster.made[-1].pods
    folder = kubeflow.cluster.folder
    found = [sorted(path.name[20:26] for path in folder.glob(f"{pod.name}/**/Split-train/*")) for pod in pods]
    assert found == [["-00000", "-00002"], ["-00001"]]


def test_error_that_every_try_would_meet_ends_the_task_with_its_words(kubeflow: Kubeflow, tmp_path: Path) -> None:
    chosen = config(tmp_path, workers=4, input={"own_shards": True}, steps_per_epoch=20)
    ended = kubeflow.run("refused", chosen, "refused-pod")
    assert ended.code == 1
    assert "4 workers cannot share the 3 files of the train split. Set `data.shards` to 4" in ended.log
    assert kubeflow.cluster.made[-1].status["restarts"] == 0
    assert not kubeflow.left()


def test_account_without_the_role_gets_a_message_that_names_the_role(
    kubeflow: Kubeflow, tmp_path: Path, monkeypatch: Any
) -> None:
    base = next(roles())["rules"]
    monkeypatch.setattr(kubeflow.cluster, "_rules", base)
    ended = kubeflow.run("unable", config(tmp_path), "unable-pod")
    assert ended.code == 1
    assert "HTTP 403" in ended.log
    assert "kubernetes/components/multi-worker" in ended.log
