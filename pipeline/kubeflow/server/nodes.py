"""The nodes of a run's Argo workflow, as the API server keeps them with Argo's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.pipeline.kubeflow.server.connection import Connection

EXECUTOR = re.compile(r"(?:^|\.)([\w-]+)(?:\(\d+\))?\.executor(?:\((\d+)\))?$")
"""The end of the name of a pod's node, `wf(0).root(0).trainer(0).executor(1)`."""


def nodes_of(server: Connection, run_id: str) -> list[Mapping[str, Any]]:
    """The nodes of the workflow; empty where the server keeps none. Raises ServerError."""
    answer = server.text("read the run's workflow", "/apis/v1beta1/runs/{run_id}", run_id=run_id)
    try:
        manifest = json.loads(json.loads(answer)["pipeline_runtime"]["workflow_manifest"])
        return list(manifest["status"]["nodes"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def executors(nodes: list[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The nodes of components' pods with the components' tasks, each try after the one before."""
    found = [(match, node) for node in nodes if (match := EXECUTOR.search(str(node.get("name", ""))))]
    for match, node in sorted(found, key=lambda one: (_started(one[1]), int(one[0][2] or 0))):
        if node.get("type") == "Pod":
            yield match[1], node


def pod_of(node: Mapping[str, Any]) -> str:
    """The name of a node's pod: `<workflow>-<template>-<hash>`, where the node is `<workflow>-<hash>`."""
    workflow, _, hashed = str(node.get("id", "")).rpartition("-")
    return f"{workflow}-{node.get('templateName', '')}-{hashed}"


def _started(node: Mapping[str, Any]) -> str:
    return str(node.get("startedAt", ""))
