"""How a message reaches real servers on loopback: webhooks, mail, commands, and metrics."""

from __future__ import annotations

import json
import logging
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kfp_kubernetes import certificate
from notified_runs import SECRET, VALUE, Pauses, config_of, evaluated, outside, run_folder
from receivers import http_receiver, mail_receiver

from headrace.pipeline.notify import transport
from headrace.pipeline.notify.metrics import Gauge, text_format
from headrace.pipeline.notify.notify import notify
from headrace.pipeline.notify.record import FILE_NAME, read_deliveries
from headrace.pipeline.notify.text import HEADLINES, slack_escaped
from headrace.pipeline.results.record import Status


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


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
    assert re.match(rf"notify\.ops .* {event}: .*SLACK_URL .*status ", line)
    assert "`headrace notify" in line
    record = (folder.path / FILE_NAME).read_text()
    assert "answers with status" in record
    assert SECRET not in line + record + (folder.path / "config.yaml").read_text()


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
    assert re.search(r"notify\.public .*certificate is not valid.*`ca_file`", log.text)
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
    [
        ("exit 3", 600.0, "ended with exit code 3"),
        ("sleep 60 & wait", 2.0, "was killed after 2 s"),  # a busy machine takes a while to start it
        (None, 600.0, "cannot be started"),
    ],
)
def test_command_that_fails_is_reported_and_not_started_again(
    tmp_path: Path,
    pauses: Pauses,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str | None, float, str],
) -> None:
    script, seconds, reason = case
    monkeypatch.setattr("headrace.pipeline.notify.deliver.COMMAND_SECONDS", seconds)
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


def test_run_without_an_event_sends_metrics_and_no_message(tmp_path: Path, pauses: Pauses) -> None:
    """Such as one that only predicts, after one that failed: the alert on its failure must end."""
    with http_receiver() as hook:
        file = {"kind": "prometheus_file", "path": f"{tmp_path}/{{name}}.prom"}
        config = config_of(tmp_path, ops={"kind": "webhook", "url": hook.url, "on": [*HEADLINES][:-1]}, file=file)
        notify(config, run_folder(config, "20261123-030000"), outside(pauses))
        notify(config, run_folder(config, status=Status.DONE), outside(pauses))
    assert [request.json["type"] for request in hook.requests] == ["headrace.run.failed"]
    found = samples((tmp_path / "trips.prom").read_text())
    assert value(found, "headrace_run_success") == 1
    assert value(found, "headrace_last_success_timestamp_seconds") == 1010


def test_interrupted_run_sends_no_metrics(tmp_path: Path, pauses: Pauses) -> None:
    config = config_of(tmp_path, file={"kind": "prometheus_file", "path": f"{tmp_path}/trips.prom"})
    notify(config, run_folder(config, status=Status.INTERRUPTED), outside(pauses))
    assert not (tmp_path / "trips.prom").exists()


@given(st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=4), st.text())
def test_every_label_is_read_back_as_it_was(values: dict[str, float], text: str) -> None:
    written = text_format(iter([Gauge("headrace_x", "Help.", "of", values)]), {"pipeline": text})
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
