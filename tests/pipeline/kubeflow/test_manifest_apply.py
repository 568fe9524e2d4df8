"""What `headrace compile --manifest` writes, applied as Argo CD and Flux do, under the rules of Kubernetes' server."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from compiled_trips import trips

from headrace.common.errors import ConfigError
from headrace.pipeline.kubeflow.compiler import manifest as module

ENDPOINT = "http://ml-pipeline.kubeflow:8888"
NATIVE = ("kubeflow.server.pipeline_store=kubernetes", "schedule={cron: '0 5 * * *'}")
WAVE = "argocd.argoproj.io/sync-wave"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
SERVERS_OWN = {"generateName", "creationTimestamp", "uid", "resourceVersion", "managedFields", "generation"}
KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "imagePullSecrets": "name"}
"""Lists that server-side apply merges by a key of their items, which therefore may not occur twice."""
FIXED = {"Job": ("spec", "template"), "ConfigMap": ("data",), "PipelineVersion": ("spec", "pipelineSpec")}
"""What the server, or Kubeflow's webhook, lets nobody change: with `immutable`, for a ConfigMap."""


class Cluster:
    """Objects as they were applied. `changes`: of how many fields since the last look."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.changes = 0

    def sync(self, text: str) -> None:
        """Apply all that a repository has, in the order of Argo CD's waves, and prune what it has no longer."""
        found = [one for one in yaml.safe_load_all(text) if one]
        for one in sorted(found, key=lambda one: int(one["metadata"]["annotations"][WAVE])):
            self._apply(one)
        for gone in self.objects.keys() - {_key(one) for one in found}:
            del self.objects[gone]

    def _apply(self, one: dict[str, Any]) -> None:
        assert not {"status"} & one.keys()
        metadata, key = one["metadata"], _key(one)
        assert not SERVERS_OWN & metadata.keys()
        assert NAME.fullmatch(metadata["name"])
        assert len(metadata["name"]) <= (63 if one["kind"] == "Job" else 253)
        assert all(LABEL.fullmatch(value) for value in metadata["labels"].values())
        _check_lists(one)
        if one["kind"] == "PipelineVersion":  # the webhook refuses one whose pipeline is not there
            assert ("Pipeline", metadata["namespace"], one["spec"]["pipelineName"]) in self.objects
        if one["kind"] == "CronJob":  # eleven characters are added for each Job
            assert len(metadata["name"]) <= 52
        if one["kind"] == "Job":  # its pod would wait for the volume
            (named,) = (
                each["configMap"]["name"] for each in one["spec"]["template"]["spec"]["volumes"] if "configMap" in each
            )
            assert ("ConfigMap", metadata["namespace"], named) in self.objects
        there = self.objects.get(key)
        if there is not None:
            assert _at(there, FIXED.get(one["kind"], ())) == _at(one, FIXED.get(one["kind"], ())), "field is immutable"
        self.changes += there != one
        self.objects[key] = copy.deepcopy(one)


def _key(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["kind"], one["metadata"]["namespace"], one["metadata"]["name"]


def _at(one: Any, path: tuple[str, ...]) -> str:
    for name in path:
        one = one[name]
    return json.dumps(one, sort_keys=True) if path else ""


def _check_lists(one: Any) -> None:
    if isinstance(one, list):
        for each in one:
            _check_lists(each)
    if isinstance(one, dict):
        for name, value in one.items():
            if name in KEYS and isinstance(value, list):
                keys = [each[KEYS[name]] for each in value]
                assert len(keys) == len(set(keys)), f"{name} has {keys}"
            if name not in {"pipelineSpec", "platformSpec"}:  # of any content, for Kubernetes
                _check_lists(value)


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "pipelineInfo: {name: trips}\nepochs: %s\n"  # of the pipeline nothing but its content counts here
    monkeypatch.setattr(module, "compile_pipeline", lambda config, *_given: text % config.train.epochs)


def written(*overrides: str) -> str:
    return module.manifest(trips(*NATIVE, *overrides), ENDPOINT, {})


def test_what_is_applied_again_changes_nothing() -> None:
    cluster = Cluster()
    cluster.sync(written())
    assert cluster.changes == len(cluster.objects) == 4
    cluster.sync(written())
    assert cluster.changes == 4


@pytest.mark.parametrize(
    "changed",
    [
        "train.epochs=9",
        "schedule.cron=0 6 * * *",
        "schedule=null",
        "kubeflow.image=registry.example/headrace:2",
        "kubeflow.image_pull_secrets=[registry]",
        "kubeflow.server.service_account=headrace-runner",
        "kubeflow.defaults.security={user: 2000, group: 2000}",
    ],
)
def test_a_change_makes_a_job_of_another_name_and_touches_nothing_that_cannot_be_changed(changed: str) -> None:
    cluster = Cluster()
    cluster.sync(written())
    (before,) = (name for kind, _, name in cluster.objects if kind == "Job")
    cluster.sync(written(changed))
    (after,) = (name for kind, _, name in cluster.objects if kind == "Job")
    assert after != before
    assert [kind for kind, _, _ in sorted(cluster.objects)] == ["ConfigMap", "Job", "Pipeline", "PipelineVersion"]
    cluster.sync(written())  # as after `git revert`
    assert ("Job", "kubeflow", before) in cluster.objects


def test_the_notifiers_cron_job_keeps_its_name_and_follows_the_config() -> None:
    cluster, receivers = Cluster(), 'notify={ops: {kind: webhook, url: "https://events.example"}}'
    cluster.sync(written(receivers, "kubeflow.notify={cron: '0 7 * * 7'}"))
    job = cluster.objects["CronJob", "kubeflow", "trips-notify"]
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (named,) = (one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one)
    assert ("ConfigMap", "kubeflow", named) in cluster.objects
    assert job["spec"]["schedule"] == "0 7 * * 0"
    cluster.sync(written(receivers, "kubeflow.notify={}"))
    assert cluster.objects["CronJob", "kubeflow", "trips-notify"]["spec"]["schedule"] == "*/5 * * * *"
    cluster.sync(written())
    assert "CronJob" not in {kind for kind, _, _ in cluster.objects}
    with pytest.raises(ConfigError, match="at most 45 characters"):
        written(receivers, "kubeflow.notify={}", f"pipeline.name={'x' * 46}")


def test_a_release_that_writes_another_job_of_the_same_config_gives_it_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, of_now = Cluster(), module._job
    cluster.sync(written())
    monkeypatch.setattr(module, "_job", lambda *given: {**of_now(*given), "backoffLimit": 9})
    cluster.sync(written())
    assert [one["spec"]["backoffLimit"] for one in cluster.objects.values() if one["kind"] == "Job"] == [9]
    assert cluster.changes == 6
