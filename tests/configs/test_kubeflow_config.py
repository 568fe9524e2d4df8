"""`kubeflow:` settings over defaults, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.loading.loader import load
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.pod_resources import with_resources

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""


def kubeflow(tmp_path: Path, text: str) -> KubeflowConfig:
    path = tmp_path / "c.yaml"
    path.write_text(f"{CONFIG}kubeflow: {text}\n")
    return load(path).kubeflow


def test_a_components_settings_replace_the_defaults_one_by_one(tmp_path: Path) -> None:
    found = kubeflow(tmp_path, "{defaults: {cpu: 1, memory: 2G, labels: {a: b}}, components: {Trainer: {memory: 8G}}}")
    assert (found.settings("Trainer").cpu, found.settings("Trainer").memory) == (1, "8G")
    assert found.settings("Trainer").labels == {"a": "b"}
    assert found.settings("Spans").memory == "2G"


def test_config_written_with_its_defaults_has_the_same_pods_when_it_is_read_again(tmp_path: Path) -> None:
    """As that of an earlier run is; what was not set comes from the defaults and the table of resources again."""
    before = kubeflow(
        tmp_path,
        "{image: registry.example/headrace:1, defaults: {node_selector: {pool: cpu}, memory: 3Gi},"
        " components: {Trainer: {cpu: 4, memory_limit: null}}}",
    )
    config = load(tmp_path / "c.yaml")
    (tmp_path / "written.yaml").write_text(to_yaml(config))
    for again in (
        load(tmp_path / "written.yaml"),
        PipelineConfig.model_validate_json(config.model_dump_json(by_alias=True)),
    ):
        for component in ("Trainer", "ExampleGen"):
            settings = again.kubeflow.settings(component)
            assert settings == before.settings(component)
            assert settings.model_fields_set == before.settings(component).model_fields_set
            assert with_resources(component, settings) == with_resources(component, before.settings(component))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{pipeline_root: 's3://My Bucket/x'}", "a URI such as s3://bucket/folder"),
        ("{pipeline_root: 's3://bucket/x y'}", "a URI such as s3://bucket/folder"),
        ("{defaults: {security: {user: 2147483648}}}", "security.user: "),
        ("{pipeline_root: hdfs://a/b}", "a URI such as s3://bucket/folder"),
        ("{object_store: {endpoint: 'seaweedfs.kubeflow:9000'}}", "a URL without a path"),
        ("{object_store: {endpoint: 'http://seaweedfs.kubeflow:9000/'}}", "a URL without a path"),
        ("{defaults: {timeout: 90}}", "a time such as 30s, 10m, 2h or 1d"),
        ("{defaults: {memory: lots}}", "a size such as 4G or 512Mi"),
        ("{defaults: {memory: 512K}}", "a size such as 4G or 512Mi"),
        ("{defaults: {cpu: 0.00001}}", "100000"),
        ("{defaults: {retries: {count: 10000000000}}}", "100"),
        ("{defaults: {retries: {count: 2, factor: 1.5}}}", "100"),
        ("{defaults: {accelerator: {type: nvidia.com/gpu, count: 10000000000}}}", "1000"),
        ("{defaults: {cpu: 1234567}}", "100000"),
    ],
)
def test_a_mistake_is_reported_with_the_way_out(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kubeflow(tmp_path, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "headrace",
        "team/headrace:1",
        "localhost/headrace",
        "localhost:5000/a/b_c/d-e.f:V_1.0",
        "Registry.Example:443/headrace",
        "[::1]:5000/headrace",
        f"registry.example/headrace@sha256:{'0a' * 32}",
        f"headrace:1@sha256:{'0a' * 32}",
    ],
)
def test_names_of_images_are_taken(tmp_path: Path, name: str) -> None:
    assert kubeflow(tmp_path, f"{{image: '{name}'}}").image == name


def test_what_kubernetes_takes_is_taken(tmp_path: Path) -> None:
    text = """
  namespace: team-a
  image_pull_secrets: [registry.example]
  defaults:
    cpu: 0.001
    memory: 1.5Gi
    memory_limit: 2G
    labels: {app.kubernetes.io/part-of: Taxi_1.0, empty: "", pipeline: taxi}
    env: {_A.b-c: "x y", sort_key: fare}
    volumes: [{claim: a, path: /x}, {claim: a, path: /x/y}]
    secrets: [{name: some.secret, env: {A: tls.crt}}, {name: b, path: /z}, {name: a, env: {B: c}}]
"""
    assert kubeflow(tmp_path, text).settings("Trainer").cpu == 0.001
