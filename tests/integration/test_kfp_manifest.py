"""`headrace compile --manifest`: its objects by the schemas of Kubernetes and Kubeflow, and its Job against a stock
release's API server.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml
from command import ROOT, headrace
from kfp_commands import Built
from kfp_server import Server

from headrace.pipeline.kubeflow.document import version_name

CONFIG = ROOT / "configs" / "taxi.yaml"
OPTIONS = (
    "kubeflow.image=registry.example/headrace:1",
    "kubeflow.image_pull_secrets=[registry]",
    "schedule={cron: '30 4 * * 1-5', concurrency: 2}",
    "kubeflow.server.service_account=headrace-runner",
)
SPECIFICATIONS = {
    "Pipeline": {"displayName": str, "description": str, "tags": dict},
    "PipelineVersion": {
        "codeSourceURL": str,
        "description": str,
        "displayName": str,
        "pipelineName": str,
        "pipelineSpec": dict,
        "pipelineSpecURI": str,
        "platformSpec": dict,
    },
}
"""What `spec` may hold by the definitions of Kubeflow Pipelines 2.14.0 to 2.17.0 (`manifests/kustomize/base/crds`)."""


def written(folder: Path, *options: str) -> Path:
    file = folder / "taxi.yaml"
    given = [part for option in (*OPTIONS, *options) for part in ("--set", option)]
    done = headrace(ROOT, "compile", str(CONFIG), *given, "--manifest", "-o", str(file))
    assert done.code == 0, done.err
    return file


def objects(file: Path) -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(file.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return objects(written(tmp_path_factory.mktemp("native"), "kubeflow.server.pipeline_store=kubernetes"))


def test_the_objects_are_those_that_kubernetes_takes(native: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    assert list(native) == ["Pipeline", "PipelineVersion", "ConfigMap", "Job"]
    for kind in ("ConfigMap", "Job"):
        validate.validate(native[kind], "1.31", strict=True)
    waves = [int(one["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]) for one in native.values()]
    assert waves == sorted(waves)
    assert waves[2] < waves[3]


def test_pipeline_and_version_hold_what_their_definitions_know(native: dict[str, Any]) -> None:
    for kind, known in SPECIFICATIONS.items():
        one = native[kind]
        assert one["apiVersion"] == "pipelines.kubeflow.org/v2beta1"
        assert all(isinstance(value, known[name]) for name, value in one["spec"].items())
    compiled = native["ConfigMap"]["data"]["pipeline.yaml"]
    specification, platform = yaml.safe_load_all(compiled)
    version = native["PipelineVersion"]
    assert (version["spec"]["pipelineSpec"], version["spec"]["platformSpec"]) == (specification, platform)
    assert version["metadata"]["name"] == version_name("chicago-taxi", compiled)
    assert version["spec"]["pipelineName"] == native["Pipeline"]["metadata"]["name"] == "chicago-taxi"


def test_the_job_is_confined_and_knows_no_secret(native: dict[str, Any]) -> None:
    pod = native["Job"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"].keys() == container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsUser"] == 1000
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["serviceAccountName"] == "headrace-runner"


def test_other_content_makes_a_job_of_another_name_and_the_same_content_the_same(tmp_path: Path) -> None:
    names = [objects(written(tmp_path, *more))["Job"]["metadata"]["name"] for more in ((), (), ("train.epochs=9",))]
    assert names[0] == names[1] != names[2]


@pytest.mark.slow
def test_the_job_makes_the_schedule_of_the_compiled_pipeline_and_takes_it_away(server: Server, tmp_path: Path) -> None:
    built = Built(server, 5000)
    named = (f"pipeline.name={built.pipeline}", f"kubeflow.server.experiment={built.experiment}")
    made = objects(written(tmp_path, *named))
    assert carried_out(made, tmp_path, server).returncode == 0
    (schedule,) = built.schedules()
    assert schedule["trigger"] == {"cron_schedule": {"cron": "0 30 4 * * 1,2,3,4,5"}}
    assert schedule["service_account"] == "headrace-runner"
    (version,) = built.versions()
    assert version["display_name"] == version_name(built.pipeline, made["ConfigMap"]["data"]["pipeline.yaml"])
    gone = objects(written(tmp_path, *named, "schedule=null"))
    assert carried_out(gone, tmp_path, server).returncode == 0
    assert built.schedules() == []


def carried_out(made: dict[str, Any], folder: Path, server: Server) -> subprocess.CompletedProcess[str]:
    """The Job's command with its files, in a folder that is not the clone."""
    (container,) = made["Job"]["spec"]["template"]["spec"]["containers"]
    mount = folder / "manifest"
    shutil.rmtree(mount, ignore_errors=True)
    mount.mkdir()
    for name, text in made["ConfigMap"]["data"].items():
        (mount / name).write_text(text, encoding="utf-8")
    (mount / "token").write_text("a token")
    command = [part.replace("/headrace-manifest", str(mount)) for part in container["command"]]
    endpoint = f"kubeflow.server.endpoint={server.url}"
    own = ("--set", endpoint, "--set", f"kubeflow.server.auth={{kind: in_cluster, file: {mount / 'token'}}}")
    program = str(ROOT / ".venv" / "bin" / "python")
    done = subprocess.run([program, *command[1:], *own], cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done


@pytest.mark.slow
def test_the_server_starts_no_run_of_a_schedule_that_its_api_did_not_make(server: Server) -> None:
    """Which is why the manifest has a Job instead of a ScheduledWorkflow."""
    built = Built(server, 5001)
    built("submit")
    (run,) = built.runs()
    body = {key: run[key] for key in ("experiment_id", "pipeline_version_reference", "runtime_config")}
    with pytest.raises(HTTPError) as refused:
        built.ask("POST", "runs", {**body, "display_name": "by-hand", "recurring_run_id": "0-applied-by-kubectl"})
    assert "RecurringRunId doesn't exist" in refused.value.read().decode()
