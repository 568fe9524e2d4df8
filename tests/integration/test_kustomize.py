"""The overlays of `kubernetes/`: they build, and nothing in them may do or be more than it must."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from command import ROOT

OVERLAYS = sorted(path.parent for path in (ROOT / "kubernetes" / "overlays").glob("*/kustomization.yaml"))

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture(scope="module", params=OVERLAYS, ids=lambda path: path.name)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    built = subprocess.run(["kubectl", "kustomize", str(request.param)], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(built.stdout))


def of_kind(objects: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (one for one in objects if one["kind"] == kind)


def test_all_is_in_one_namespace_and_belongs_to_headrace(objects: list[dict[str, Any]]) -> None:
    assert {one["metadata"]["namespace"] for one in objects} == {"kubeflow"}
    ours = [one for one in objects if one["metadata"]["name"] != "kfp-launcher"]
    assert {one["metadata"]["labels"]["app.kubernetes.io/part-of"] for one in ours} == {"headrace"}


def test_no_account_has_power_over_all_of_anything(objects: list[dict[str, Any]]) -> None:
    assert not [one for one in objects if one["kind"].startswith("ClusterRole")]
    rules = [rule for role in of_kind(objects, "Role") for rule in role["rules"]]
    assert rules
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        if rule["resources"] == ["secrets"]:
            assert rule["resourceNames"] == ["mlpipeline-minio-artifact"]
            assert rule["verbs"] == ["get"]


def test_containers_are_not_root_and_write_only_where_they_must(objects: list[dict[str, Any]]) -> None:
    pods = [one["spec"]["template"]["spec"] for one in of_kind(objects, "Deployment")]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_what_is_referred_to_is_there(objects: list[dict[str, Any]]) -> None:
    claims = {one["metadata"]["name"] for one in of_kind(objects, "PersistentVolumeClaim")}
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in of_kind(objects, "Deployment")]
    accounts = {one["metadata"]["name"] for one in of_kind(objects, "ServiceAccount")}
    for deployment in of_kind(objects, "Deployment"):
        named = [
            v["persistentVolumeClaim"] for v in deployment["spec"]["template"]["spec"]["volumes"] if "emptyDir" not in v
        ]
        assert {one["claimName"] for one in named} <= claims
    for service in of_kind(objects, "Service"):
        assert any(service["spec"]["selector"].items() <= one.items() for one in labels)
    for binding in of_kind(objects, "RoleBinding"):
        assert {subject["name"] for subject in binding["subjects"]} <= accounts


def test_objects_fit_the_schemas_of_kubernetes(objects: list[dict[str, Any]]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in objects:
        validate.validate(one, validate.latest_version(), strict=True)


def test_the_folder_never_hides_the_client_of_that_name() -> None:
    assert not list((ROOT / "kubernetes").rglob("*.py"))
