"""Versions of the pipeline on the server: one for each content, uploaded once."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kfp_server_api as api

from headrace.common.errors import ServerError
from headrace.pipeline.kubeflow.document import flat_graph, version_name
from headrace.pipeline.kubeflow.server.connection import Connection, list_all, name_filter
from headrace.pipeline.kubeflow.server.errors import NOT_FOUND, may_exist

BAD_REQUEST = 400
_UPLOAD_REFUSED = (
    "the server answers so too if the account may not create pipelines in the namespace (kubeflow.namespace); its log"
    " has the reason"
)


@dataclass(frozen=True)
class PipelineVersion:
    """What a run is started from. uploaded: whether it did not exist before."""

    pipeline_id: str
    version_id: str
    name: str
    uploaded: bool


def find_pipeline(server: Connection, name: str, namespace: str | None) -> str | None:
    """The id of the pipeline with that name, or None."""
    found = list_all(
        server,
        "find the pipeline",
        server.pipelines.pipeline_service_list_pipelines,
        "pipelines",
        **_in(namespace),
        filter=name_filter(name),
    )
    return found[0].pipeline_id if found else None


def ensure_version(server: Connection, name: str, text: str, namespace: str | None) -> PipelineVersion:
    """The version with this content, uploaded if it does not exist."""
    pipeline_id = find_pipeline(server, name, namespace) or _create(server, name, namespace)
    wanted = version_name(name, text)
    found = _find_version(server, pipeline_id, wanted)
    if found is not None:
        return PipelineVersion(pipeline_id, found, wanted, uploaded=False)
    return PipelineVersion(pipeline_id, _upload(server, pipeline_id, wanted, text), wanted, uploaded=True)


def put_newest(server: Connection, version: PipelineVersion, text: str) -> PipelineVersion:
    """The same content as the newest version on the server, uploaded again if another version was uploaded since."""
    method = server.pipelines.pipeline_service_list_pipeline_versions
    answer = server.read("find the newest version", method, version.pipeline_id, page_size=1, sort_by="created_at desc")
    (newest,) = answer.pipeline_versions
    name = str(newest.display_name)
    if name == version.name or re.fullmatch(rf"{re.escape(version.name)}-\d+", name):
        return replace(version, version_id=newest.pipeline_version_id, name=name)
    number = 2
    while _find_version(server, version.pipeline_id, f"{version.name}-{number}") is not None:
        number += 1
    name = f"{version.name}-{number}"
    return PipelineVersion(version.pipeline_id, _upload(server, version.pipeline_id, name, text), name, uploaded=True)


def tasks_of_version(server: Connection, pipeline_id: str, version_id: str) -> dict[str, Any]:
    """The tasks of a version in the form of `document.flat_graph`; empty if the version no longer exists."""
    return flat_graph(_specification(server, pipeline_id, version_id))


def specification_of(server: Connection, run: Any) -> Mapping[str, Any]:
    """The compiled pipeline of a run, as the server stores it; empty if its version no longer exists."""
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


def _create(server: Connection, name: str, namespace: str | None) -> str:
    body = api.V2beta1Pipeline(display_name=name, **_in(namespace))
    try:
        made = server.change("create the pipeline", server.pipelines.pipeline_service_create_pipeline, body)
    except ServerError as error:
        found = find_pipeline(server, name, namespace) if may_exist(error) else None
        if found is None:
            raise
        return found
    return str(made.pipeline_id)


def _find_version(server: Connection, pipeline_id: str, name: str) -> str | None:
    method = server.pipelines.pipeline_service_list_pipeline_versions
    found = list_all(
        server, "find the pipeline version", method, "pipeline_versions", pipeline_id, filter=name_filter(name)
    )
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
            found = _find_version(server, pipeline_id, name) if may_exist(error) else None
            if found is None:
                hint = f"\n  {_UPLOAD_REFUSED}" if error.status == BAD_REQUEST else ""
                raise ServerError(f"{error}{hint}", error.status, slow=error.slow) from None
            return found
    return str(made.pipeline_version_id)


def _in(namespace: str | None) -> dict[str, str]:
    return {} if namespace is None else {"namespace": namespace}
