"""The JobSet of a distributed training as compiled: what its pods get, and what the Trainer's own pod keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compiled_trips import NO_SECRET, compiled, invocations, needs_kubernetes, settings_of, trips

from headrace.common.errors import ConfigError
from headrace.pipeline.kubeflow.distributed.jobset import MANIFEST, Owner, compiled_jobset, complete, hosts
from headrace.pipeline.kubeflow.document import task_specs

WORKERS = ("train.strategy=multi_worker", "kubeflow.workers={count: 3, restarts: 5, port: 4000}")
NAME = "headrace-0123456789ab"


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container.get("env", ())}


def jobset(*overrides: str, profile: str | None = None) -> dict[str, Any]:
    """As the Trainer's task makes it, by what stands in the compiled pipeline."""
    trainer = task_specs(compiled(*WORKERS, *overrides, profile=profile))["trainer"]
    reported = json.loads(environment(dict(trainer.container))[MANIFEST])
    return complete(reported["jobset"], NAME, Owner("task", "uid", "headrace-runner"), {"uri": "minio://a/b"})


def job(made: dict[str, Any]) -> dict[str, Any]:
    (group,) = made["spec"]["replicatedJobs"]
    assert group["replicas"] == 1
    found: dict[str, Any] = group["template"]["spec"]
    return found


@pytest.mark.slow
@needs_kubernetes
def test_workers_get_what_the_trainer_is_given_and_the_task_what_all_are_given() -> None:
    made = jobset(profile="cluster")
    pod = job(made)["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/headrace-gpu:1"
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "2Gi"},
        "limits": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"},
    }
    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert [one["name"] for one in pod["imagePullSecrets"]] == ["gpu-registry", "mirror"]
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert {"/data", "/headrace", "/certificates", "/dev/shm", "/tmp"} <= mounts.keys()
    assert set(mounts.values()) == {one["name"] for one in pod["volumes"]}
    assert container["securityContext"]["runAsUser"] == 1001
    trainer = task_specs(compiled(*WORKERS, profile="cluster"))["trainer"].container
    assert trainer["image"] == "registry.example/headrace-gpu:1"
    assert trainer["resources"]["resourceCpuRequest"] == "0.5"
    assert "accelerator" not in trainer["resources"]
    task = settings_of(trips(*WORKERS, profile="cluster"))["exec-trainer"]
    assert "nodeSelector" not in task
    assert "tolerations" not in task
    assert task["podMetadata"]["labels"] == {"team": "taxi"}


def test_workers_are_of_one_indexed_job_that_starts_again_as_a_whole() -> None:
    made = jobset()
    assert job(made)["completions"] == job(made)["parallelism"] == 3
    assert job(made)["backoffLimit"] == 0
    assert made["spec"]["failurePolicy"]["maxRestarts"] == 5
    assert hosts(made, NAME) == [f"{NAME}-worker-0-{number}.{NAME}:4000" for number in range(3)]
    assert made["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "task", "uid": "uid"}]


def test_keys_of_the_store_reach_the_workers_by_name_alone() -> None:
    (container,) = job(jobset("kubeflow.object_store={secret: keys, access_key: id}"))["template"]["spec"]["containers"]
    secrets = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one}
    assert secrets == {
        "HEADRACE_STORE_ACCESS_KEY": {"name": "keys", "key": "id"},
        "HEADRACE_STORE_SECRET_KEY": {"name": "keys", "key": "secretkey"},
    }
    (bare,) = job(jobset(NO_SECRET))["template"]["spec"]["containers"]
    assert not [one for one in bare["env"] if "valueFrom" in one]


@pytest.mark.slow
def test_workers_of_a_tf_data_service_have_its_label_its_address_and_the_volume_that_it_reads() -> None:
    place = ("kubeflow.storage=reference", "kubeflow.volume={claim: headrace-artifacts}")
    service = "train.input.service=grpc://headrace-tfdata:5050"
    template = job(jobset(*place, service))["template"]
    assert template["metadata"]["labels"]["headrace/tfdata"] == "client"
    (container,) = template["spec"]["containers"]
    assert {"name": "headrace-artifacts", "mountPath": "/headrace"} in container["volumeMounts"]
    properties = invocations(compiled(*WORKERS, *place, service))["trainer"].exec_properties
    train = json.loads(json.loads(properties["custom_config"])["config"])["train"]
    assert train["input"]["service"] == "grpc://headrace-tfdata:5050"


@pytest.mark.slow
def test_a_namespace_with_a_quota_takes_the_workers_whatever_the_config_sets() -> None:
    for settings in ((), ("kubeflow.components.Trainer={memory_limit: 32Gi}",)):
        (container,) = job(jobset(*settings))["template"]["spec"]["containers"]
        requests, limits = (container["resources"][part] for part in ("requests", "limits"))
        assert requests.keys() == limits.keys() == {"cpu", "memory"}


@pytest.mark.slow
def test_number_of_workers_is_not_in_the_trainers_cache_key() -> None:
    three, two = (
        task_specs(compiled(*WORKERS, f"kubeflow.workers.count={count}"))["trainer"].container for count in (3, 2)
    )
    assert three["args"] == two["args"]
    assert environment(dict(three)) != environment(dict(two))


@pytest.mark.slow
def test_job_fits_the_schema_of_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for profile in (None, "cluster"):
        made = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": NAME},
            "spec": job(jobset(profile=profile)),
        }
        validate.validate(made, validate.latest_version(), strict=True)


@pytest.mark.parametrize(
    ("overrides", "place", "word"),
    [
        (["kubeflow.workers={count: 2}"], "kubeflow.workers", "train.strategy: multi_worker"),
        (["train.strategy=multi_worker", "kubeflow.workers={count: 1}"], "kubeflow.workers.count", "2"),
        ([*WORKERS, "train.input.own_shards=true"], "train.input.own_shards", "steps_per_epoch"),
        (["train.input.own_shards=true", "train.steps_per_epoch=9"], "train.input.own_shards", "multi_worker"),
        (
            [*WORKERS, "train.input.own_shards=true", "train.steps_per_epoch=9", "train.batch_size=64"],
            "kubeflow.workers.count",
            "64",
        ),
    ],
)
def test_workers_that_cannot_train_together_are_refused(overrides: list[str], place: str, word: str) -> None:
    with pytest.raises(ConfigError) as found:
        trips(*overrides)
    assert any(place in str(one) and word in str(one) for one in found.value.problems)


def test_multi_worker_without_workers_is_refused_when_it_is_compiled() -> None:
    with pytest.raises(ConfigError, match=r"train\.strategy: on Kubeflow .*workers: \{count: 2\}"):
        compiled("train.strategy=multi_worker")


def test_config_without_workers_has_no_jobset() -> None:
    with pytest.raises(ValueError, match=r"kubeflow\.workers"):
        compiled_jobset(trips().kubeflow, trips().kubeflow.worker)
    assert MANIFEST not in environment(dict(task_specs(compiled())["trainer"].container))
