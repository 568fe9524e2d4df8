"""What real servers on loopback receive of a run: one message, without a secret or a value of the data."""

from __future__ import annotations

import json
import logging
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kfp_kubernetes import certificate
from receivers import http_receiver, mail_receiver

from headrace.common.errors import ConfigError, Problem
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import Evaluation, ThresholdCheck, write_evaluation
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.loading.loader import load
from headrace.pipeline.api import run
from headrace.pipeline.folders import Folders
from headrace.pipeline.notify import transport
from headrace.pipeline.notify.deliver import Outside
from headrace.pipeline.notify.metrics import Gauge, text_format
from headrace.pipeline.notify.notify import notify, notify_of_killed, notify_of_no_start, send_test
from headrace.pipeline.notify.record import FILE_NAME, read_deliveries
from headrace.pipeline.notify.text import slack_escaped
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.verdict import read_verdict

SECRET = "T0AB12CD/B0EF34GH/x9Yz8Wv7Ut6Sr5Qp4"
VALUE = "Ada Lovelace, 1815"
"""What stands in a row."""
BASE: dict[str, Any] = {
    "pipeline": {"name": "trips"},
    "data": {"source": {"kind": "csv", "path": "trips.csv"}},
    "label": {"key": "tip", "kind": "binary"},
    "features": {"fare": {"column": "numeric"}},
}
EVALUATION = Evaluation(
    split="test",
    example_count=40,
    unlabelled=0,
    metrics={"auc": 0.71, "accuracy": float("nan")},
    baseline=None,
    slices=(),
    checks=(ThresholdCheck("auc", "min", 0.8, 0.71, None, passed=False),),
    blessed=False,
    reasons=("auc is 0.71, below min 0.8",),
    curves=None,
)


class Pauses(list[float]):
    """A sleep that only notes for how long."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


def config_of(tmp_path: Path, **receivers: Any) -> PipelineConfig:
    pipeline = {"name": "trips", "root": str(tmp_path / "runs")}
    return load({**BASE, "pipeline": pipeline, "notify": receivers})


def outside(pauses: Pauses, **environ: str) -> Outside:
    return Outside({"PATH": "/usr/bin:/bin", **environ}, pauses)


def run_folder(config: PipelineConfig, run_id: str = "20261124-030000", status: Status = Status.FAILED) -> RunFolder:
    """A run whose DataGate refused a row."""
    path = Folders.of(config).runs / run_id
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    examples = ArtifactRecord("Examples", str(path), {"rows": '{"train": 300, "eval": 60}'})
    failed = NodeRecord(
        "DataGate", status=status, started=1003.0, finished=1004.5, log=str(path / "logs" / "DataGate.log")
    )
    failed.error, failed.error_class, failed.expected = f"1 anomaly: {VALUE}", "GateError", True
    nodes = [
        NodeRecord("ExampleGen", status=Status.DONE, started=1000.0, finished=1002.0, outputs={"examples": examples})
    ]
    record = RunRecord(run_id, "trips", "trips.yaml", 999.0, 1010.0, status, failed.error, nodes=[*nodes, failed])
    record.write(path)
    return RunFolder.read(path)


def evaluated(config: PipelineConfig, tmp_path: Path, *, blessed: bool) -> RunFolder:
    """A run that evaluated its model and, if blessed, pushed it."""
    folder, result = run_folder(config, status=Status.DONE), tmp_path / "evaluation"
    result.mkdir()
    check = replace(EVALUATION.checks[0], passed=blessed, limit=0.7 if blessed else 0.8)
    reasons = () if blessed else EVALUATION.reasons
    write_evaluation(result, replace(EVALUATION, blessed=blessed, checks=(check,), reasons=reasons))
    pushed = ArtifactRecord("PushedModel", "/m", {"pushed": int(blessed), "pushed_destination": "/serving/trips/7"})
    outputs = {"evaluation": ArtifactRecord("ModelEvaluation", str(result))}
    folder.record.nodes = [
        NodeRecord("Evaluator", status=Status.DONE, started=1000.0, finished=1009.0, outputs=outputs),
        NodeRecord("Pusher", status=Status.DONE, started=1009.0, finished=1010.0, outputs={"pushed_model": pushed}),
    ]
    folder.record.error = None
    folder.record.write(folder.path)
    return RunFolder.read(folder.path)


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
        "at least 0.6 in each slice by poet over the whole 95 % confidence interval",
    ]
    assert request.json["data"]["reasons"] == ["the canary did not pass; the report says why"]


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


def test_receiver_that_fails_twice_is_told_by_the_third_try(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver(refuse=[503, 429]) as hook:
        config = config_of(tmp_path, ops={"kind": "webhook", "url": hook.url})
        folder = run_folder(config)
        notify(config, folder, outside(pauses))
    assert pauses == [*transport.WAITS]
    assert len({request.body for request in hook.requests}) == 1
    assert len(hook.requests) == 3
    deliveries = read_deliveries(folder.path)
    assert deliveries is not None
    assert (deliveries["ops"].id, deliveries["ops"].error) == ("trips/20261124-030000/failed", None)


@pytest.mark.parametrize(("refuse", "tries"), [([500, 502, 503, 200], 3), ([404], 1), ([302], 1)])
def test_receiver_that_refuses_is_reported_and_its_url_is_not_shown(
    tmp_path: Path, pauses: Pauses, log: pytest.LogCaptureFixture, refuse: list[int], tries: int
) -> None:
    with http_receiver(refuse=refuse, to="http://127.0.0.1:1/elsewhere") as hook:
        config = config_of(tmp_path, ops={"kind": "slack", "url_env": "SLACK_URL"})
        folder = run_folder(config)
        notify(config, folder, outside(pauses, SLACK_URL=f"{hook.url}/{SECRET}"))
    assert len(hook.requests) == tries
    event = "trips/20261124-030000/failed"
    (line,) = [record.getMessage() for record in log.records if record.levelno == logging.WARNING]
    assert line.startswith(f"notify.ops was not notified of {event}: the server of SLACK_URL answers with status ")
    assert "`headrace notify" in line
    record = (folder.path / FILE_NAME).read_text()
    assert "answers with status" in record
    assert SECRET not in line + record + (folder.path / "config.yaml").read_text()


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


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("certificate"))


def test_certificate_must_be_trusted(
    tmp_path: Path, pauses: Pauses, log: pytest.LogCaptureFixture, signed: tuple[Path, Path]
) -> None:
    with http_receiver(signed=signed) as hook:
        config = config_of(
            tmp_path,
            public={"kind": "webhook", "url": f"{hook.url}/public"},
            own={"kind": "webhook", "url": f"{hook.url}/own", "ca_file": str(signed[0])},
        )
        notify(config, run_folder(config), outside(pauses))
    assert [request.path for request in hook.requests] == ["/own"]
    assert re.search(r"notify\.public was not notified of .*certificate is not valid.*`ca_file`", log.text)
    assert pauses == []


def mail_settings(port: int, **more: Any) -> dict[str, Any]:
    to = ["ops@example.com", "ml@example.com"]
    return {"kind": "email", "to": to, "sender": "ci@example.com", "host": "127.0.0.1", "port": port, **more}


def test_mail_is_sent_after_starttls_and_login(tmp_path: Path, pauses: Pauses, signed: tuple[Path, Path]) -> None:
    with mail_receiver(signed, refuse=["451 later"]) as mail:
        more = {"user_env": "MAIL_USER", "password_env": "MAIL_PASSWORD", "ca_file": str(signed[0])}
        config = config_of(tmp_path, mail=mail_settings(mail.port, **more))
        notify(config, run_folder(config), outside(pauses, MAIL_USER="ci", MAIL_PASSWORD="hunter2"))
    (message,) = mail.messages
    assert {*mail.logins} == {("ci", "hunter2", True)}
    assert mail.envelopes[0][1] == ["TO:<ops@example.com>", "TO:<ml@example.com>"]
    assert message["Subject"] == "trips: run 20261124-030000 failed"
    assert re.fullmatch(r"<[0-9a-f]{32}@example\.com>", message["Message-ID"])
    assert "DataGate failed: GateError (log: " in message.get_content()
    assert "hunter2" not in message.as_string()
    assert VALUE not in message.as_string()
    assert pauses == [transport.WAITS[0]]


@pytest.mark.parametrize(
    "case",
    [
        ({}, "certificate is not valid"),
        ({"security": "none", "user_env": None, "password_env": None}, ""),
        ({"ca_file": "signed"}, "code 535"),
    ],
)
def test_mail_server_that_refuses_is_reported_without_the_password(
    tmp_path: Path,
    pauses: Pauses,
    log: pytest.LogCaptureFixture,
    signed: tuple[Path, Path],
    case: tuple[dict[str, Any], str],
) -> None:
    more, reason = case
    settings = {"user_env": "MAIL_USER", "password_env": "MAIL_PASSWORD", **more}
    if "ca_file" in settings:
        settings["ca_file"] = str(signed[0])
    with mail_receiver(signed) as mail:
        config = config_of(tmp_path, mail=mail_settings(mail.port, **settings))
        notify(config, run_folder(config), outside(pauses, MAIL_USER="ci", MAIL_PASSWORD="wrong"))
    assert len(mail.messages) == (0 if reason else 1)
    assert reason in log.text
    assert "wrong" not in log.text


def program(folder: Path, script: str) -> str:
    file = folder / "program"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_command_gets_the_event_on_standard_input_without_a_shell(tmp_path: Path, pauses: Pauses) -> None:
    command = [program(tmp_path, 'cat > "$1"'), f"{tmp_path}/it's here; $(date).json"]
    config = config_of(tmp_path, ops={"kind": "command", "command": command})
    notify(config, run_folder(config), outside(pauses))
    assert json.loads(Path(command[1]).read_text(encoding="utf-8"))["id"] == "trips/20261124-030000/failed"


@pytest.mark.parametrize(
    "case",
    [("exit 3", "ended with exit code 3"), ("sleep 60 & wait", "was killed after"), (None, "cannot be started")],
)
def test_command_that_fails_is_reported_and_not_started_again(
    tmp_path: Path,
    pauses: Pauses,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str | None, str],
) -> None:
    script, reason = case
    monkeypatch.setattr("headrace.pipeline.notify.deliver.COMMAND_SECONDS", 0.3)
    started = tmp_path / "started"
    path = str(tmp_path / "none") if script is None else program(tmp_path, f"echo >> {started}; {script}")
    config = config_of(tmp_path, ops={"kind": "command", "command": [path]})
    notify(config, run_folder(config), outside(pauses))
    assert reason in log.text
    assert script is None or started.read_text() == "\n"
    assert pauses == []


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What Prometheus would read, by its documented grammar: a value for each name and labels. Refuses all else."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    types: dict[str, str] = {}
    for line in text.split("\n")[:-1]:
        if meta := re.fullmatch(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)", line):
            assert meta[1] != "TYPE" or types.setdefault(meta[2], meta[3]) == "gauge"
            continue
        sample = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\]|\\["\\n])*",?)*)\})? (\S+)', line)
        assert sample, line
        assert sample[1] in types
        pairs = re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample[2] or "")
        labels = {name: re.sub(r"\\(.)", lambda c: "\n" if c[1] == "n" else c[1], value) for name, value in pairs}
        key = (sample[1], frozenset(labels.items()))
        assert key not in found
        found[key] = float(sample[3])
    assert text.endswith("\n")
    return found


def value(found: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return found[name, frozenset({"pipeline": "trips", **labels}.items())]


def test_pushgateway_and_file_get_the_metrics_of_the_run(tmp_path: Path, pauses: Pauses) -> None:
    with http_receiver() as gateway:
        config = config_of(
            tmp_path,
            gateway={"kind": "pushgateway", "url": f"{gateway.url}/"},
            file={"kind": "prometheus_file", "path": f"{tmp_path}/textfiles/{{name}}.prom"},
        )
        notify(config, evaluated(config, tmp_path, blessed=False), outside(pauses))
    (request,) = gateway.requests
    assert (request.method, request.path) == ("PUT", "/metrics/job/headrace/pipeline/trips")
    assert (tmp_path / "textfiles" / "trips.prom").read_bytes() == request.body
    found = samples(request.body.decode())
    assert value(found, "headrace_run_success") == 1
    assert value(found, "headrace_run_duration_seconds") == 11
    assert value(found, "headrace_run_timestamp_seconds") == 1010
    assert value(found, "headrace_last_success_timestamp_seconds") == 1010
    assert value(found, "headrace_model_blessed") == 0
    assert value(found, "headrace_model_pushed") == 0
    assert value(found, "headrace_model_metric", metric="auc") == 0.71
    assert value(found, "headrace_component_duration_seconds", component="Evaluator") == 9
    assert not [labels for name, labels in found if ("metric", "accuracy") in labels]


def test_metrics_of_a_failed_run_keep_the_time_of_the_last_success(tmp_path: Path, pauses: Pauses) -> None:
    config = config_of(tmp_path, file={"kind": "prometheus_file", "path": f"{tmp_path}/trips.prom"})
    good = run_folder(config, "20261123-030000", Status.DONE)
    good.record.finished = 500.0
    good.record.write(good.path)
    predicted = run_folder(config, "20261123-040000", Status.DONE)
    predicted.record.pipeline = "trips-predict"
    predicted.record.write(predicted.path)
    notify(config, run_folder(config), outside(pauses))
    found = samples((tmp_path / "trips.prom").read_text())
    assert value(found, "headrace_run_success") == 0
    assert value(found, "headrace_last_success_timestamp_seconds") == 500
    assert value(found, "headrace_examples", split="train") == 300
    assert "headrace_model_blessed" not in {name for name, _ in found}


def test_interrupted_run_sends_no_metrics(tmp_path: Path, pauses: Pauses) -> None:
    config = config_of(tmp_path, file={"kind": "prometheus_file", "path": f"{tmp_path}/trips.prom"})
    notify(config, run_folder(config, status=Status.INTERRUPTED), outside(pauses))
    assert not (tmp_path / "trips.prom").exists()


@given(st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=4), st.text())
def test_every_label_is_read_back_as_it_was(values: dict[str, float], text: str) -> None:
    written = text_format(
        iter([Gauge("headrace_x", f"Help {text}.".replace("\r", ""), "of", values)]), {"pipeline": text}
    )
    if not values:
        assert written == ""
        return
    read = {dict(labels)["of"]: (number, dict(labels)["pipeline"]) for (_, labels), number in samples(written).items()}
    assert read == {key: (number, text) for key, number in values.items()}


@given(st.text())
def test_slack_text_holds_no_markup_of_its_own(text: str) -> None:
    escaped = slack_escaped(text)
    assert not {"<", ">"} & {*escaped}
    assert not re.search(r"&(?!amp;|lt;|gt;)", escaped)
    assert escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


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
