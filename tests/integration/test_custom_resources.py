"""What `kubernetes/components` asks of Flink's operator and of KServe, against the definitions in their packages.

The packages are fetched by their own clients, once, into the clients' caches; without a client or an answer the tests
skip, and say so.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import ROOT
from kserve_objects import merged

from headrace.configs.loading.loader import load
from headrace.configs.schema.kserve import KServeConfig
from headrace.pipeline.kubeflow.distributed.jobset import Owner, compiled_jobset, complete
from headrace.pipeline.kubeflow.kserve.observed import Observed
from headrace.pipeline.kubeflow.kserve.rollout import Rollout, Target
from headrace.pipeline.kubeflow.kserve.service import ServiceClient
from headrace.pipeline.kubeflow.pod.paths import PodPaths

FLINK = "org.apache.flink:flink-kubernetes-operator-api:1.10.0"
FLINK_FILE = "META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"
KSERVE = "kserve==0.21.0"
TRAINER_API = "kubeflow-trainer-api==2.3.0"
SECONDS = 120
COMPONENTS = ROOT / "kubernetes" / "components"


def fetched(command: list[str], folder: Path, pattern: str) -> Path:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{Path(command[0]).name} got no answer in {SECONDS} s")
    if done.returncode:
        pytest.skip(f"{Path(command[0]).name} could not fetch it: {(done.stdout + done.stderr).strip()[:200]}")
    return next(folder.glob(pattern))


def custom(kind: str) -> dict[str, Any]:
    for file in sorted(COMPONENTS.rglob("*.yaml")):
        for one in yaml.safe_load_all(file.read_text()):
            if one["kind"] == kind:
                return dict(one)
    raise AssertionError(f"there is no {kind}")


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("flink")
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={FLINK}", f"-DoutputDirectory={folder}"]
    with zipfile.ZipFile(fetched(command, folder, "*.jar")) as jar:
        definition = yaml.load(jar.read(FLINK_FILE), Loader=yaml.CSafeLoader)
    (served,) = [one for one in definition["spec"]["versions"] if one["name"] == "v1beta1"]
    schema = closed(served["schema"]["openAPIV3Schema"])
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return dict(schema)


def closed(schema: Any) -> Any:
    """As the API server takes it with `fieldValidation=Strict`: no field that is not defined."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and not found.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


def test_flink_deployment_fits_the_operators_definition(flink: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(custom("FlinkDeployment"), flink)


def test_a_misspelt_field_of_a_flink_deployment_is_found(flink: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    deployment = custom("FlinkDeployment")
    deployment["spec"]["taskManager"]["podTemplate"]["spec"]["containers"][0]["resource"] = {}
    with pytest.raises(jsonschema.ValidationError, match="'resource' was unexpected"):
        jsonschema.validate(deployment, flink)


@pytest.fixture(scope="module")
def kserve(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("kserve")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), KSERVE]
    return zipfile.ZipFile(fetched(command, folder, "*.whl"))


def test_inference_service_has_only_fields_that_kserve_knows(kserve: zipfile.ZipFile) -> None:
    assert list(unknown(kserve, custom("InferenceService"), "V1beta1InferenceService", "")) == []


def test_service_that_a_rollout_changed_has_only_fields_that_kserve_knows(kserve: zipfile.ZipFile) -> None:
    seen = Observed.of({**custom("InferenceService"), "metadata": {"resourceVersion": "1"}})
    target = Target("s3://bucket/2", "2", "run/pusher", "s3://bucket")
    settings = KServeConfig(name="headrace-model", canary_percent=10)
    rollout = Rollout(ServiceClient("headrace-model", "kubeflow"), settings, target)
    patch = rollout.pointing(replace(seen, mode="serverless", rolled_out="r-1", created="r-1"))
    assert patch["spec"]["predictor"]["canaryTrafficPercent"] == 10
    service = merged(custom("InferenceService"), patch)
    assert list(unknown(kserve, service, "V1beta1InferenceService", "")) == []


def test_a_misspelt_field_of_an_inference_service_is_found(kserve: zipfile.ZipFile) -> None:
    service = custom("InferenceService")
    service["spec"]["predictor"]["model"]["storageURI"] = service["spec"]["predictor"]["model"].pop("storageUri")
    assert list(unknown(kserve, service, "V1beta1InferenceService", "")) == [".spec.predictor.model.storageURI"]


def unknown(wheel: zipfile.ZipFile, value: Any, type_: str, path: str) -> Iterator[str]:
    """Paths of fields that a model class does not have, or whose value is of another type."""
    container = re.fullmatch(r"(list|dict)[\[(](?:str, ?)?(\w+)[\])]", type_)
    if container:
        if not isinstance(value, {"list": list, "dict": dict}[container[1]]):
            yield path
            return
        inside = value if isinstance(value, list) else value.values()
        for number, one in enumerate(inside):
            yield from unknown(wheel, one, container[2], f"{path}[{number}]")
    elif type_ in ("str", "int", "bool", "float"):
        if type(value).__name__ != type_:
            yield path
    elif (model := model_of(wheel, type_)) is not None:
        fields = {name: model[0][own] for own, name in model[1].items()}
        for name, one in value.items():
            if name not in fields:
                yield f"{path}.{name}"
            else:
                yield from unknown(wheel, one, fields[name], f"{path}.{name}")


def model_of(wheel: zipfile.ZipFile, type_: str) -> tuple[dict[str, str], dict[str, str]] | None:
    """`openapi_types` and `attribute_map` of a class of KServe's, or of Kubernetes' client; None for plain values."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type_).lower()
    for member in (f"kserve/models/{name}.py", f"kserve/models/knative_{name}.py"):
        if member in wheel.namelist():
            body = next(one for one in ast.parse(wheel.read(member)).body if isinstance(one, ast.ClassDef)).body
            found = {one.targets[0].id: one.value for one in body if isinstance(one, ast.Assign)}  # type: ignore[attr-defined]
            return ast.literal_eval(found["openapi_types"]), ast.literal_eval(found["attribute_map"])
    model: Any = getattr(importlib.import_module("kubernetes.client"), type_.removeprefix("K8sIoApiCore"), None)
    return (model.openapi_types, model.attribute_map) if hasattr(model, "openapi_types") else None


@pytest.fixture(scope="module")
def as_trainer_knows(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A JobSet as Kubeflow Trainer's own package has it, without the fields that it does not know."""
    folder = tmp_path_factory.mktemp("trainer")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), TRAINER_API]
    wheel = fetched(command, folder, "*.whl")
    read = "import json, sys; from kubeflow_trainer_api.models import JobsetV1alpha2JobSet as JobSet;"
    read += "print(json.dumps(JobSet.from_dict(json.load(sys.stdin)).to_dict()))"

    def known(made: dict[str, Any]) -> dict[str, Any]:
        command = [sys.executable, "-c", read]
        environment = {**os.environ, "PYTHONPATH": str(wheel)}
        done = subprocess.run(
            command, input=json.dumps(made), capture_output=True, text=True, env=environment, check=True
        )
        return dict(json.loads(done.stdout))

    return known


def test_jobset_of_a_training_has_only_fields_that_kubeflow_trainer_knows(
    as_trainer_knows: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    overrides = ["kubeflow.image=headrace:1", "train.strategy=multi_worker", "kubeflow.workers={count: 2}"]
    settings = load(ROOT / "configs" / "taxi.yaml", None, overrides).kubeflow
    made = compiled_jobset(settings, settings.worker)
    done = complete(made, "headrace-1", Owner("task", "uid", "headrace-runner"), {})
    assert as_trainer_knows(done) == done
    policy = done["spec"]["failurePolicy"]
    policy["maxRestart"] = policy.pop("maxRestarts")
    assert "maxRestart" not in as_trainer_knows(done)["spec"]["failurePolicy"]


def test_model_server_reads_where_the_example_pushes_to_on_the_volume() -> None:
    config = load(ROOT / "configs" / "taxi.yaml")
    home = PodPaths("", "/headrace").local(f"{config.kubeflow.pipeline_root}/{config.pipeline.name}")
    assert config.push_directory is not None
    path = home.relative_to("/headrace") / config.push_directory
    model = custom("InferenceService")["spec"]["predictor"]["model"]
    assert model["storageUri"] == f"pvc://headrace-artifacts/{path}"


def test_workers_are_found_where_docs_and_configs_say() -> None:
    docs = (ROOT / "docs" / "kubeflow_cluster.md").read_text()
    services = [
        one
        for file in COMPONENTS.rglob("*.yaml")
        for one in yaml.safe_load_all(file.read_text())
        if one["kind"] == "Service"
    ]
    addresses = {f"{one['metadata']['name']}:{one['spec']['ports'][0]['port']}" for one in services}
    assert addresses == {"headrace-tfdata:5050", "headrace-beam-jobs:8099"}
    assert all(address in docs for address in addresses)
    (pool,) = custom("FlinkDeployment")["spec"]["taskManager"]["podTemplate"]["spec"]["containers"]
    assert pool["args"] == ["--service_port=50000"]
    assert "environment_config: localhost:50000" in docs


def test_job_server_is_of_the_locked_beam_and_of_flinks_release() -> None:
    deployments = yaml.safe_load_all((COMPONENTS / "flink" / "job-server.yaml").read_text())
    image = next(one for one in deployments if one["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]
    flink = custom("FlinkDeployment")["spec"]["flinkVersion"].removeprefix("v").replace("_", ".")
    assert image["image"] == f"apache/beam_flink{flink}_job_server:{version('apache-beam')}"
    assert custom("FlinkDeployment")["spec"]["image"].startswith(f"flink:{flink}-")
