"""The CronJob that `headrace notify --manifest` writes: what its pod may do and gets, and the config that it reads."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import ROOT, headrace
from compiled_trips import trips

from headrace.configs.loading.loader import load
from headrace.pipeline.cli import cli
from headrace.pipeline.kubeflow.compiler.notifier import notifier_manifest

ENDPOINT = "http://ml-pipeline.kubeflow:8888"
SETTINGS = (
    "notify={chat: {kind: slack, url_env: CHAT_URL, ca_file: /certs/ca.pem}}",
    "kubeflow.notify={secrets: [{name: chat, env: {CHAT_URL: url}}, {name: authority, path: /certs}]}",
    "kubeflow.server.endpoint=https://kubeflow.example/pipeline",
)


def written(*overrides: str, **environ: str) -> tuple[dict[str, Any], dict[str, Any]]:
    text = notifier_manifest(trips(*SETTINGS, *overrides), ENDPOINT, environ)
    config_map, cron_job = yaml.safe_load_all(text)
    return config_map, cron_job


def pod_of(cron_job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return pod


def test_one_sweep_at_a_time_runs_without_rights_in_the_cluster() -> None:
    _, cron_job = written()
    pod = pod_of(cron_job)
    (container,) = pod["containers"]
    assert cron_job["spec"]["concurrencyPolicy"] == "Forbid"
    assert cron_job["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("headrace-notify", False)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"].keys() == {"requests", "limits"}
    account = yaml.safe_load_all((ROOT / "kubernetes/components/notify/account.yaml").read_text(encoding="utf-8"))
    assert pod["serviceAccountName"] == next(account)["metadata"]["name"]


def test_a_pipeline_that_only_predicts_has_a_notifier_of_its_own() -> None:
    predict = "predict={source: {kind: csv, path: 's3://b/new.csv'}, output: scored.csv, only: true}"
    names = [one["metadata"]["name"] for one in (*written(), *written(predict))]
    assert names == ["trips-notify", "trips-notify", "trips-predict-notify", "trips-predict-notify"]


def test_secrets_are_there_by_reference_alone() -> None:
    secret = "https://chat.example/T0AB12CD"
    config_map, cron_job = written(CHAT_URL=secret)
    pod = pod_of(cron_job)
    (container,) = pod["containers"]
    keys = {one["name"]: tuple(one["valueFrom"]["secretKeyRef"].values()) for one in container["env"]}
    assert keys == {
        "HEADRACE_STORE_ACCESS_KEY": ("mlpipeline-minio-artifact", "accesskey"),
        "HEADRACE_STORE_SECRET_KEY": ("mlpipeline-minio-artifact", "secretkey"),
        "CHAT_URL": ("chat", "url"),
    }
    assert {"mountPath": "/certs", "name": "secret-1", "readOnly": True} in container["volumeMounts"]
    assert {"name": "secret-1", "secret": {"secretName": "authority"}} in pod["volumes"]
    assert secret not in str(config_map) + str(cron_job)
    _, without_keys = written("kubeflow.object_store.secret=none")
    assert [one["name"] for one in pod_of(without_keys)["containers"][0]["env"]] == ["CHAT_URL"]


@pytest.mark.parametrize("auth", ["{kind: bearer, env: TOKEN}", "{kind: cookie, file: cookie.txt}", "{kind: none}"])
def test_how_people_reach_the_server_does_not_count_in_the_pod(auth: str, tmp_path: Path) -> None:
    config_map, cron_job = written(f"kubeflow.server.auth={auth}", "kubeflow.server.ca_file=mine.pem")
    (container,) = pod_of(cron_job)["containers"]
    file = tmp_path / "config.yaml"
    file.write_text(config_map["data"]["config.yaml"], encoding="utf-8")
    words = container["args"] if "args" in container else container["command"]
    given = [value for option, value in itertools.pairwise(words) if option == "--set"]
    server = load(file, overrides=given).kubeflow.server
    assert (server.endpoint, server.ca_file) == (ENDPOINT, None)
    assert (server.auth.kind, server.auth.file, server.auth.env) == ("in_cluster", None, None)


def test_the_volume_with_the_results_is_mounted() -> None:
    _, cron_job = written("kubeflow.storage=reference", "kubeflow.volume={claim: artifacts}")
    pod = pod_of(cron_job)
    assert {"name": "artifacts", "persistentVolumeClaim": {"claimName": "artifacts"}} in pod["volumes"]
    assert {"name": "artifacts", "mountPath": "/headrace"} in pod["containers"][0]["volumeMounts"]
    assert [one["name"] for one in pod["containers"][0]["env"]] == ["CHAT_URL"]


def test_the_command_reads_the_config_of_the_config_map(tmp_path: Path) -> None:
    config_map, cron_job = written()
    pod = pod_of(cron_job)
    command = pod["containers"][0]["command"]
    assert command[:4] == ["python", "-P", "-m", "headrace"]
    (volume,) = (one for one in pod["volumes"] if "configMap" in one)
    assert volume["configMap"]["name"] == config_map["metadata"]["name"] == "trips-notify"
    mounts = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    verb, file, *options = command[4:]
    assert file == f"{mounts[volume['name']]}/config.yaml"
    with cli.make_context("headrace", [verb, file, *options]) as context:
        notify = cli.get_command(context, verb)
    assert notify is not None
    given = notify.make_context(verb, [file, *options]).params
    copy = tmp_path / "config.yaml"
    copy.write_text(config_map["data"]["config.yaml"], encoding="utf-8")
    server = load(copy, overrides=given["overrides"]).kubeflow.server
    assert given["kubeflow"] is True
    assert (server.endpoint, server.auth.kind) == (ENDPOINT, "in_cluster")
    assert server.interface == "https://kubeflow.example/pipeline"


def test_objects_fit_the_schemas_of_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in written():
        validate.validate(one, validate.latest_version(), strict=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (("kubeflow.notify={cron: null}",), "kubeflow.notify.cron is null, "),
        (("kubeflow.notify=null",), "notify: a run on Kubeflow "),
        (("notify=null",), "has no receivers; add some under `notify:`"),
    ],
)
def test_what_is_missing_is_said(settings: tuple[str, ...], reported: str) -> None:
    options = [word for one in (*SETTINGS, *settings) for word in ("--set", one)]
    done = headrace(ROOT, "notify", "tests/pipeline/kubeflow/golden/trips.yaml", "--manifest", *options)
    assert (done.code, done.out) == (1, "")
    assert reported in done.err
    assert len(done.err.splitlines()) == 1
