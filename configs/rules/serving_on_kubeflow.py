"""The rules of TensorFlow Serving's addresses for a config that is compiled for Kubeflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from headrace.common.names import join_or
from headrace.configs.config import PipelineSection
from headrace.configs.rules.notify import LOOPBACK
from headrace.configs.rules.rule import Violation
from headrace.configs.rules.serving import SERVER, SERVING, addresses
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.pods import normalized
from headrace.configs.schema.section import KeyPath

IMAGE_FOLDERS = ("/etc", "/opt", "/usr")
"""Where an image has certificates, such as /opt/ca/bundle.pem of `headrace image --ca-in-image`."""
REMOTE = ("s3://", "gs://", "minio://")
_POD: dict[KeyPath, str] = {SERVER: "Canary", SERVING: "Pusher"}


def servers_are_reached_from_pods(deploy: DeployConfig) -> Iterator[Violation]:
    for path, server in addresses(deploy):
        hosts = {"rest": urlsplit(server.rest or "").hostname, "grpc": urlsplit(f"//{server.grpc or ''}").hostname}
        for name, host in hosts.items():
            if host in LOOPBACK:
                what = f"{host} is the {_POD[path]}'s pod itself; use the address of the server's Service"
                yield (*path, name), f"{what}, such as serving.models.svc"


def certificates_of_servers_are_in_pods(deploy: DeployConfig, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for path, server in addresses(deploy):
        if server.ca_file is None or is_below(server.ca_file, (*kubeflow.mounted(_POD[path]), *IMAGE_FOLDERS)):
            continue
        pod = _POD[path]
        what = f"the {pod}'s pod has no {server.ca_file}: mount a Secret with it, such as `kubeflow.components.{pod}"
        example = ".secrets: [{name: serving-ca, path: /certs}]` for /certs/ca.pem, or put it into the image below"
        yield (*path, "ca_file"), f"{what}{example} {join_or(IMAGE_FOLDERS)}"


def staging_folder_outlives_the_pod(deploy: DeployConfig, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    server = deploy.canary and deploy.canary.server
    if server and not server.folder.startswith(REMOTE) and not is_below(server.folder, kubeflow.mounted("Canary")):
        what = f"{server.folder} is on no volume that the Canary's pod mounts, so no server sees the candidate"
        way = "mount one under kubeflow.components.Canary.volumes, or use a folder in an object store"
        yield (*SERVER, "folder"), f"{what}; {way}"


def candidates_are_staged_elsewhere_in_the_store(
    deploy: DeployConfig, pipeline: PipelineSection, kubeflow: KubeflowConfig
) -> Iterator[Violation]:
    """A server in production would load a candidate as the newest version."""
    server = deploy.canary and deploy.canary.server
    if not server or deploy.push is None:
        return
    push = f"{kubeflow.pipeline_root.rstrip('/')}/{pipeline.name}/{deploy.push.replace('{name}', pipeline.name)}"
    if _in_store(server.folder) == _in_store(push):
        what = "it is that of `deploy.push`, whose server would put each candidate into service"
        yield (*SERVER, "folder"), f"{what}; name a folder of its own"


def _in_store(uri: str) -> str:
    """A URI as others may write it."""
    return normalized(uri.replace("minio://", "s3://", 1).replace("://", ":/", 1))


def versions_are_found_by_servers(
    deploy: DeployConfig, pipeline: PipelineSection, kubeflow: KubeflowConfig
) -> Iterator[Violation]:
    serving = deploy.serving
    if serving is None or deploy.push is None:
        return
    if serving.on_failure == "roll_back":
        what = "a pod does not roll back; set it to report for Kubeflow, and use `headrace rollback --kubeflow`"
        yield (*SERVING, "on_failure"), what
    if Path(deploy.push.replace("{name}", pipeline.name)).is_absolute():
        what = f"{deploy.push} is not in the object store, whose list of versions is what a server is asked for"
        yield SERVING, f"{what}; set a relative `deploy.push`, or this to null for Kubeflow"
    if serving.config_file is None:
        return
    if not serving.config_file.startswith(REMOTE) and not is_below(serving.config_file, kubeflow.mounted("Pusher")):
        what = f"{serving.config_file} is on no volume that the Pusher's pod mounts, so no server would read it"
        way = "mount one under kubeflow.components.Pusher.volumes, or use a file in an object store"
        yield (*SERVING, "config_file"), f"{what}; {way}"
    if serving.base_path is None and kubeflow.storage == "reference":
        what = "with `kubeflow.storage: reference` the versions are on a volume; set the path at which the server has"
        yield (*SERVING, "base_path"), f"{what} deploy.push"


def is_below(file: str, folders: tuple[str, ...]) -> bool:
    """Whether an absolute path is in one of the folders."""
    return file.startswith("/") and any(Path(normalized(file)).is_relative_to(folder) for folder in folders)
