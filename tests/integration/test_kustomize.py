"""The overlays of `kubernetes/`: they build, and nothing in them may do or be more than it must."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import ROOT

from headrace.pipeline.verbs.tensorboard import follow_logs

KUBERNETES = ROOT / "kubernetes"
OVERLAYS = sorted(path.parent.name for path in (KUBERNETES / "overlays").glob("*/kustomization.yaml"))
COMPONENTS = sorted(path.parent.name for path in (KUBERNETES / "components").glob("*/kustomization.yaml"))
CUSTOM = {"FlinkDeployment", "InferenceService"}
ON_A_VOLUME = sorted({*COMPONENTS} - {"reference"})
CASES = [*((overlay, ()) for overlay in OVERLAYS), *((overlay, tuple(COMPONENTS)) for overlay in OVERLAYS)]
CASES += [("small", ("reference",)), *(("small", ("reference", component)) for component in ON_A_VOLUME)]
NAMESPACES = {"small": "kubeflow", "cloud": "headrace"}
"""Where the overlays put all: where a server without users, and one of many users, runs pods."""

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join([case[0], *case[1]]))
def objects(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What an overlay makes, with components added to it as docs/kubeflow_cluster.md says."""
    overlay, components = request.param
    folder = tmp_path_factory.mktemp("kubernetes")
    shutil.copytree(KUBERNETES, folder, dirs_exist_ok=True)
    file = folder / "overlays" / overlay / "kustomization.yaml"
    added = "".join(f"  - ../../components/{name}\n" for name in components)
    file.write_text(file.read_text() + (f"components:\n{added}" if added else ""))
    return built(file.parent)


def built(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def of_kind(objects: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (one for one in objects if one["kind"] == kind)


def test_all_is_in_one_namespace_and_belongs_to_headrace(objects: list[dict[str, Any]]) -> None:
    (namespace,) = {one["metadata"]["namespace"] for one in objects}
    assert namespace in NAMESPACES.values()
    subjects = [subject for one in of_kind(objects, "RoleBinding") for subject in one["subjects"]]
    assert {subject["namespace"] for subject in subjects} == {namespace}
    ours = [one for one in objects if one["metadata"]["name"] != "kfp-launcher"]
    assert {one["metadata"]["labels"]["app.kubernetes.io/part-of"] for one in ours} == {"headrace"}


def test_no_overlay_makes_or_removes_a_namespace(objects: list[dict[str, Any]]) -> None:
    assert not list(of_kind(objects, "Namespace"))


def test_overlays_are_where_kubeflow_runs_pods() -> None:
    for overlay in OVERLAYS:
        kustomization = yaml.safe_load((KUBERNETES / "overlays" / overlay / "kustomization.yaml").read_text())
        assert kustomization["namespace"] == NAMESPACES[overlay]


def test_the_namespace_of_ones_own_is_never_kubeflows_and_pods_may_not_be_more_than_they_must() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    objects = built(KUBERNETES / "namespace")
    for one in objects:
        validate.validate(one, validate.latest_version(), strict=True)
    (namespace,) = of_kind(objects, "Namespace")
    assert namespace["metadata"]["name"] == NAMESPACES["cloud"] != "kubeflow"
    labels = namespace["metadata"]["labels"]
    levels = {name.partition("/")[2]: level for name, level in labels.items() if name.startswith("pod-security")}
    assert levels == {"enforce": "baseline", "warn": "restricted", "audit": "restricted"}
    assert labels["pipelines.kubeflow.org/enabled"] == "true"
    (binding,) = of_kind(objects, "RoleBinding")
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == ("headrace", "kubeflow-pipelines-edit")


def test_no_account_has_power_over_all_of_anything(objects: list[dict[str, Any]]) -> None:
    assert not [one for one in objects if one["kind"].startswith("ClusterRole")]
    rules = [rule for role in of_kind(objects, "Role") for rule in role["rules"]]
    assert rules
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        if rule["resources"] == ["secrets"]:
            assert rule["resourceNames"] == ["mlpipeline-minio-artifact"]
            assert rule["verbs"] == ["get"]


def test_runs_may_report_tasks_and_artifacts_to_the_api_without_ml_metadata(
    objects: list[dict[str, Any]],
) -> None:
    """What Kubeflow's own role of runs has for it since kubeflow/pipelines#13986."""
    (role,) = (one for one in of_kind(objects, "Role") if one["metadata"]["name"] == "headrace-runner")
    reported = [rule for rule in role["rules"] if rule["apiGroups"] == ["pipelines.kubeflow.org"]]
    assert {rule["resources"][0]: set(rule["verbs"]) for rule in reported} == {
        "runs": {"get", "list", "update"},
        "artifacts": {"get", "list", "create"},
    }


def test_the_notifiers_account_may_only_read_runs_through_kubeflows_api(objects: list[dict[str, Any]]) -> None:
    for role in (one for one in of_kind(objects, "Role") if one["metadata"]["name"] == "headrace-notify"):
        assert role["rules"] == [
            {
                "apiGroups": ["pipelines.kubeflow.org"],
                "resources": ["experiments", "pipelines", "pipelines/versions", "runs"],
                "verbs": ["get", "list"],
            }
        ]
    accounts = [one for one in of_kind(objects, "ServiceAccount") if one["metadata"]["name"] == "headrace-notify"]
    assert all(one["automountServiceAccountToken"] is False for one in accounts)


def workloads(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*of_kind(objects, "Deployment"), *of_kind(objects, "StatefulSet")]


def test_containers_are_not_root_and_write_only_where_they_must(objects: list[dict[str, Any]]) -> None:
    assert workloads(objects)
    for one in workloads(objects):
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        claimed = one["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claimed}
        for container in pod["containers"]:
            confined(container)
            assert container["resources"]["limits"]["memory"]
        mounts = [mount for container in pod["containers"] for mount in container["volumeMounts"]]
        assert {mount["name"] for mount in mounts} == volumes
        assert all("tmp" in [mount["name"] for mount in container["volumeMounts"]] for container in pod["containers"])


def confined(container: dict[str, Any]) -> None:
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_flinks_containers_are_confined_too(objects: list[dict[str, Any]]) -> None:
    for one in of_kind(objects, "FlinkDeployment"):
        both, own = one["spec"]["podTemplate"]["spec"], one["spec"]["taskManager"]["podTemplate"]["spec"]
        assert both["securityContext"]["runAsNonRoot"] is True
        volumes = {volume["name"] for volume in [*both["volumes"], *own["volumes"]]}
        for container in [*both["containers"], *own["containers"]]:
            confined(container)
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_only_pods_of_runs_and_its_own_reach_the_tf_data_service(objects: list[dict[str, Any]]) -> None:
    service = [one for one in workloads(objects) if one["metadata"]["name"].startswith("headrace-tfdata")]
    policies = [
        one["spec"] for one in of_kind(objects, "NetworkPolicy") if one["metadata"]["name"] == "headrace-tfdata"
    ]
    assert len(service) == 2 * len(policies)
    for policy in policies:
        ((rule),) = policy["ingress"]
        own = {"headrace/tfdata": "service"}
        for one in service:
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert policy["podSelector"]["matchLabels"].items() <= labels.items()
            (container,) = one["spec"]["template"]["spec"]["containers"]
            assert container["args"][-2:] == ["--listen", "0.0.0.0"]
        assert admitted(rule, own)
        assert admitted(rule, {"pipelines.kubeflow.org/v2_component": "true", "pipeline/runid": "1"})
        assert admitted(rule, {"headrace/tfdata": "client"})
        assert not admitted(rule, {"app": "ml-pipeline-ui"})
        assert not admitted(rule, {})


def test_every_pod_that_listens_is_under_a_policy(objects: list[dict[str, Any]]) -> None:
    listening = {one["metadata"]["name"]: one["spec"]["template"] for one in workloads(objects) if ports(one)}
    listening |= {one["metadata"]["name"]: one["spec"]["podTemplate"] for one in of_kind(objects, "FlinkDeployment")}
    listening |= {
        one["metadata"]["name"]: {"metadata": {"labels": {"serving.kserve.io/inferenceservice": "headrace-model"}}}
        for one in of_kind(objects, "InferenceService")
    }
    assert "headrace-tensorboard" in listening
    policies = [one["spec"] for one in of_kind(objects, "NetworkPolicy")]
    assert all(policy["policyTypes"] == ["Ingress"] for policy in policies)
    for name, pod in listening.items():
        over = [policy for policy in policies if selects(policy["podSelector"], pod["metadata"]["labels"])]
        assert len(over) == 1, name


def ports(tree: Any) -> list[Any]:
    """The ports of all containers below."""
    return [port for container in containers(tree) for port in container.get("ports", ())]


def test_no_pod_reaches_tensorboard(objects: list[dict[str, Any]]) -> None:
    """Only `kubectl port-forward` does, which enters a pod by its loopback."""
    (policy,) = (one for one in of_kind(objects, "NetworkPolicy") if one["metadata"]["name"] == "headrace-tensorboard")
    (board,) = (one for one in workloads(objects) if one["metadata"]["name"] == "headrace-tensorboard")
    assert policy["spec"]["podSelector"]["matchLabels"] == board["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert not policy["spec"].get("ingress")


def test_only_pods_of_the_namespace_reach_the_model_server_and_only_its_ports(objects: list[dict[str, Any]]) -> None:
    models = {one["metadata"]["name"] for one in of_kind(objects, "InferenceService")}
    policies = [one["spec"] for one in of_kind(objects, "NetworkPolicy") if one["metadata"]["name"] in models]
    assert len(policies) == len(models)
    for policy in policies:
        ((rule),) = policy["ingress"]
        assert policy["podSelector"]["matchLabels"]["serving.kserve.io/inferenceservice"] in models
        assert {one["port"] for one in rule["ports"]} == {8080, 9000}
        assert admitted(rule, {"app": "anything"})


def admitted(rule: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a pod of the namespace with these labels may connect."""
    return any(selects(one["podSelector"], labels) for one in rule["from"] if "namespaceSelector" not in one)


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    one_of = selector.get("matchExpressions", ())
    assert all(each["operator"] == "In" for each in one_of)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in one_of
    )


def test_the_model_server_is_confined_too(objects: list[dict[str, Any]]) -> None:
    for one in of_kind(objects, "InferenceService"):
        assert one["spec"]["predictor"]["securityContext"]["runAsNonRoot"] is True
        confined(one["spec"]["predictor"]["model"])


def test_all_that_is_ours_runs_in_the_image_of_the_overlay(objects: list[dict[str, Any]]) -> None:
    text = yaml.safe_dump_all(objects)
    images = {line.split()[-1] for line in text.splitlines() if line.strip(" -").startswith("image:")}
    assert len({image for image in images if "headrace" in image}) == 1
    assert "headrace" not in images  # without a tag: one that the overlay does not know
    assert not any(image.endswith(":latest") for image in images)


def test_an_image_that_is_loaded_into_the_nodes_is_taken_as_it_is(objects: list[dict[str, Any]]) -> None:
    ours = [one for one in containers(objects) if "headrace" in one["image"]]
    assert ours
    assert {one.get("imagePullPolicy") for one in ours} == {"IfNotPresent"}


def containers(tree: Any) -> Iterator[dict[str, Any]]:
    """All containers below, in whatever pod."""
    if isinstance(tree, dict):
        yield from (one for kind in ("containers", "initContainers") for one in tree.get(kind, ()) if "image" in one)
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from containers(inner)


def test_a_quota_takes_every_pod_as_all_containers_say_what_they_ask_for(objects: list[dict[str, Any]]) -> None:
    for one in containers(objects):
        for kind in ("requests", "limits"):
            assert one["resources"][kind].keys() >= {"cpu", "memory"}, one["name"]


def test_pods_of_one_node_share_a_volume_in_the_small_overlay_and_those_of_many_in_the_cloud(
    objects: list[dict[str, Any]],
) -> None:
    modes = {"kubeflow": ["ReadWriteOnce"], "headrace": ["ReadWriteMany"]}
    for one in of_kind(objects, "PersistentVolumeClaim"):
        if one["metadata"]["name"] == "headrace-artifacts":
            assert one["spec"]["accessModes"] == modes[one["metadata"]["namespace"]]


def test_runs_may_read_the_stores_keys_only_where_there_are_some(objects: list[dict[str, Any]]) -> None:
    launcher = next(one for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == "kfp-launcher")
    read = [rule for role in of_kind(objects, "Role") for rule in role["rules"] if "secrets" in rule["resources"]]
    bound = {one["roleRef"]["name"] for one in of_kind(objects, "RoleBinding")}
    assert bool(read) == ("secretRef" in launcher["data"]["providers"])
    assert bound == {one["metadata"]["name"] for one in of_kind(objects, "Role")}


def test_what_is_referred_to_is_there(objects: list[dict[str, Any]]) -> None:
    claims = {one["metadata"]["name"] for one in of_kind(objects, "PersistentVolumeClaim")}
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in workloads(objects)]
    accounts = {one["metadata"]["name"] for one in of_kind(objects, "ServiceAccount")}
    flink = [one["spec"]["taskManager"]["podTemplate"]["spec"] for one in of_kind(objects, "FlinkDeployment")]
    for pod in [*(one["spec"]["template"]["spec"] for one in workloads(objects)), *flink]:
        named = [volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
        assert {one["claimName"] for one in named} <= claims
        assert {one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one} <= {"kfp-launcher"}
        assert pod.get("serviceAccountName", "headrace-runner") in accounts
    for one in of_kind(objects, "HorizontalPodAutoscaler"):
        target = one["spec"]["scaleTargetRef"]
        assert target["name"] in {found["metadata"]["name"] for found in of_kind(objects, target["kind"])}
        assert all("replicas" not in found["spec"] for found in objects if found["metadata"]["name"] == target["name"])
    for one in of_kind(objects, "InferenceService"):
        assert one["spec"]["predictor"]["model"]["storageUri"].removeprefix("pvc://").split("/")[0] in claims
    for service in of_kind(objects, "Service"):
        assert any(service["spec"]["selector"].items() <= one.items() for one in labels)
    for binding in of_kind(objects, "RoleBinding"):
        assert {subject["name"] for subject in binding["subjects"]} <= accounts


def test_tensorboard_shows_what_is_copied_for_it_and_the_volume_where_there_is_one(
    objects: list[dict[str, Any]],
) -> None:
    pod = next(one for one in workloads(objects) if one["metadata"]["name"] == "headrace-tensorboard")["spec"][
        "template"
    ]
    board, follower = pod["spec"]["containers"]
    logdir = board["args"][board["args"].index("--logdir") + 1]
    shown = {mount["name"]: mount for mount in board["volumeMounts"]}
    assert shown["logs"]["mountPath"] in {logdir, f"{logdir}/staged"}
    on_volume = bool(list(of_kind(objects, "PersistentVolumeClaim")))
    assert ("artifacts" in shown) == on_volume
    assert not on_volume or shown["artifacts"] == {
        "name": "artifacts",
        "mountPath": f"{logdir}/volume",
        "readOnly": True,
    }
    into = follower["args"][0]
    assert {"name": "logs", "mountPath": into} in follower["volumeMounts"]
    room = next(volume["emptyDir"]["sizeLimit"] for volume in pod["spec"]["volumes"] if volume["name"] == "logs")
    assert int(follower["args"][follower["args"].index("--limit") + 1]) * 1_250_000 < int(room.removesuffix("Gi")) << 30
    keys = {one["name"]: one["valueFrom"]["secretKeyRef"]["name"] for one in follower.get("env", ())}
    launcher = next(one for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == "kfp-launcher")
    secret = "mlpipeline-minio-artifact" if "secretRef" in launcher["data"]["providers"] else None
    assert set(keys.values()) == ({secret} if secret else set())
    follow_logs.make_context("follow-logs", list(follower["args"]))  # refuses what the command does not take


def test_objects_fit_the_schemas_of_kubernetes(objects: list[dict[str, Any]]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in objects:
        if one["kind"] not in CUSTOM:
            validate.validate(one, validate.latest_version(), strict=True)


def test_the_folder_never_hides_the_client_of_that_name() -> None:
    assert not list((ROOT / "kubernetes").rglob("*.py"))
