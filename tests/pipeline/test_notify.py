"""What receivers are told of a run: one message, without a secret or a value of the data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from notified_runs import EVALUATION, SECRET, VALUE, Pauses, config_of, evaluated, outside, run_folder
from receivers import http_receiver

from headrace.common.errors import ConfigError, Problem
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import ThresholdCheck, write_evaluation
from headrace.components.gates.verdict import DataVerdicts, GateRow, GateVerdict
from headrace.pipeline.api import run
from headrace.pipeline.notify.event import Event
from headrace.pipeline.notify.notify import notify, notify_of_killed, notify_of_no_start, send_test
from headrace.pipeline.notify.record import read_deliveries
from headrace.pipeline.notify.text import body
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, Status
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.verdict import read_verdict


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


def test_failed_run_is_a_cloud_event_without_what_the_error_says(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        config = config_of(tmp_path, ops={"kind": "webhook", "url": f"{hook.url}/in", "authorization_env": "AUTH"})
        folder = run_folder(config)
        notify(config, folder, outside(pauses, AUTH="Bearer abc"))
    (request,) = hook.requests
    assert (request.method, request.path) == ("POST", "/in")
    assert request.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert request.headers["Authorization"] == "Bearer abc"
    event = request.json
    data = event.pop("data")
    assert event.pop("source").endswith(f"{tmp_path}/runs/trips")
    assert event == {
        "specversion": "1.0",
        "id": "trips/20261124-030000/failed",
        "type": "headrace.run.failed",
        "subject": "20261124-030000",
        "time": "1970-01-01T00:16:50.000Z",
        "datacontenttype": "application/json",
    }
    assert data["failed"] == [
        {"component": "DataGate", "error": "GateError", "log": str(folder.path / "logs" / "DataGate.log")}
    ]
    assert (data["events"], data["seconds"], data["blessed"]) == (["failed"], 11.0, None)
    assert data["examples"] == {"train": 300, "eval": 60}
    assert data["component_seconds"] == {"ExampleGen": 2.0, "DataGate": 1.5}
    assert data["report"] == str(folder.path / "report.html")
    assert VALUE not in request.body.decode()


def test_gates_are_told_by_name_and_drift_that_only_warns_is_an_event(tmp_path: Path, pauses: Pauses) -> None:
    near = GateRow(what=VALUE, measure="distance", value="0.05", limit="0.1", excess=-0.5)
    far = GateRow(what=VALUE, measure="distance", value="0.5", limit="0.1", before=VALUE, excess=4)
    gates = [GateVerdict.of("gates.rows", "stop", [near]), GateVerdict.of("gates.freshness", "warn", [far])]
    with http_receiver() as hook:
        receiver = {"kind": "webhook", "url": hook.url, "on": ["drifted"]}
        config = config_of(tmp_path, ops=receiver, chat={"kind": "slack", "url_env": "CHAT", "on": ["blessed"]})
        folder, verdict = evaluated(config, tmp_path, blessed=True), tmp_path / "verdict"
        output = {"verdict": ArtifactRecord("String", str(verdict))}
        folder.record.nodes.append(NodeRecord("DataVerdict", status=Status.DONE, outputs=output))
        folder.record.write(folder.path)
        verdict.write_text(DataVerdicts(gates=tuple(gates)).model_dump_json(), encoding="utf-8")
        notify(config, RunFolder.read(folder.path), outside(pauses, CHAT=hook.url))
        assert len(hook.requests) == 1
        assert "gates.freshness: 1 of 1 check failed, a warning" in hook.requests[0].json["text"]
        gates.append(GateVerdict.of("gates.drift.earlier_spans", "warn", [far, near]))
        verdict.write_text(DataVerdicts(gates=tuple(gates)).model_dump_json(), encoding="utf-8")
        notify(config, RunFolder.read(folder.path), outside(pauses, CHAT=hook.url))
    (event,) = (one.json for one in hook.requests[1:])
    assert event["type"] == "headrace.run.drifted"
    assert event["data"]["gates"] == [
        {"gate": "gates.freshness", "failed": 1, "judged": 1, "stopped": False},
        {"gate": "gates.drift.earlier_spans", "failed": 1, "judged": 2, "stopped": False},
    ]
    assert VALUE not in json.dumps(event) + hook.requests[0].body.decode()


def test_refused_model_is_told_with_the_metric_and_its_bound(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        config = config_of(tmp_path, ops={"kind": "slack", "url_env": "SLACK_URL"})
        notify(config, evaluated(config, tmp_path, blessed=False), outside(pauses, SLACK_URL=f"{hook.url}/{SECRET}"))
    (request,) = hook.requests
    first, *lines = request.json["text"].splitlines()
    assert request.path == f"/{SECRET}"
    assert first == "*trips: run 20261124-030000 did not bless its model*"
    assert lines[0] == "auc is 0.71; it must be at least 0.8 (not met)"
    assert not [line for line in lines if line.startswith("pushed")]


def test_blessed_model_that_awaits_approval_is_not_taken_for_one_in_service() -> None:
    event = Event("trips", "r", "file://host/trips", ("blessed", "awaiting_approval"), 0, 1, blessed=True)
    assert [line for line in body(event) if "pushed" in line] == [
        "not pushed: the model awaits approval (`headrace promote`)"
    ]
    pushed = replace(event, happened=("blessed", "pushed"), pushed="/serving/trips/17")
    assert [line for line in body(pushed) if "pushed" in line] == ["pushed: /serving/trips/17"]


def test_time_is_written_as_on_the_terminal_and_in_the_report() -> None:
    for seconds, words in ((75.0, "75.0 s"), (125.0, "2 m 05 s"), (7_384.0, "2 h 03 m")):
        lines = body(Event("trips", "r", "file://host/trips", ("blessed",), 100.0, 100.0 + seconds, blessed=True))
        assert f"time: {words}" in lines


def test_what_slices_and_the_canary_quote_of_the_data_stays_in_the_report(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        config = config_of(tmp_path, ops={"kind": "webhook", "url": hook.url})
        folder, canary = evaluated(config, tmp_path, blessed=False), tmp_path / "canary"
        worst: dict[str, Any] = {"slicing": "poet", "slice": f"poet = {VALUE}"}
        checks = (
            ThresholdCheck("auc", "min", 0.6, 0.51, None, passed=False, **worst),
            ThresholdCheck("auc", "max_gap", 0.1, 0.3, None, passed=False, **worst),
            ThresholdCheck("auc", "min", 0.6, 0.7, None, False, True, (0.55, 0.85), **worst),
        )
        reasons = tuple(map(str, checks))
        assert all(VALUE in reason for reason in reasons)
        write_evaluation(tmp_path / "evaluation", replace(EVALUATION, checks=checks, reasons=reasons))
        canary.mkdir()
        CanaryVerdict(reasons=(f"serving_default: not answered: cannot parse {VALUE}",)).write(canary)
        outputs = {"blessing": ArtifactRecord("InfraBlessing", str(canary))}
        folder.record.nodes.append(NodeRecord("Canary", status=Status.DONE, outputs=outputs))
        folder.record.write(folder.path)
        shown = read_verdict(RunFolder.read(folder.path)).reasons
        assert sum(VALUE in reason for reason in shown) == 4
        notify(config, RunFolder.read(folder.path), outside(pauses))
    (request,) = hook.requests
    assert VALUE not in request.body.decode()
    assert [limit["rule"] for limit in request.json["data"]["limits"]] == [
        "at least 0.6 in each slice by poet",
        "at most 0.1 apart between slices by poet",
        "at least 0.6 in each slice by poet over the whole 95% confidence interval",
    ]
    assert [reason.startswith("the canary did not pass") for reason in request.json["data"]["reasons"]] == [True]


def test_each_receiver_gets_only_what_it_asked_for_and_one_message(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        receivers = {
            name: {"kind": "webhook", "url": f"{hook.url}/{name}", "on": on}
            for name, on in {"all": ["pushed", "blessed"], "pushes": ["pushed"], "failures": ["failed"]}.items()
        }
        config = config_of(tmp_path, **receivers)
        notify(config, evaluated(config, tmp_path, blessed=True), outside(pauses))
    types = {request.path: request.json["type"] for request in hook.requests}
    assert types == {"/all": "headrace.run.blessed", "/pushes": "headrace.run.pushed"}
    assert len(hook.requests) == 2
    data = hook.requests[0].json["data"]
    assert data["events"] == ["blessed", "pushed"]
    assert data["pushed"] == "/serving/trips/7"
    assert data["metrics"] == {"auc": 0.71, "accuracy": None}
    assert data["limits"] == [{"metric": "auc", "value": 0.71, "rule": "at least 0.7", "passed": True}]


def test_nobody_is_told_twice_of_a_run(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        config = config_of(tmp_path, ops={"kind": "webhook", "url": hook.url})
        folder = run_folder(config)
        for _ in range(2):
            notify(config, folder, outside(pauses))
        assert len(hook.requests) == 1
        more = config_of(
            tmp_path, ops={"kind": "webhook", "url": hook.url}, new={"kind": "webhook", "url": f"{hook.url}/new"}
        )
        notify(more, folder, outside(pauses))
    assert [request.path for request in hook.requests] == ["/", "/new"]
    assert {*(read_deliveries(folder.path) or {})} == {"ops", "new"}


def test_killed_run_is_told_by_the_next_and_others_are_not(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        config = config_of(tmp_path, ops={"kind": "webhook", "url": hook.url})
        run_folder(config_of(tmp_path), "20261121-030000")  # before `notify:` was added
        notify(config, run_folder(config, "20261122-030000", Status.INTERRUPTED), outside(pauses))  # by Ctrl-C
        run_folder(config, "20261123-030000", Status.INTERRUPTED)
        run_folder(config, "20261124-030000", Status.RUNNING)
        for _ in range(2):
            notify_of_killed(config, outside(pauses))
    (request,) = hook.requests
    assert request.json["id"] == "trips/20261123-030000/killed"
    assert request.json["data"]["report"] is None


def test_run_that_could_not_start_is_told_without_what_the_error_says(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        config = config_of(tmp_path, ops={"kind": "webhook", "url": hook.url})
        notify_of_no_start(config, 999.0, ConfigError(Problem("a.yaml:3", f"found {VALUE}")), outside(pauses))
    event = hook.requests[0].json
    assert event["id"] == "trips/1970-01-01T00:16:39.000Z/failed"
    assert event["data"]["failed"][0]["error"].startswith("ConfigError; ")
    assert VALUE not in hook.requests[0].body.decode()


def test_run_in_python_tells_that_it_could_not_start(tmp_path: Path) -> None:
    with http_receiver() as hook:
        config = config_of(tmp_path, ops={"kind": "webhook", "url": hook.url})
        with pytest.raises(ConfigError, match=r"no file matches 'trips\.csv'"):
            run(config, show=False)
    assert [request.json["type"] for request in hook.requests] == ["headrace.run.failed"]


def test_test_message_reaches_every_receiver_of_messages(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as hook:
        config = config_of(
            tmp_path,
            ops={"kind": "webhook", "url": hook.url},
            chat={"kind": "slack", "url_env": "SLACK_URL"},
            gateway={"kind": "pushgateway", "url_env": "GATEWAY_URL"},
            file={"kind": "prometheus_file", "path": f"{tmp_path}/trips.prom"},
        )
        outcomes = send_test(config, outside(pauses))
    assert [request.json["type"] for request in hook.requests] == ["headrace.test"]
    assert [one.receiver for one in outcomes] == ["ops", "chat", "gateway", "file"]
    assert [one.error for one in outcomes] == [
        None,
        "the environment variable SLACK_URL is not set",
        "the environment variable GATEWAY_URL is not set",
        None,
    ]
    assert not (tmp_path / "trips.prom").exists()
