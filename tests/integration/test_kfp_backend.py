"""What is compiled, given to the server of a stock Kubeflow Pipelines release: its parser, compiler and validation."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from command import ROOT, headrace
from google.protobuf.json_format import Parse, ParseDict
from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig
from kfp_server import Server

from headrace.pipeline.kubeflow.document import all_tasks
from headrace.pipeline.kubeflow.pod.invocation import unpack

EXAMPLES = sorted(path.relative_to(ROOT) for path in (ROOT / "configs").glob("*.yaml") if "." not in path.stem)
STORE = {
    "endpoint": "https://store.example",
    "region": "eu-1",
    "secret": "store-keys",
    "access_key": "id",
    "secret_key": "key",
}
GOLDEN = Path("tests/pipeline/kubeflow/golden")


class Submitted(NamedTuple):
    """A pipeline that was compiled, uploaded and started."""

    pipeline: Any
    """The first document of what was compiled."""
    platform: Any
    """The second; None where nothing is asked of Kubernetes."""
    run: Any
    """As the server tells of it."""
    workflow: Any
    """The Argo workflow that the server made of it."""
    schedule: Any
    """The server's schedule of the same."""


def submit(server: Server, folder: Path, config: Path, *options: str) -> Submitted:
    from kfp.client import Client

    file = folder / "pipeline.yaml"
    image = ("--set", "kubeflow.image=registry.example/headrace:1")
    done = headrace(ROOT, "compile", str(config), *image, *options, "-o", str(file))
    assert done.code == 0, done.out + done.err
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the client, about servers before 2.0
        client = Client(host=server.url)
    pipeline = client.upload_pipeline(str(file), pipeline_name=folder.name)
    version = client.list_pipeline_versions(pipeline.pipeline_id).pipeline_versions[0]
    experiment = client.create_experiment("tests")
    chosen = {"pipeline_id": pipeline.pipeline_id, "version_id": version.pipeline_version_id}
    run = client.run_pipeline(experiment.experiment_id, "run", **chosen, pipeline_root="minio://mlpipeline/v2")
    nightly = {"cron_expression": "0 30 4 * * *", "max_concurrency": 1, "no_catchup": True}
    schedule = client.create_recurring_run(experiment.experiment_id, folder.name, **chosen, **nightly)
    documents = [*yaml.safe_load_all(file.read_text()), None]
    return Submitted(documents[0], documents[1], run, server.workflow(run.run_id), schedule)


@pytest.mark.slow
@pytest.mark.parametrize("retrain", ["always", "new_span", "drift"])
@pytest.mark.parametrize("config", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_becomes_a_valid_workflow(server: Server, tmp_path: Path, config: Path, retrain: str) -> None:
    scheduled = ("--set", f"schedule={{cron: '30 4 * * *', retrain: {retrain}}}")
    done = submit(server, tmp_path, config, "--set", f"kubeflow.object_store={json.dumps(STORE)}", *scheduled)
    assert done.run.state == "PENDING"
    assert done.schedule.status == "ENABLED"
    assert set(all_tasks(done.pipeline)) | set(done.pipeline["root"]["dag"]["tasks"]) <= tasks_of(done.workflow)
    conditions = {name for name in tasks_of(done.workflow) if name.startswith("condition-") and name[-1].isdigit()}
    assert len(conditions) == ("always", "new_span", "drift").index(retrain)
    given = {given["name"]: given["value"] for given in done.workflow["spec"]["arguments"]["parameters"]}
    keys = {"HEADRACE_STORE_ACCESS_KEY": "id", "HEADRACE_STORE_SECRET_KEY": "key"}
    for task in ("trainer", "baseline", "evaluator", "pusher"):
        asked = json.loads(given[f"kubernetes-comp-{task}"])["secretAsEnv"]
        assert {one["keyToEnv"][0]["envVar"]: one["keyToEnv"][0]["secretKey"] for one in asked} == keys
        assert {one["secretNameParameter"]["runtimeValue"]["constant"] for one in asked} == {"store-keys"}
    containers = [json.loads(value) for name, value in given.items() if name.startswith("implementations-")]
    assert containers
    for container in containers:
        reported = json.loads(unpack(container["args"][container["args"].index("--invocation") + 1]))["store"]
        assert (reported["endpoint"], reported["region"]) == (STORE["endpoint"], STORE["region"])


@pytest.mark.slow
def test_every_setting_of_a_component_reaches_the_workflow(server: Server, tmp_path: Path) -> None:
    done = submit(server, tmp_path, GOLDEN / "trips.yaml", "--profile", "cluster")
    asked = done.platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    got = {given["name"]: given["value"] for given in done.workflow["spec"]["arguments"]["parameters"]}
    executors = done.pipeline["deploymentSpec"]["executors"]
    assert set(asked) == set(executors)
    for name, settings in asked.items():
        component = name.replace("exec-", "comp-", 1)
        assert ParseDict(settings, KubernetesExecutorConfig()) == Parse(
            got[f"kubernetes-{component}"], KubernetesExecutorConfig()
        )
    containers = [json.loads(value) for name, value in got.items() if name.startswith("implementations-")]
    trainer = next(one for one in containers if one["image"] == "registry.example/headrace-gpu:1")
    assert trainer["resources"] == {
        "cpuRequest": 4.0,
        "cpuLimit": 8.0,
        "memoryRequest": 2.147483648,
        "memoryLimit": 17.179869184,
        "resourceCpuRequest": "4",
        "resourceCpuLimit": "8",
        "resourceMemoryRequest": "2Gi",
        "resourceMemoryLimit": "16Gi",
        "accelerator": {"count": "2", "resourceCount": "2", "type": "nvidia.com/gpu", "resourceType": "nvidia.com/gpu"},
    }
    confined = [
        template["container"]["securityContext"] for template in done.workflow["spec"]["templates"] if runs(template)
    ]
    assert confined
    for one in confined:  # that and the user of the settings is all that the level `restricted` asks of a container
        assert (one["allowPrivilegeEscalation"], one["capabilities"]) == (False, {"drop": ["ALL"]})
        assert one["seccompProfile"] == {"type": "RuntimeDefault"}
    given = arguments_of(done.workflow, "trainer")
    assert given["retry-max-count"] == "2"
    assert given["retry-backoff-duration"] == "10"
    assert given["retry-backoff-factor"] == "3"
    assert given["retry-backoff-max-duration"] == str(2 * 86400)


def runs(template: Any) -> bool:
    """Whether it is that of a component's own container."""
    return "podSpecPatch" in template and "container" in template


def tasks_of(workflow: Any) -> set[str]:
    """The tasks of all graphs of a workflow."""
    graphs = [template["dag"]["tasks"] for template in workflow["spec"]["templates"] if "dag" in template]
    return {task["name"] for tasks in graphs for task in tasks}


def arguments_of(workflow: Any, task: str) -> dict[str, str]:
    graphs = [template["dag"]["tasks"] for template in workflow["spec"]["templates"] if "dag" in template]
    found = next(one for tasks in graphs for one in tasks if one["name"] == task)
    return {given["name"]: given["value"] for given in found["arguments"]["parameters"]}
