"""Receivers of runs of the installed command: a gate that stops a run, the run after a killed one, and no start."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import headrace, started_at_once
from parcels import write_parcels
from receivers import http_receiver

SECRET = "T0AB12CD/B0EF34GH/x9Yz8Wv7Ut6Sr5Qp4"
CARRIER = "Ada-Lovelace-1815"
"""A value of the data."""
CONFIG: dict[str, Any] = {
    "pipeline": {"name": "parcels"},
    "data": {"source": {"kind": "csv", "path": "parcels.csv"}, "columns": "all"},
    "label": {"key": "late", "kind": "binary"},
    "features": {"distance": {"column": "numeric"}},
    "model": {"kind": "wide_and_deep"},
    "deploy": {"canary": None},
    "notify": {
        "chat": {"kind": "slack", "url_env": "CHAT_URL"},
        "log": {"kind": "command", "command": ["tee", "-a", "events.jsonl"], "on": ["failed", "killed", "interrupted"]},
        "file": {"kind": "prometheus_file", "path": "{name}.prom"},
    },
}


def events(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "events.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.replace("}{", "}\n{").splitlines()]


def _schema() -> str:
    """The carriers are the only text; none but three may occur."""
    rule = "presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } }"
    types = {"carrier": 'BYTES domain: "carriers"', "distance": "FLOAT", "hours": "FLOAT", "late": "INT"}
    features = [f'feature {{ name: "{name}" type: {kind} {rule} }}' for name, kind in types.items()]
    carriers = " ".join(f'value: "{name}"' for name in ("post", "rail", "van"))
    return "\n".join([*features, f'string_domain {{ name: "carriers" {carriers} }}'])


@pytest.mark.slow
def test_failed_killed_and_impossible_runs_are_told_once_without_secrets_or_values(
    new_folder: Callable[[str], Path],
) -> None:
    folder = new_folder("notify")
    write_parcels(folder / "parcels.csv", 300)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    text = (folder / "parcels.csv").read_text(encoding="utf-8")
    (folder / "bad.csv").write_text(text.replace(",rail,", f",{CARRIER},"), encoding="utf-8")
    with http_receiver() as chat:
        url = f"{chat.url}/services/{SECRET}"

        killed = started_at_once(folder, "run", "config.yaml", CHAT_URL=url)
        killed.wait_for(r"ExampleGen\s+running")
        killed.signal(signal.SIGKILL)
        killed.finish()
        assert not chat.requests

        schema = folder / "schema.pbtxt"
        schema.write_text(_schema(), encoding="utf-8")
        settings = ["data.source.path=bad.csv", "data.schema=schema.pbtxt"]
        failed = headrace(
            folder, "run", "config.yaml", *[word for one in settings for word in ("--set", one)], CHAT_URL=url
        )
        assert failed.code == 1
        assert CARRIER in failed.out

        missing = headrace(folder, "run", "config.yaml", "--set", "data.source.path=none.csv", CHAT_URL=url)
        assert missing.code == 1

    assert [event["type"] for event in events(folder)] == [
        "headrace.run.killed",
        "headrace.run.failed",
        "headrace.run.failed",
    ]
    _, gate, start = events(folder)
    assert gate["subject"] == failed.run.run_id
    assert [(one["component"], one["error"]) for one in gate["data"]["failed"]] == [("DataGate", "GateError")]
    assert start["data"]["failed"][0]["component"] == "the start"
    assert [request.json["text"].splitlines()[0].split(" ", 3)[-1] for request in chat.requests[:2]] == [
        "was killed*",
        "failed*",
    ]
    assert len(chat.requests) == 3
    assert 'headrace_run_success{pipeline="parcels"} 0.0' in (folder / "parcels.prom").read_text(encoding="utf-8")
    sent = b"".join(request.body for request in chat.requests).decode() + (folder / "events.jsonl").read_text("utf-8")
    assert CARRIER not in sent + (folder / "parcels.prom").read_text(encoding="utf-8")
    for file in (folder / "runs").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in failed.out + failed.err + missing.out + missing.err


@pytest.mark.parametrize("url", ["given", "missing"])
def test_notify_sends_a_test_message_or_says_what_is_missing(tmp_path: Path, url: str) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    with http_receiver() as chat:
        environment = {"CHAT_URL": f"{chat.url}/{SECRET}"} if url == "given" else {}
        done = headrace(tmp_path, "notify", "config.yaml", **environment)
        write_parcels(tmp_path / "parcels.csv", 40)
        checked = headrace(tmp_path, "validate", "config.yaml", **environment)
    assert done.code == (0 if url == "given" else 1)
    assert (re.search(r"note: notify\.chat .*CHAT_URL is not set", checked.err) is not None) is (url == "missing")
    assert events(tmp_path)[0]["type"] == "headrace.test"
    assert "notify.log (command): the test message was sent" in done.out
    assert len(chat.requests) == (1 if url == "given" else 0)
    assert ("notify.chat (slack): the environment variable CHAT_URL is not set" in done.err) is (url == "missing")
    assert SECRET not in done.out + done.err
