"""Which spans have a run, and which runs are of a pipeline, where pipelines share an experiment."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from types import SimpleNamespace
from typing import Any

import pytest
from compiled_trips import trips

from headrace.common.errors import ServerError
from headrace.pipeline.kubeflow.pod.invocation import pack
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.backfill import backfill_values, missing, spans

DAY = dt.datetime(2026, 11, 21, 4, 0, tzinfo=dt.UTC)
WANTED = ["2026-11-01", "2026-11-02", "2026-11-03"]


class Server:
    """Knows some runs, the newest first, and the invocations of their tasks."""

    def __init__(self, *known: Any) -> None:
        self._known, self.asked = known, list[str]()
        self.runs = SimpleNamespace(run_service_list_runs=None)

    def read(self, *_: Any, page_token: str, **__: Any) -> Any:
        at = int(page_token or 0)
        more = str(at + 1) if at + 1 < len(self._known) else ""
        return SimpleNamespace(runs=list(self._known[at : at + 1]), next_page_token=more)

    def text(self, _what: str, _path: str, run_id: str) -> str:
        self.asked.append(run_id)
        (run,) = [one for one in self._known if one.run_id == run_id]
        nodes = {name: _node(name, values) for name, values in run.reported.items()}
        manifest = json.dumps({"status": {"nodes": nodes}})
        return json.dumps({"pipeline_runtime": {"workflow_manifest": manifest}})


def _node(name: str, values: dict[str, str]) -> dict[str, Any]:
    given = json.dumps({"inputs": {"parameterValues": values}})
    patch = json.dumps({"containers": [{"command": ["launcher", "--executor_input", given]}]})
    return {"displayName": f"{name}-driver", "outputs": {"parameters": [{"name": "pod-spec-patch", "value": patch}]}}


def run(run_id: str, pipeline: str, state: str = "SUCCEEDED", reported: Any = None, **parameters: str) -> Any:
    reference = SimpleNamespace(pipeline_id=pipeline)
    config = SimpleNamespace(parameters=parameters)
    return SimpleNamespace(
        run_id=run_id,
        created_at=DAY,
        state=state,
        reported=reported,
        runtime_config=config,
        pipeline_version_reference=reference,
    )


def read(*days: str, trained: bool = True) -> dict[str, dict[str, str]]:
    spans = pack(json.dumps({"spans": [{"name": day} for day in days]}), "spans")
    return {"example-gen": {"spans": spans}, **({"trainer": {}} if trained else {})}


def given(server: Server) -> dict[str, str | None]:
    found = missing(server, "e", "nightly", WANTED)  # type: ignore[arg-type]
    return {span: one and one.run_id for span, one in found.items()}


@pytest.mark.parametrize(
    ("schedule", "parameters"),
    [
        ("{every: 6h, window: 3, retrain: new_span}", {"window": "3", "retrain": "always"}),
        ("{every: 6h, window: all}", {"window": "all"}),
        ("{every: 6h}", {}),
        ("null", {}),
    ],
)
def test_runs_of_a_backfill_read_the_window_of_scheduled_ones(schedule: str, parameters: dict[str, str]) -> None:
    dated = "data.source.path=/data/{YYYY}-{MM}-{DD}/*.csv"
    config = trips(dated, f"schedule={schedule}", 'kubeflow.parameters=["spans", "window"]')
    assert backfill_values(config).parameters == parameters


def test_another_pipelines_runs_are_not_runs_of_this_one() -> None:
    server = Server(run("theirs", "other", spans=WANTED[0]), run("failed", "nightly", "FAILED", spans=WANTED[1]))
    assert given(server) == {WANTED[0]: None, WANTED[1]: "failed", WANTED[2]: None}
    assert [one.run_id for one in runs.of_pipeline(server, "e", "nightly")] == ["failed"]  # type: ignore[arg-type]


def test_a_run_that_trained_with_a_span_as_the_newest_counts_whatever_started_it() -> None:
    server = Server(
        run("ended early", "nightly", reported={}, run_date="scheduled"),
        run("no drift", "nightly", reported=read(WANTED[2], trained=False), run_date="scheduled"),
        run(
            "scheduled", "nightly", reported=read("2026-10-31", WANTED[0], WANTED[1]), run_date="scheduled", window="3"
        ),
        run("broken", "nightly", "FAILED", reported=read(WANTED[0])),
    )
    assert given(server) == {WANTED[0]: None, WANTED[1]: "scheduled", WANTED[2]: None}
    assert "broken" not in server.asked


def test_a_fault_in_the_look_at_a_run_makes_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(run("scheduled", "nightly", reported=read(WANTED[1])))
    for status, refused in ((503, pytest.raises(ServerError)), (404, contextlib.nullcontext())):

        def fails(*_: Any, status: int = status, **__: Any) -> str:
            raise ServerError("no", status)

        monkeypatch.setattr(server, "text", fails)
        with refused:
            assert set(given(server).values()) == {None}


@pytest.mark.parametrize(
    ("path", "first", "last", "found"),
    [
        ("{YYYY}-{MM}-{DD}", "2026-02-27", "2026-03-01", ["2026-02-27", "2026-02-28", "2026-03-01"]),
        ("{YYYY}-{MM}-{DD}", "2026-02-28", "2026-02-28", ["2026-02-28"]),
        ("{SPAN}", "9", "11", ["9", "10", "11"]),
        ("{SPAN}", "9", "9", ["9"]),
    ],
)
def test_spans_of_a_backfill_are_those_from_the_first_to_the_last_with_both(
    path: str, first: str, last: str, found: list[str]
) -> None:
    config = trips(f"data.source.path=/data/{path}/*.csv", 'kubeflow.parameters=["spans", "window"]')
    assert spans(config, first, last) == found
