"""The pipeline on the server: a version for each content, uploaded once."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kfp_server_api as api
import yaml

from headrace.configs.errors import ServerError
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.faults import NOT_FOUND, unclear
from headrace.pipeline.kubeflow.server.listing import every, named
from headrace.pipeline.kubeflow.written import tasks_in

DIGITS = 16
"""Of the content's SHA-256 in a version's name."""


@dataclass(frozen=True)
class Version:
    """What a run is started from. `uploaded`: it was not there before."""

    pipeline_id: str
    version_id: str
    name: str
    uploaded: bool


def without_cache(text: str) -> str:
    """The compiled pipeline with every task's cache off."""
    documents = list(yaml.safe_load_all(text))
    for _, task in tasks_in(documents[0]):
        task["cachingOptions"] = {}
    return yaml.safe_dump_all(documents, sort_keys=True)


def content(compiled: str, *, cache: bool) -> str:
    """What is uploaded of a compiled pipeline."""
    return compiled if cache else without_cache(compiled)


def version_name(pipeline: str, text: str) -> str:
    """The name of the version with this content."""
    return f"{pipeline}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def find_pipeline(server: Connection, name: str, namespace: str | None) -> str | None:
    """The id of the pipeline of that name; None if there is none."""
    found = every(
        server,
        "find the pipeline",
        server.pipelines.pipeline_service_list_pipelines,
        "pipelines",
        **_in(namespace),
        filter=named(name),
    )
    return found[0].pipeline_id if found else None


def ensure_version(server: Connection, name: str, text: str, namespace: str | None) -> Version:
    """The version with this content: the one that is there, else a new one."""
    pipeline_id = find_pipeline(server, name, namespace) or _create(server, name, namespace)
    wanted = version_name(name, text)
    found = _find_version(server, pipeline_id, wanted)
    if found is not None:
        return Version(pipeline_id, found, wanted, uploaded=False)
    return Version(pipeline_id, _upload(server, pipeline_id, wanted, text), wanted, uploaded=True)


def put_newest(server: Connection, version: Version, text: str) -> Version:
    """The same content as the newest version on the server, uploaded anew if another was uploaded since."""
    ask = server.pipelines.pipeline_service_list_pipeline_versions
    answer = server.read("find the newest version", ask, version.pipeline_id, page_size=1, sort_by="created_at desc")
    (newest,) = answer.pipeline_versions
    name = str(newest.display_name)
    if name == version.name or re.fullmatch(rf"{re.escape(version.name)}-\d+", name):
        return replace(version, version_id=newest.pipeline_version_id, name=name)
    number = 2
    while _find_version(server, version.pipeline_id, f"{version.name}-{number}") is not None:
        number += 1
    name = f"{version.name}-{number}"
    return Version(version.pipeline_id, _upload(server, version.pipeline_id, name, text), name, uploaded=True)


def tasks_of(server: Connection, pipeline_id: str, version_id: str) -> dict[str, Any]:
    """The tasks of a version's graph, as compiled; empty where the version is no longer there."""
    return graph(_specification(server, pipeline_id, version_id))


def specification_of(server: Connection, run: Any) -> Mapping[str, Any]:
    """What was compiled for a run, as the server keeps it; empty where its version is no longer there."""
    chosen = run.pipeline_version_reference
    found = _specification(server, chosen.pipeline_id, chosen.pipeline_version_id) if chosen else run.pipeline_spec
    return found or {}


def _specification(server: Connection, pipeline_id: str, version_id: str) -> Mapping[str, Any]:
    try:
        version = server.read(
            "read the pipeline version", server.pipelines.pipeline_service_get_pipeline_version, pipeline_id, version_id
        )
    except ServerError as error:
        if error.status == NOT_FOUND:
            return {}
        raise
    found: Mapping[str, Any] = version.pipeline_spec
    return found


def graph(specification: Mapping[str, Any] | None) -> dict[str, Any]:
    """The tasks of a pipeline as the server keeps it, with a Kubernetes document beside it or without.

    In the place of a condition stand the tasks under it, which depend on all that it does, and know the groups that
    they are in as `within`; each task knows the labels of its pod as `labels`, and the claims of the volumes that it
    mounts as `claims`.
    """
    outer = specification or {}
    found = outer.get("pipeline_spec", outer)
    components = found.get("components", {})
    flat = _flat(found.get("root", {}).get("dag", {}).get("tasks", {}), components, ())
    executors = outer.get("platform_spec", {}).get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {})
    for task in flat.values():
        label = components.get(task.get("componentRef", {}).get("name", ""), {}).get("executorLabel", "")
        asked = executors.get("executors", {}).get(label, {})
        task["labels"] = asked.get("podMetadata", {}).get("labels", {})
        task["claims"] = sorted({_claim(mount) for mount in asked.get("pvcMount", ())})
    return flat


def _claim(mount: Mapping[str, Any]) -> str:
    """The name of the PersistentVolumeClaim."""
    named = mount.get("pvcNameParameter", {}).get("runtimeValue", {}).get("constant")
    return str(named or mount.get("constant", ""))


def _flat(
    tasks: Mapping[str, Any], components: Mapping[str, Any], before: tuple[str, ...], within: tuple[str, ...] = ()
) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, task in tasks.items():
        inner = components.get(task.get("componentRef", {}).get("name", ""), {}).get("dag")
        after = tuple(dict.fromkeys([*task.get("dependentTasks", ()), *before]))
        if inner is None:
            flat[name] = {**task, **({"dependentTasks": list(after)} if after else {}), "within": within}
        else:
            flat.update(_flat(inner.get("tasks", {}), components, after, (*within, name)))
    return flat


def _create(server: Connection, name: str, namespace: str | None) -> str:
    body = api.V2beta1Pipeline(display_name=name, **_in(namespace))
    try:
        made = server.change("make the pipeline", server.pipelines.pipeline_service_create_pipeline, body)
    except ServerError as error:
        found = find_pipeline(server, name, namespace) if _may_be_there(error) else None
        if found is None:
            raise
        return found
    return str(made.pipeline_id)


def _find_version(server: Connection, pipeline_id: str, name: str) -> str | None:
    ask = server.pipelines.pipeline_service_list_pipeline_versions
    found = every(server, "find the pipeline version", ask, "pipeline_versions", pipeline_id, filter=named(name))
    return found[0].pipeline_version_id if found else None


def _upload(server: Connection, pipeline_id: str, name: str, text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            made = server.change(
                "upload the pipeline",
                server.uploads.upload_pipeline_version,
                str(file),
                name=name,
                display_name=name,
                pipelineid=pipeline_id,
            )
        except ServerError as error:
            found = _find_version(server, pipeline_id, name) if _may_be_there(error) else None
            if found is None:
                raise
            return found
    return str(made.pipeline_version_id)


def _may_be_there(error: ServerError) -> bool:
    """After a fault in which it was made, or because another command made it in the meantime."""
    return unclear(error) or error.status in (400, 409)


def _in(namespace: str | None) -> dict[str, str]:
    return {} if namespace is None else {"namespace": namespace}
