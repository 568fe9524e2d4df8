"""What follows a push that KServe is to serve: the copies in the store, the records, and a version that fails."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import headrace
from compiled_trips import compiled, invocations, trips
from ended_runs import BLESSED
from kserve_cluster import Cluster, serving
from kserve_objects import FIRST, InMemory, first_service, merged
from kserve_pods import Plan
from s3_servers import S3Server
from test_model_changes import listed, push
from test_stored_models import HOME, ROOT, blessed_and_pushed, trained

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import inside
from headrace.configs.schema.kserve import KServeConfig
from headrace.pipeline.kubeflow.kserve.follow import follow, kserve_settings
from headrace.pipeline.kubeflow.kserve.rollout import Rollout, Target
from headrace.pipeline.kubeflow.kserve.service import ServiceClient
from headrace.pipeline.kubeflow.kserve.shelf import KServeShelf
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.store import FOLDER, Store, open_store
from headrace.pipeline.kubeflow.stored_models import stored_models

SETTINGS = "deploy.kserve={name: headrace-model, canary_percent: 10, ready: 2s, observe: 1s}"
CONFIG = trips(f"kubeflow.pipeline_root={ROOT}", SETTINGS)
GIVEN = kserve_settings(CONFIG)
SERVICE = KServeConfig.model_validate(GIVEN["service"])
VERSIONS = ("1790000000", "1790000001", "1790000002")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """A folder that stands for the object store, as in the pods of `headrace verify`."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "store"))
    return open_store({})


def night(store: Store, tmp: Path, number: int) -> None:
    """A model, blessed and pushed, whose weights are its number."""
    run = f"run-{number}"
    trained(store, tmp, run, BLESSED)
    model = f"{HOME}/{run}/trainer/5/model/Format-Serving"
    store.write(f"{model}/variables/data", f"weights {number}")
    blessed_and_pushed(store, tmp / "pod", run, f"2026-03-0{number + 1}T12:00:00", VERSIONS[number])
    store.write(f"{HOME}/serving/trips/{VERSIONS[number]}/variables/data", f"weights {number}")
    pushed = json.loads(store.text(f"{HOME}/pushed.json"))
    (last,) = pushed["last"].values()
    store.get_all(f"{HOME}/serving/trips/{VERSIONS[number]}", tmp / f"version-{number}")
    last["contents"] = checksum(tmp / f"version-{number}")  # the helper pushes the graph alone
    pushed.pop("checksum")
    store.write(f"{HOME}/pushed.json", json.dumps(pushed))


def without_waiting(
    service: ServiceClient,
    settings: KServeConfig,
    target: Target,
    is_good: Callable[[str], bool],
    say: Callable[[str], None],
) -> Rollout:
    """A rollout for which time passes when it sleeps, and at no other moment: the cluster makes a step at each look."""
    slept = [0.0]
    return Rollout(service, settings, target, is_good, lambda: sum(slept), slept.append, say)


def pods_task(store: Store, run: str, rollout: Callable[..., Rollout] = without_waiting) -> str:
    service = ServiceClient.of_pod(SERVICE, "kubeflow")
    return follow(GIVEN, HOME, store, service, f"{run}/pusher", rollout=rollout)


def whole_task(store: Store, tmp: Path, run: str) -> None:
    """The Pusher's task of a run whose own model is not blessed."""
    shutil.rmtree(tmp / "next", ignore_errors=True)
    newest = listed(store, tmp / "next").newest
    assert newest is not None
    home = PodPaths(str(tmp / "next")).local(HOME)
    entry = newest.with_paths(lambda uri: inside(home, uri)).model_dump_json()
    push(store, tmp / "next", entry, blessed=False)
    pods_task(store, run)


def loaded(store: Store, uri: str) -> dict[str, str]:
    """What a pod has below the path that TensorFlow Serving looks for versions in, as KServe copies a URI there."""
    return {name: store.text(f"{uri}/{name}") for name in store.files(uri)}


def uri(number: int) -> str:
    return f"{HOME}/kserve/models/{VERSIONS[number]}"


def in_service(store: Store) -> str | None:
    return next(model.run for model in stored_models(CONFIG, store, 20) if model.in_service)


def test_version_is_served_from_a_uri_of_its_own_in_the_layout_of_tensorflow_serving(
    files: Store, cluster: Cluster, tmp_path: Path
) -> None:
    night(files, tmp_path, 0)
    assert "serves version 1790000000" in pods_task(files, "run-0")
    assert cluster.uri == uri(0)
    expected = {"1790000000/saved_model.pb": "graph", "1790000000/variables/data": "weights 0"}
    assert loaded(files, cluster.uri) == expected


def test_following_twice_changes_nothing(files: Store, cluster: Cluster, tmp_path: Path) -> None:
    night(files, tmp_path, 0)
    pods_task(files, "run-0")
    before, patches = files.listing(HOME), len(cluster.patches)
    assert "already" in pods_task(files, "run-x")
    assert (files.listing(HOME), len(cluster.patches)) == (before, patches)


@pytest.mark.slow
def test_failed_version_is_taken_back_with_its_push(files: Store, cluster: Cluster, tmp_path: Path) -> None:
    night(files, tmp_path, 0)
    pods_task(files, "run-0")
    night(files, tmp_path, 1)
    cluster.plans[uri(1)] = Plan(load_error="no versions of servable found")
    with pytest.raises(RunError) as raised:
        pods_task(files, "run-1")
    first, second = str(raised.value).splitlines()
    assert "version 1790000001 failed on InferenceService headrace-model in namespace kubeflow" in first
    assert "no versions of servable found" in first
    assert f"serves {uri(0)} again" in first
    assert "push was rolled back" in second
    assert (cluster.uri, cluster.canary, cluster.traffic[-1]) == (uri(0), None, {uri(0): 100})
    assert in_service(files) == "run-0"
    found = {model.run: model for model in stored_models(CONFIG, files, 20)}
    assert found["run-1"].withdrawn_at
    attempts = KServeShelf(HOME, files).attempts
    assert (attempts[VERSIONS[0]].state, attempts[VERSIONS[1]].state) == ("in_service", "failed")

    patches = len(cluster.patches)
    with pytest.raises(RunError, match="1790000001 failed"):  # the same task, tried again by Kubeflow
        pods_task(files, "run-1")
    assert "serves version 1790000000 already" in pods_task(files, "run-2")  # its model was pushed again
    assert len(cluster.patches) == patches


@pytest.mark.slow
def test_nothing_is_rolled_back_before_the_service_has_served_a_version(
    files: Store, cluster: Cluster, tmp_path: Path
) -> None:
    night(files, tmp_path, 0)
    cluster.plans[uri(0)] = Plan(ready_after=None)
    with pytest.raises(RunError, match=r"not ready after 2s(.|\n)*Its push stays"):
        pods_task(files, "run-0")
    assert cluster.uri == FIRST  # what the user applied
    with pytest.raises(RunError, match="1790000000 failed"):  # the same task, tried again by Kubeflow
        pods_task(files, "run-0")
    night(files, tmp_path, 1)
    cluster.plans[uri(1)] = Plan(ready_after=None)
    with pytest.raises(RunError, match=r"1790000001 failed(.|\n)*Its push stays"):
        pods_task(files, "run-1")
    assert not any(model.withdrawn_at for model in stored_models(CONFIG, files, 20))
    del cluster.plans[uri(1)]  # the service is corrected
    pods_task(files, "run-2")
    assert cluster.uri == uri(1)


@pytest.mark.slow
def test_copies_go_with_deploy_keep_but_not_the_one_before(files: Store, cluster: Cluster, tmp_path: Path) -> None:
    for number in range(3):
        night(files, tmp_path, number)
        pods_task(files, f"run-{number}")
        for old in range(number):
            files.remove(f"{HOME}/serving/trips/{VERSIONS[old]}/saved_model.pb")
            files.remove(f"{HOME}/serving/trips/{VERSIONS[old]}/variables/data")
    assert files.children(f"{HOME}/kserve/models") == [*VERSIONS[1:]]


def test_damaged_version_is_not_served(files: Store, cluster: Cluster, tmp_path: Path) -> None:
    night(files, tmp_path, 0)
    pushed = json.loads(files.text(f"{HOME}/pushed.json"))
    for last in pushed["last"].values():
        last["contents"] = "0" * 8
    files.write(f"{HOME}/pushed.json", json.dumps(pushed))
    with pytest.raises(RunError, match=f"{HOME}/serving/trips/1790000000: the files are not the ones"):
        pods_task(files, "run-0")
    assert cluster.patches == []


def test_damaged_record_is_named(files: Store, cluster: Cluster, tmp_path: Path) -> None:
    night(files, tmp_path, 0)
    pods_task(files, "run-0")
    name = f"{HOME}/kserve/1790000000.json"
    files.write(name, files.text(name).replace("in_service", "failed"))
    with pytest.raises(RunError, match=rf"{name}: .*rollout is damaged"):
        pods_task(files, "run-1")


class DyingStore(Store):
    """Kills its process before one of its changes."""

    left = 0

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def put(self, path: Path, uri: str) -> None:
        self._count()
        super().put(path, uri)

    def write(self, uri: str, text: str) -> None:
        self._count()
        super().write(uri, text)

    def remove(self, uri: str) -> None:
        self._count()
        super().remove(uri)


def ended(call: Callable[[], object], started: Callable[[int], None]) -> int:
    """How a child process that makes the call ended: 0, 1 for a RunError, or the signal as a negative number.

    Any other error fails the test. A library of C++ that another test left threads of may abort a child in the handlers
    that fork runs, before the call begins; then another child makes it.
    """
    began, begin = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            os.write(begin, b"1")
            call()
            status = 0
        except RunError:
            status = 1
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(begin)
    with open(began, "rb") as pipe:
        if not pipe.read(1):
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGABRT
            return ended(call, started)
    started(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in {0, 1, -signal.SIGKILL}
    return code


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("where", ["store", "PATCH", "GET"])
def test_after_a_kill_the_next_run_ends_what_was_begun(
    where: str, fails: bool, files: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Killed before each change of the store, each change of the service, and each look at it."""
    night(files, tmp_path, 0)
    with serving(Cluster("Serverless")) as cluster:
        cluster.use(monkeypatch, tmp_path)
        cluster.settle()
        pods_task(files, "run-0")
    night(files, tmp_path, 1)
    shutil.copytree(tmp_path / "store", tmp_path / "saved")
    kills = 0
    for number in range(0, 200, 2 if where == "GET" else 1):
        shutil.rmtree(tmp_path / "store")
        shutil.copytree(tmp_path / "saved", tmp_path / "store")
        with serving(
            Cluster("Serverless", InMemory(merged(first_service("Serverless"), pointed_to(uri(0)))))
        ) as cluster:
            cluster.use(monkeypatch, tmp_path)
            cluster.settle()
            cluster.plans[uri(1)] = Plan(crashes_after=4) if fails else Plan()
            cluster.traffic.clear()
            status = killed_at(number, where, cluster)
            kills += status == -signal.SIGKILL
            assert all(sum(one.values()) == 100 for one in cluster.traffic)
            assert not fails or max(one.get(uri(1), 0) for one in cluster.traffic) <= 10
            cluster.before = lambda *_: None
            for again in range(2):  # the first of them may have to end a rollback, and so is not a success
                with contextlib.suppress(RunError):
                    whole_task(files, tmp_path, f"run-{again + 2}")
            assert (cluster.uri, cluster.canary) == (uri(0 if fails else 1), None), number
            cluster.settle(3)
            assert cluster.traffic[-1] == {uri(0 if fails else 1): 100}
            assert not fails or max(one.get(uri(1), 0) for one in cluster.traffic) <= 10
            assert in_service(files) == ("run-0" if fails else "run-1")
            patches = len(cluster.patches)
            whole_task(files, tmp_path, "run-last")
            assert len(cluster.patches) == patches
        if status != -signal.SIGKILL:
            break
    print(f"\n{where}, {'bad' if fails else 'good'} version: {kills} kills")
    assert kills >= 2


def pointed_to(there: str) -> dict[str, Any]:
    notes = {"headrace/version": VERSIONS[0], "headrace/run": "run-0/pusher", "headrace/pipeline": HOME}
    return {"metadata": {"annotations": notes}, "spec": {"predictor": {"model": {"storageUri": there}}}}


def killed_at(number: int, where: str, cluster: Cluster) -> int:
    """How a pod's task ended that is killed at a change or a look of that number."""
    child: list[int] = []
    seen = 0

    def before(method: str, _: str) -> None:
        nonlocal seen
        if method == where:
            if seen == number:
                while not child:
                    pass
                os.kill(child[0], signal.SIGKILL)
            seen += 1

    store = open_store({})
    if where == "store":
        store = DyingStore({}, os.environ[FOLDER])
        store.left = number
    else:
        cluster.before = before
    return ended(lambda: pods_task(store, "run-1"), child.append)


@pytest.mark.slow
def test_two_tasks_at_once_bring_the_newer_version_into_service(files: Store, cluster: Cluster, tmp_path: Path) -> None:
    """The second push comes while the first version is being watched."""
    night(files, tmp_path, 0)
    pushed = iter([True])

    def later(method: str, path: str) -> None:
        if method == "GET" and cluster.uri == uri(0) and next(pushed, False):
            night(files, tmp_path, 1)
            assert "serves version 1790000001" in pods_task(files, "run-1", Rollout)

    thread: list[threading.Thread] = []

    def begin(method: str, path: str) -> None:
        if cluster.uri == uri(0) and not thread:
            thread.append(threading.Thread(target=later, args=(method, path)))
            thread[0].start()

    cluster.before = begin
    pods_task(files, "run-0", Rollout)
    thread[0].join()
    cluster.settle(3)
    assert cluster.traffic[-1] == {uri(1): 100}
    attempts = KServeShelf(HOME, files).attempts
    assert attempts[VERSIONS[1]].state == "in_service"
    assert attempts[VERSIONS[0]].state in ("superseded", "in_service")


@pytest.mark.slow
def test_only_the_pushers_pod_knows_the_service() -> None:
    told = {name: one.kserve for name, one in invocations(compiled(SETTINGS)).items() if one.kserve}
    ((name, found),) = told.items()
    assert name.endswith("pusher")
    assert found["service"]["name"] == "headrace-model"
    assert "kserve" not in json.dumps([one.to_json() for one in invocations(compiled()).values()])


def test_uris_are_those_that_kserve_reads(files: Store) -> None:
    assert KServeShelf("minio://mlpipeline/v2/taxi", files).uri_of("17") == "s3://mlpipeline/v2/taxi/kserve/models/17"
    assert KServeShelf("gs://bucket/taxi", files).uri_of("17") == "gs://bucket/taxi/kserve/models/17"
    on_volume = KServeShelf("minio://mlpipeline/v2/taxi", files, "artifacts", "/headrace")
    assert on_volume.uri_of("17") == "pvc://artifacts/minio/mlpipeline/v2/taxi/kserve/models/17"


@pytest.mark.slow
def test_rollback_of_a_user_moves_the_service(
    store: Store, cluster: Cluster, tmp_path: Path, s3_server: S3Server
) -> None:
    for number in range(2):
        night(store, tmp_path, number)
    config = yaml.safe_load((Path(__file__).with_name("golden") / "trips.yaml").read_text(encoding="utf-8"))
    config["data"].pop("schema")
    config["features"].pop("kind")
    config["kubeflow"]["pipeline_root"] = ROOT
    config["deploy"] = {**config.get("deploy", {}), "kserve": GIVEN["service"] | {"context": "here"}}
    (tmp_path / "trips.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    environment = {**s3_server.environment, "KUBECONFIG": str(tmp_path / "kubeconfig")}
    done = headrace(tmp_path, "rollback", "trips.yaml", "--kubeflow", **environment)
    assert done.code == 0, done.err
    new = cluster.uri.rpartition("/")[2]
    assert int(new) > int(VERSIONS[1])
    assert loaded(store, cluster.uri)[f"{new}/variables/data"] == "weights 0"
    assert any(line.startswith("kserve ") and f"serves version {new}" in line for line in done.lines)
    assert "watching it for 1s" in done.err
    table = headrace(tmp_path, "models", "trips.yaml", "--kubeflow", **environment)
    assert table.lines[0].split()[-1] == "KSERVE"
    (line,) = (line for line in table.lines if "\trun-0\t" in line)
    assert line.endswith("in service")

    config["deploy"]["kserve"]["context"] = "elsewhere"
    (tmp_path / "trips.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    refused = headrace(tmp_path, "rollback", "trips.yaml", "--kubeflow", "--to", VERSIONS[1], **environment)
    assert refused.code == 1
    assert "deploy.kserve: the kubeconfig" in refused.err
    assert "elsewhere" in refused.err
