"""Kubernetes settings of pods in the compiled file, and which of them a release of Kubeflow Pipelines knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from compiled_trips import NO_SECRET, compiled, needs_kubernetes, settings_of, trips
from google.protobuf import json_format

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.compiler import checks
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import task_specs, tasks_in


@pytest.mark.slow
def test_every_container_says_what_it_asks_for_and_what_it_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_STORE", str(tmp_path))
    for chosen in ("default", "auto"):
        found = task_specs(compiled(f"kubeflow.resources={chosen}"))
        assert found
        for spec in found.values():
            asked = {name for name in spec.container["resources"] if name.startswith("resource")}
            assert asked >= {f"resource{what}{how}" for what in ("Cpu", "Memory") for how in ("Request", "Limit")}
    assert not any("resources" in spec.container for spec in task_specs(compiled("kubeflow.resources=none")).values())


@needs_kubernetes
def test_the_server_can_read_every_kubernetes_setting() -> None:
    from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes

    _, platform = yaml.safe_load_all(compile_pipeline(trips(profile="cluster"), {}))
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    found = {name: json_format.ParseDict(one, kubernetes.KubernetesExecutorConfig()) for name, one in executors.items()}
    trainer = found["exec-trainer"]
    assert [mount.mount_path for mount in trainer.pvc_mount] == ["/data", "/headrace"]
    assert [one.key for one in trainer.tolerations] == ["nvidia.com/gpu", "spot"]
    assert trainer.empty_dir_mounts[0].size_limit == "4Gi"
    assert trainer.active_deadline_seconds == 7200
    assert not found["exec-spans"].tolerations


def test_tries_have_all_the_time_that_the_config_gives_them() -> None:
    """The SDK has one hour at most, and no server has such a limit."""
    pipeline = compiled(
        "schedule={every: 6h, retrain: drift}",  # with tasks under conditions
        "kubeflow.components={Spans: {retries: {count: 2}}, Trainer: {retries: {count: 2, at_most: 2h}}}",
    )
    again = {name: task["retryPolicy"] for name, task in tasks_in(pipeline) if "retryPolicy" in task}
    assert {name: one["backoffMaxDuration"] for name, one in again.items()} == {"spans": "2592000s", "trainer": "7200s"}
    assert {one["backoffFactor"] for one in again.values()} == {2}


@needs_kubernetes
def test_a_setting_that_an_older_server_drops_is_refused_with_its_release() -> None:
    mount = "kubeflow.defaults.volumes=[{claim: data, path: /data, sub_path: trips}]"
    compile_pipeline(trips(mount, "kubeflow.backend='2.16'"), {})
    with pytest.raises(RunError, match=r"`volumes\.sub_path` \(pvcMount\.subPath .* 2\.16.*is 2\.15"):
        compile_pipeline(trips(mount, "kubeflow.backend='2.15'"), {})


@pytest.mark.slow
@needs_kubernetes
def test_secrets_as_variables_compile_for_a_server_that_knows_only_required_ones() -> None:
    secret = "kubeflow.defaults.secrets=[{name: database, env: {DB_PASSWORD: password}, optional: %s}]"
    old = settings_of(trips(secret % "false", NO_SECRET, "kubeflow.backend='2.14'"))["exec-trainer"]["secretAsEnv"]
    new = settings_of(trips(secret % "false", NO_SECRET, "kubeflow.backend='2.15'"))["exec-trainer"]["secretAsEnv"]
    assert [one.pop("optional") for one in new] == [False]
    assert old == new
    with pytest.raises(RunError) as caught:
        compile_pipeline(trips(secret % "true", "kubeflow.backend='2.14'"), {})
    first, why, out = str(caught.value).splitlines()
    assert first.startswith("kubeflow: the setting `secrets.optional` (secretAsEnv.optional")
    assert re.search(r" requires Kubeflow Pipelines 2\.15\b.* kubeflow\.backend is 2\.14$", first)
    assert "drops all Kubernetes settings" in why
    assert "kubeflow.backend" in out


@pytest.mark.slow
@needs_kubernetes
def test_components_are_not_root_where_the_server_takes_a_user() -> None:
    usual = {"runAsUser": "1000", "runAsGroup": "1000", "runAsNonRoot": True}
    found = settings_of(trips("kubeflow.components.Pusher.security={user: null, group: null}"))
    assert found.pop("exec-pusher")["securityContext"] == {"runAsNonRoot": True}
    assert {"exec-spans", "exec-trainer"} < set(found)
    assert [one["securityContext"] for one in found.values()] == [usual] * len(found)
    left = {"user": None, "group": None, "non_root": False}
    assert settings_of(trips(f"kubeflow.defaults.security={json.dumps(left)}", NO_SECRET)) == {}


@pytest.mark.slow
@needs_kubernetes
@pytest.mark.parametrize("backend", ["2.14", "2.15"])
def test_an_older_server_gets_no_user_and_a_config_that_names_one_is_refused(backend: str) -> None:
    assert settings_of(trips(f"kubeflow.backend='{backend}'", NO_SECRET)) == {}
    with pytest.raises(RunError, match=rf"`security` .* of trainer requires .* 2\.16, .* is {backend}"):
        compile_pipeline(trips(f"kubeflow.backend='{backend}'", "kubeflow.components.Trainer.security={}"), {})


@pytest.mark.slow
@needs_kubernetes
def test_a_component_may_have_pull_secrets_of_its_own() -> None:
    found = settings_of(
        trips("kubeflow.image_pull_secrets=[all]", "kubeflow.components.Trainer.image_pull_secrets=[gpu, mirror]")
    )
    named = {task: [one["secretName"] for one in settings["imagePullSecret"]] for task, settings in found.items()}
    assert named.pop("exec-trainer") == ["gpu", "mirror"]
    assert set(map(tuple, named.values())) == {("all",)}
    none = settings_of(trips("kubeflow.image_pull_secrets=[all]", "kubeflow.components.Trainer.image_pull_secrets=[]"))
    assert "imagePullSecret" not in none["exec-trainer"]


@pytest.mark.parametrize(
    ("executor", "backend", "refused"),
    [
        ({"pvcMount": [{"constant": "a", "mountPath": "/a"}]}, "2.14", None),
        ({"pvcMount": [{"constant": "a", "subPath": "b"}]}, "2.15", r"pvcMount\.subPath .* requires .* 2\.16"),
        ({"securityContext": {"runAsUser": 1}}, "2.15", r"`security` \(securityContext .* of a requires .* 2\.16"),
        ({"securityContext": {"runAsUser": 1}}, "2.16", None),
        ({"secretAsEnv": [{"optional": False}]}, "2.14", r"`secrets\.optional` \(secretAsEnv.* 2\.15"),
        ({"enabledSharedMemory": {"size": "1G"}}, "2.17", r"enabledSharedMemory of a has no effect"),
    ],
)
def test_fields_are_known_by_release(executor: dict[str, Any], backend: Any, refused: str | None) -> None:
    document = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-a": executor}}}}}
    if refused is None:
        checks.check_backend(document, backend)
    else:
        with pytest.raises(RunError, match=refused):
            checks.check_backend(document, backend)
