"""The rules of `deploy.canary.server:` and `deploy.serving:`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.configs.config import PipelineSection
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.serving import ServingAddress

SERVER, SERVING = ("deploy", "canary", "server"), ("deploy", "serving")


def addresses(deploy: DeployConfig) -> Iterator[tuple[KeyPath, ServingAddress]]:
    """The servers that are configured, by the paths of their settings."""
    if deploy.push is None:
        return
    if deploy.canary is not None and deploy.canary.server is not None:
        yield SERVER, deploy.canary.server
    if deploy.serving is not None:
        yield SERVING, deploy.serving


def staging_server_has_an_address(deploy: DeployConfig) -> Iterator[Violation]:
    server = deploy.canary and deploy.canary.server
    if server and server.rest is None and server.grpc is None:
        yield SERVER, "it has no address; set `rest: http://host:8501`, `grpc: host:8500`, or both"


def serving_has_something_to_do(deploy: DeployConfig) -> Iterator[Violation]:
    serving = deploy.serving
    if serving is None:
        return
    addressed = serving.rest is not None or serving.grpc is not None
    if not addressed and serving.config_file is None:
        what = "it has neither an address nor a `config_file`; set `rest: http://host:8501` or `grpc: host:8500`"
        yield SERVING, f"{what} to ask whether versions are loaded, or `config_file`, or remove it"
    if serving.on_failure == "roll_back" and not addressed:
        what = "nothing says that a version is not loaded; set `rest` or `grpc`, or remove this"
        yield (*SERVING, "on_failure"), what
    if serving.config_file is None:
        for name, given in (("labels", serving.labels), ("base_path", serving.base_path is not None)):
            if given:
                yield (
                    (*SERVING, name),
                    "it is written into the `config_file`, which is not set; set that, or remove this",
                )


def labels_follow_what_is_loaded(deploy: DeployConfig) -> Iterator[Violation]:
    serving = deploy.serving
    if serving is not None and serving.labels and serving.rest is None and serving.grpc is None:
        what = "a server refuses a label for a version that it has not loaded, and nobody can be asked whether it has"
        yield (*SERVING, "labels"), f"{what}; set `rest` or `grpc` too"


def encryption_is_of_what_is_used(deploy: DeployConfig) -> Iterator[Violation]:
    for path, server in addresses(deploy):
        if server.grpc_tls and server.grpc is None:
            yield (*path, "grpc_tls"), "gRPC is not used; set `grpc`, or remove this"
        encrypted = server.grpc_tls or (server.rest or "").startswith("https://")
        if server.ca_file is not None and not encrypted:
            what = "nothing is encrypted; write `rest: https://...` or `grpc_tls: true`, or remove this"
            yield (*path, "ca_file"), what


def candidates_are_staged_elsewhere(deploy: DeployConfig, pipeline: PipelineSection) -> Iterator[Violation]:
    """A server in production would load a candidate as the newest version."""
    server = deploy.canary and deploy.canary.server
    if not server or deploy.push is None:
        return
    push = deploy.push.replace("{name}", pipeline.name)
    if Path(push).absolute() == Path(server.folder).absolute():
        what = (
            "it is that of `deploy.push`, whose server would put each candidate into service; name a folder of its own"
        )
        yield (*SERVER, "folder"), what
