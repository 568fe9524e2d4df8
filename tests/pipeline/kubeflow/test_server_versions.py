"""Which version of a pipeline is the newest on the server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.kubeflow.server import versions
from headrace.pipeline.kubeflow.server.versions import PipelineVersion, put_newest


@pytest.mark.parametrize(
    ("there", "name"),
    [
        (["taxi-01"], "taxi-01"),
        (["taxi-01", "taxi-02"], "taxi-01-2"),
        (["taxi-01", "taxi-02", "taxi-01-2"], "taxi-01-2"),
        (["taxi-01", "taxi-02", "taxi-01-2", "taxi-03"], "taxi-01-3"),
    ],
)
def test_content_behind_another_version_is_uploaded_again(
    there: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = list(there)

    def upload(_server: Any, _pipeline: str, name: str, _text: str) -> str:
        known.append(name)
        return f"id of {name}"

    def newest(*_: Any, **__: Any) -> Any:
        one = SimpleNamespace(display_name=known[-1], pipeline_version_id=f"id of {known[-1]}")
        return SimpleNamespace(pipeline_versions=[one])

    server: Any = SimpleNamespace(pipelines=SimpleNamespace(pipeline_service_list_pipeline_versions=None), read=newest)
    monkeypatch.setattr(versions, "_upload", upload)
    monkeypatch.setattr(versions, "_find_version", lambda _server, _pipeline, name: name if name in known else None)
    found = put_newest(server, PipelineVersion("p", "id of taxi-01", "taxi-01", uploaded=False), "text")
    assert (found.name, found.version_id) == (name, f"id of {name}")
    assert found.uploaded == (name not in there)
    assert known[-1] == name
