"""Sweeps over ended runs: Kubeflow's API as it answers, results in SeaweedFS, and receivers on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer
from click.testing import CliRunner
from command import headrace
from compiled_trips import TRIPS, trips
from ended_runs import BLESSED, EVALUATION, HOME, ROOT, Kubeflow, kubeflow_of
from faulty_backend import serving
from receivers import HttpReceiver, http_receiver
from s3_servers import S3Server

from headrace.common import store_lock
from headrace.common.checksums import with_checksum
from headrace.common.errors import RunError
from headrace.common.store_lock import Timing
from headrace.components.gates.verdict import DataVerdicts, GateRow, GateVerdict
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.pipeline.cli import cli
from headrace.pipeline.kubeflow.compiler import compile as compile_module
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.notifier.record import sweeping
from headrace.pipeline.kubeflow.notifier.sweep import sweep
from headrace.pipeline.kubeflow.results_store import open_results
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.store import Store, open_store
from headrace.pipeline.notify.deliver import Outside

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).with_name("golden") / "plain.golden"
VALUE = "Ada Lovelace, 1815"
"""What stands in a row."""
SECRET = "T0AB12CD/B0EF34GH/x9Yz8Wv7Ut6Sr5Qp4"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(ApiServer()) as alive:
        assert isinstance(alive, ApiServer)
        yield alive


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def hook() -> Iterator[HttpReceiver]:
    with http_receiver() as alive:
        yield alive


def types(hook: HttpReceiver, path: str = "/all") -> list[str]:
    return [one.json["type"].rpartition(".")[2] for one in hook.requests if one.path == path]


def pass_time_while_waiting(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None] = lambda: None) -> list[float]:
    """The seconds that locks wait from now on, which pass 20 times as fast. work: what the holder does meanwhile.

    Not faster: SeaweedFS tells times in whole seconds, so of claims that are renewed within one the second is not seen.
    """
    waited = [0.0]

    def sleep(seconds: float) -> None:
        waited[0] += seconds
        time.sleep(seconds / 20)
        work()

    monkeypatch.setattr(store_lock, "USUAL", Timing(clock=lambda: waited[0], sleep=sleep))
    return waited


def write_config(folder: Path, server: ApiServer, receiver: dict[str, Any]) -> Path:
    config = yaml.safe_load(TRIPS.read_text(encoding="utf-8"))
    config["data"].pop("schema")
    config["features"].pop("kind")
    config["notify"] = {"log": receiver}
    config["kubeflow"] |= {"pipeline_root": ROOT, "server": {"endpoint": server.url}}
    path = folder / "trips.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


ALL = ["failed", "interrupted", "not_blessed", "pushed", "blessed", "drifted", "ended_early"]


@pytest.mark.slow
def test_each_end_is_told_once_with_what_became_of_the_run_and_without_a_value(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver
) -> None:
    receivers = {
        "all": {"kind": "webhook", "url": f"{hook.url}/all", "on": ALL},
        "default": {"kind": "webhook", "url": f"{hook.url}/default"},
    }
    kubeflow = kubeflow_of(server, store, tmp_path, **receivers)
    skipped = dict.fromkeys(("canary", "pusher", "record-blessing"), ("SKIPPED", ""))
    failed = kubeflow.ended("FAILED", {"data-gate": ("FAILED", f"Error (exit code 1): 1 anomaly: {VALUE}"), **skipped})
    refused = kubeflow.ended("SUCCEEDED", {})
    kubeflow.evaluated(refused, EVALUATION, f"serving_default: cannot parse {VALUE}")
    blessed = kubeflow.ended("SUCCEEDED", {})
    kubeflow.evaluated(blessed, BLESSED)
    kubeflow.pushed(blessed, "1790000000")
    cancelled = kubeflow.ended("RUNNING", {})
    runs.cancel(kubeflow.session.server, kubeflow.session.run(cancelled))
    kubeflow.report(cancelled, "CANCELING", {})
    kubeflow.report(cancelled, "FAILED", {})
    early = kubeflow.ended("SUCCEEDED", dict.fromkeys(("example-gen", "trainer", "evaluator"), ("SKIPPED", "")))
    going = kubeflow.ended("RUNNING", {})

    lines = kubeflow.sweep()
    assert types(hook) == ["failed", "not_blessed", "blessed", "interrupted", "ended_early"]
    assert types(hook, "/default") == ["failed", "not_blessed"]
    events = [one.json for one in hook.requests if one.path == "/all"]
    assert [one["id"].split("/")[:2] for one in events] == [
        ["trips", run_id] for run_id in (failed, refused, blessed, cancelled, early)
    ]
    gate, no, yes, *_ = (one["data"] for one in events)
    name = gate["run"]
    assert gate["failed"] == [
        {"component": "DataGate", "error": "exit code 1", "log": f"headrace logs CONFIG DataGate {name}"}
    ]
    assert gate["page"] == f"{server.url}/#/runs/details/{failed}"
    assert gate["component_seconds"]["ExampleGen"] == 2.0
    assert no["limits"] == [{"metric": "auc", "value": 0.71, "rule": "at least 0.8", "passed": False}]
    assert [reason.startswith("the canary did not pass") for reason in no["reasons"]] == [True]
    assert (yes["events"], yes["pushed"]) == (["blessed", "pushed"], f"{HOME}/serving/trips/1790000000")
    assert lines[0] == f"run       {name}  failed: told all, default"
    assert lines[3].endswith("interrupted: told all")
    assert {one["source"] for one in events} == {HOME}

    assert kubeflow.sweep() == []
    runs.retry(kubeflow.session.server, kubeflow.session.run(failed))
    message = "OOMKilled (exit code 137)"
    pod = {"id": "p", "type": "Pod", "name": "w(0).root(0).trainer(0).executor(0)", "message": message}
    kubeflow.report(failed, "FAILED", {"trainer": ("FAILED", message)}, [pod])
    kubeflow.report(going, "SUCCEEDED", {})
    (again, last) = kubeflow.sweep()
    assert (again, last.rpartition("  ")[2]) == (f"run       {name}  failed: told all, default", "ended: told nobody")
    ids = [one.json["id"] for one in hook.requests if one.path == "/all"]
    assert len(ids) == len({*ids}) == 6
    reason = "its pod ran out of memory at its limit of 16Gi (OOMKilled, exit code 137)"
    assert hook.requests[-1].json["data"]["failed"][0]["error"] == reason
    assert kubeflow.sweep() == []
    sent = b"".join(one.body for one in hook.requests).decode() + store.text(f"{HOME}/notified.json")
    assert VALUE not in sent
    assert store.files(f"{HOME}/notifying") == {}


def test_two_sweeps_at_once_tell_once(server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver) -> None:
    kubeflow = kubeflow_of(server, store, tmp_path, ops={"kind": "webhook", "url": f"{hook.url}/all"})
    ended = [kubeflow.ended("FAILED", {"trainer": ("FAILED", "Error (exit code 1)")}) for _ in range(3)]
    start = threading.Barrier(3)

    def one() -> list[str]:
        other = Kubeflow(server, Session.of(kubeflow.session.config), open_store({}), tmp_path)
        start.wait()
        outside = Outside({}, time.sleep)
        return [str(one) for one in sweep(other.session, other.store, outside, server.time.timestamp)]

    with ThreadPoolExecutor(3) as threads:
        told = [line for lines in threads.map(lambda _: one(), range(3)) for line in lines]
    assert len(told) == len(ended)
    assert [one.json["id"].split("/")[1] for one in hook.requests] == ended


@pytest.mark.slow
def test_a_sweep_that_is_killed_between_sending_and_recording_tells_again_with_the_same_id(
    server: ApiServer, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    program = f"cat >> {tmp_path}/events; [ -e {tmp_path}/killed ] || {{ touch {tmp_path}/killed; kill -9 $PPID; }}"
    kubeflow = kubeflow_of(server, store, tmp_path, log={"kind": "command", "command": ["sh", "-c", program]})
    kubeflow.ended("FAILED", {"trainer": ("FAILED", "Error (exit code 1)")})
    write_config(tmp_path, server, {"kind": "command", "command": ["sh", "-c", program]})
    killed = headrace(tmp_path, "notify", "trips.yaml", "--kubeflow", **s3_server.environment)
    assert killed.code == -9
    assert len(store.files(f"{HOME}/notifying")) == 1
    waited = pass_time_while_waiting(monkeypatch)
    assert len(kubeflow.sweep()) == 1
    assert 40 < waited[0] < 45
    assert kubeflow.sweep() == []
    sent = (tmp_path / "events").read_text(encoding="utf-8").replace("}{", "}\n{").splitlines()
    assert len(sent) == 2
    assert len({json.loads(event)["id"] for event in sent}) == 1
    done = headrace(tmp_path, "notify", "trips.yaml", "--kubeflow", **s3_server.environment)
    assert (done.code, done.out[:16]) == (0, "nothing to tell:")


def test_a_receiver_that_is_not_reached_is_told_by_a_later_sweep_and_given_up_after_a_day(
    server: ApiServer, store: Store, tmp_path: Path
) -> None:
    with http_receiver(refuse=[404, 200, 404, 404]) as flaky, http_receiver() as hook:
        receivers = {name: {"kind": "webhook", "url": one.url} for name, one in (("flaky", flaky), ("ops", hook))}
        kubeflow = kubeflow_of(server, store, tmp_path, **receivers)
        kubeflow.ended("FAILED", {"trainer": ("FAILED", "Error (exit code 1)")})
        (first,) = kubeflow.sweep()
        assert first.endswith("failed: told ops")
        server.pass_time(hours=5)
        (second,) = kubeflow.sweep()
        assert second.endswith("failed: told flaky")
        assert kubeflow.sweep() == []
        kubeflow.ended("FAILED", {"trainer": ("FAILED", "Error (exit code 1)")})
        kubeflow.sweep()
        assert len(kubeflow.sweep()) == 1
        server.pass_time(hours=25)
        kubeflow.sweep()
        assert kubeflow.sweep() == []
    assert [len(hook.requests), len(flaky.requests)] == [2, 5]
    assert len({one.json["id"] for one in flaky.requests}) == 2
    assert json.loads(store.text(f"{HOME}/notified.json"))["ends"] == {}


def test_the_first_sweep_tells_of_the_last_day_and_metrics_are_those_of_the_newest_run(
    server: ApiServer, store: Store, tmp_path: Path
) -> None:
    with http_receiver() as gateway, http_receiver() as hook:
        receivers = {"ops": {"kind": "webhook", "url": hook.url}, "gw": {"kind": "pushgateway", "url": gateway.url}}
        kubeflow = kubeflow_of(server, store, tmp_path, **receivers)
        failure = {"trainer": ("FAILED", "Error (exit code 1)")}
        kubeflow.ended("FAILED", failure)
        server.pass_time(hours=30)
        good = kubeflow.ended("SUCCEEDED", {})
        kubeflow.evaluated(good, BLESSED)
        succeeded = server.time.timestamp()
        kubeflow.ended("FAILED", failure)
        assert len(kubeflow.sweep()) == 2
        kubeflow.ended("SUCCEEDED", dict.fromkeys(("evaluator", "pusher"), ("SKIPPED", "")))
        assert len(kubeflow.sweep()) == 1
    assert len(hook.requests) == 1
    of_failure, of_success = (one.body.decode() for one in gateway.requests)
    assert 'headrace_run_success{pipeline="trips"} 0.0' in of_failure
    assert f'headrace_last_success_timestamp_seconds{{pipeline="trips"}} {succeeded!r}' in of_failure
    assert 'headrace_run_success{pipeline="trips"} 1.0' in of_success


def test_results_from_the_cache_are_found_by_what_later_tasks_were_given(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver
) -> None:
    receiver = {"kind": "webhook", "url": f"{hook.url}/all", "on": ALL}
    kubeflow = kubeflow_of(server, store, tmp_path, ops=receiver)
    kubeflow.evaluated("an-earlier-run", BLESSED)
    given = {"artifacts": {"blessing": {"artifacts": [{"uri": f"{HOME}/an-earlier-run/evaluator/17/blessing"}]}}}
    command = ["launch", "--executor_input", json.dumps({"inputs": given})]
    patch = {"name": "pod-spec-patch", "value": json.dumps({"containers": [{"command": command}]})}
    driver = {"id": "n", "displayName": "record-blessing-driver", "outputs": {"parameters": [patch]}}
    kubeflow.ended("SUCCEEDED", {"evaluator": ("CACHED", ""), "pusher": ("CACHED", "")}, [driver])
    kubeflow.sweep()
    (event,) = (one.json["data"] for one in hook.requests)
    assert (event["events"], event["metrics"], event["pushed"]) == (["blessed"], {"auc": 0.71}, None)


@pytest.mark.parametrize("pushes", [False, True])
def test_version_of_a_rollback_is_not_told_as_pushed_by_a_run_that_pushed_nothing(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver, *, pushes: bool
) -> None:
    kubeflow = kubeflow_of(server, store, tmp_path, ops={"kind": "webhook", "url": f"{hook.url}/all", "on": ALL})
    kubeflow.pushed("an-earlier-run", "1790000007")  # the newest one
    run_id = kubeflow.ended("SUCCEEDED", {})
    kubeflow.evaluated(run_id, BLESSED)
    given = {"artifacts": {"pushed_model": {"artifacts": [{"uri": f"{HOME}/{run_id}/pusher/19/pushed_model"}]}}}
    command = ["launch", "--executor_input", json.dumps({"inputs": given})]
    patch = {"name": "pod-spec-patch", "value": json.dumps({"containers": [{"command": command}]})}
    driver = {"id": "n", "displayName": "publish-predictions-driver", "outputs": {"parameters": [patch]}}
    kubeflow.report(run_id, "SUCCEEDED", {}, [driver])
    if pushes:
        kubeflow.pushed(run_id, "1790000008")
    kubeflow.sweep()
    (event,) = (one.json["data"] for one in hook.requests)
    version = f"{HOME}/serving/trips/1790000008"
    assert (event["events"], event["pushed"]) == ((["blessed", "pushed"], version) if pushes else (["blessed"], None))


def test_model_that_awaits_approval_is_told_until_it_is_promoted(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver
) -> None:
    receiver = {"kind": "webhook", "url": f"{hook.url}/all", "on": ["awaiting_approval"]}
    kubeflow = kubeflow_of(server, store, tmp_path, "deploy.approval=manual", ops=receiver)

    def ended(*, waits: bool) -> str:
        run_id = kubeflow.ended("SUCCEEDED", {})
        kubeflow.evaluated(run_id, BLESSED)
        entry = Entry(uri=f"{run_id}/trainer/5/model", blessed_at="2026-03-01T12:00:00", awaiting_approval=waits)
        store.write(f"{HOME}/blessed.json", with_checksum(Registry(models=(entry,)).model_dump_json()))
        kubeflow.sweep()
        return run_id

    ended(waits=False)
    waiting = ended(waits=True)
    (told,) = (one.json for one in hook.requests)
    event = told["data"]
    assert (told["id"].split("/")[1], event["pushed"]) == (waiting, None)
    assert set(event["events"]) == {"awaiting_approval", "blessed"}


def test_drift_is_told_without_the_columns_values(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("schedule={cron: '0 5 * * *', retrain: drift}", "kubeflow.parameters=[window]")
    text = compile_pipeline(trips(*settings), {})
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)
    receiver = {"kind": "webhook", "url": f"{hook.url}/all", "on": ["drifted"]}
    kubeflow = kubeflow_of(server, store, tmp_path, *settings, ops=receiver)
    drifted, same = kubeflow.ended("SUCCEEDED", {}), kubeflow.ended("SUCCEEDED", {"trainer": ("SKIPPED", "")})
    store.write(f"{HOME}/{drifted}/drift/7/record", f"yes\nnew data: 9; 9 drifted: kind ({VALUE})")
    store.write(f"{HOME}/{same}/drift/8/record", "no\nnew data: 10; 10 did not drift")
    kubeflow.sweep()
    (event,) = (one.json for one in hook.requests)
    assert event["id"].split("/")[1::2] == [drifted, "drifted"]
    assert VALUE not in json.dumps(event)


def test_a_gate_that_warns_of_drift_is_told_without_the_columns_values(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = "gates={drift: {earlier_spans: {on_anomaly: warn}}}"
    text = compile_pipeline(trips(gate), {})
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)
    receiver = {"kind": "webhook", "url": f"{hook.url}/all", "on": ["drifted"]}
    kubeflow = kubeflow_of(server, store, tmp_path, gate, ops=receiver)
    warned, same = kubeflow.ended("SUCCEEDED", {}), kubeflow.ended("SUCCEEDED", {})
    row = GateRow(what=VALUE, measure="distance", value="0.5", limit="0.1", excess=4)
    for run, rows in ((warned, [row]), (same, [])):
        found = DataVerdicts(gates=(GateVerdict.of("gates.drift.earlier_spans", "warn", rows),))
        store.write(f"{HOME}/{run}/data-verdict/7/record", found.model_dump_json())
    kubeflow.sweep()
    (event,) = (one.json for one in hook.requests)
    assert event["id"].split("/")[1::2] == [warned, "drifted"]
    expected = {"gate": "gates.drift.earlier_spans", "failed": 1, "judged": 1, "stopped": False}
    assert event["data"]["gates"] == [expected]
    assert VALUE not in json.dumps(event)


def test_results_on_a_volume_are_read_there_and_sweeps_are_recorded_there(
    server: ApiServer, tmp_path: Path, hook: HttpReceiver
) -> None:
    volume = tmp_path / "volume"
    settings = ["kubeflow.storage=reference", f"kubeflow.volume={{claim: artifacts, path: {volume}}}"]
    receiver = {"kind": "webhook", "url": f"{hook.url}/all"}
    of_volume = kubeflow_of(server, Store({}), tmp_path, *settings, ops=receiver)
    with pytest.raises(RunError, match="is not mounted here"):
        open_results(of_volume.session.config)
    volume.mkdir()
    kubeflow = replace(of_volume, store=open_results(of_volume.session.config))
    kubeflow.evaluated(kubeflow.ended("SUCCEEDED", {}), EVALUATION)
    kubeflow.sweep()
    assert types(hook) == ["not_blessed"]
    assert (volume / "s3" / "root" / "runs" / "trips" / "notified.json").is_file()


def test_a_run_that_is_retried_during_the_sweep_is_told_at_its_next_end(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeflow = kubeflow_of(server, store, tmp_path, ops={"kind": "webhook", "url": f"{hook.url}/all"})
    failure = {"trainer": ("FAILED", "Error (exit code 1)")}
    run_id = kubeflow.ended("FAILED", failure)
    listed = Session.ended_since

    def retried(session: Session, since: float) -> list[Any]:
        found = listed(session, since)
        runs.retry(session.server, found[0])
        return found

    monkeypatch.setattr(Session, "ended_since", retried)
    assert kubeflow.sweep() == []
    monkeypatch.setattr(Session, "ended_since", listed)
    kubeflow.report(run_id, "FAILED", failure)
    assert len(kubeflow.sweep()) == len(hook.requests) == 1


def test_a_damaged_record_is_named_with_the_way_out(server: ApiServer, store: Store, tmp_path: Path) -> None:
    kubeflow = kubeflow_of(server, store, tmp_path, ops={"kind": "webhook", "url": "http://127.0.0.1:9"})
    store.write(f"{HOME}/notified.json", "{")
    with pytest.raises(RunError, match=rf"{HOME}/notified\.json: .* is damaged[^\n]*\n.*Remove the object"):
        kubeflow.sweep()


def test_a_sweep_that_waits_for_another_one_for_a_minute_ends_and_says_so(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = {"kind": "webhook", "url": f"{hook.url}/all"}
    kubeflow, config = kubeflow_of(server, store, tmp_path, ops=receiver), write_config(tmp_path, server, receiver)
    kubeflow.ended("FAILED", {"trainer": ("FAILED", "Error (exit code 1)")})
    with sweeping(store, HOME) as (_, lock):
        waited = pass_time_while_waiting(monkeypatch, lock.renew)
        busy = CliRunner().invoke(cli, ["notify", str(config), "--kubeflow"])
        assert (busy.exit_code, busy.stdout) == (0, "")
        assert "another sweep is in progress" in busy.stderr
        assert "notifying/sweep for 1 minute. Its holder is process" in busy.stderr
        assert 60 < waited[0] < 65
        lock.check()
    assert hook.requests == []
    assert len(kubeflow.sweep()) == len(hook.requests) == 1
    assert store.files(f"{HOME}/notifying") == {}


def test_a_sweep_that_lost_its_lock_tells_nothing_more_and_leaves_the_record_to_others(
    server: ApiServer, store: Store, tmp_path: Path, hook: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeflow = kubeflow_of(server, store, tmp_path, ops={"kind": "webhook", "url": f"{hook.url}/all"})
    for _ in range(2):
        kubeflow.ended("FAILED", {"trainer": ("FAILED", "Error (exit code 1)")})
    passed = [0.0]
    monkeypatch.setattr(store_lock, "USUAL", Timing(clock=lambda: passed[0]))
    notices = sweep(kubeflow.session, store, Outside({}, time.sleep), server.time.timestamp)
    next(notices)
    passed[0] += 26
    with pytest.raises(RunError, match=r"lock .* was lost.* run again"):
        next(notices)
    assert len(hook.requests) == 1
    assert len(json.loads(store.text(f"{HOME}/notified.json"))["ends"]) == 1
