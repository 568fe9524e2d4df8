"""The exit handler that tells of a run as it ends: what is compiled, and what its pod tells, once, also after a kill.

The server is in front of a cluster that reports what Argo does (see api_server.py); results are on an S3 server, and
the pod is the program of the compiled task.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer
from compiled_trips import compiled, trips
from ended_runs import BLESSED, EVALUATION, HOME, ROOT, Kubeflow, kubeflow_of
from faulty_backend import serving
from receivers import HttpReceiver, http_receiver
from s3_servers import S3Server

from headrace.common.errors import ConfigError, RunError
from headrace.pipeline.kubeflow.compiler import compile as compile_module
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import all_tasks, flat_graph, task_specs
from headrace.pipeline.kubeflow.notifier.exit import LeftError, tell_exit
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.tasks import GROUP
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.deliver import Outside

pytestmark = pytest.mark.slow

HANDLED = "kubeflow.notify={exit_handler: true, secrets: [{name: ops, env: {OPS_URL: url}}]}"
SECRET = "https://hooks.example/T0AB12CD/x9Yz8Wv7Ut6Sr5Qp4"
ALL = ["failed", "interrupted", "not_blessed", "pushed", "blessed"]
KILLED = "OOMKilled (exit code 137)"


@pytest.fixture(scope="module")
def text() -> str:
    """The trips pipeline with an exit handler, compiled."""
    receiver = "notify={ops: {kind: webhook, url_env: OPS_URL}}"
    return compile_pipeline(trips(receiver, HANDLED), {"OPS_URL": SECRET})


def test_all_components_are_in_a_group_beside_the_task_that_runs_however_it_ended(text: str) -> None:
    pipeline, platform = yaml.safe_load_all(text)
    plain = compiled()
    tasks = pipeline["root"]["dag"]["tasks"]
    assert set(tasks) == {GROUP, "headrace-notify"}
    notify = tasks["headrace-notify"]
    assert (notify["dependentTasks"], notify["cachingOptions"]) == ([GROUP], {})
    assert notify["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    (given,) = notify["inputs"]["parameters"].values()  # and no status, which servers before 2.15 refuse
    assert given == {"runtimeValue": {"constant": "{{$.pipeline_job_uuid}}"}}
    # Every other command sees the same graph as without an exit handler, one level deeper.
    flat, before = flat_graph(pipeline), flat_graph(plain)
    assert {name: task.get("dependentTasks") for name, task in flat.items()} == {
        name: task.get("dependentTasks") for name, task in before.items()
    }
    assert {task["within"] for task in flat.values()} == {(GROUP,)}
    assert [*all_tasks(pipeline)] == [*task_specs(plain)]
    assert all_tasks(pipeline)["trainer"].container["args"] == task_specs(plain)["trainer"].container["args"]
    assert pipeline["root"]["inputDefinitions"] == plain["root"]["inputDefinitions"]
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    keys = {
        key["envVar"]: (one["secretNameParameter"]["runtimeValue"]["constant"], key["secretKey"])
        for one in executors["exec-headrace-notify"]["secretAsEnv"]
        for key in one["keyToEnv"]
    }
    assert keys.pop("OPS_URL") == ("ops", "url")
    assert set(keys) == {"HEADRACE_STORE_ACCESS_KEY", "HEADRACE_STORE_SECRET_KEY"}
    assert SECRET not in text
    assert not [name for name, one in executors.items() if "OPS_URL" in str(one) and name != "exec-headrace-notify"]


def test_receivers_secrets_are_refused_in_the_file_and_missed_in_the_pod() -> None:
    value = f"notify={{ops: {{kind: webhook, url: '{SECRET}'}}}}"
    with pytest.raises(RunError, match="the environment variable OPS_URL"):
        compile_pipeline(trips(value, HANDLED), {"OPS_URL": SECRET})
    by_name = "notify={ops: {kind: webhook, url_env: OPS_URL}}"
    refused = r"notify\.ops: the exit handler gets no OPS_URL; .*kubeflow\.notify\.secrets"
    with pytest.raises(ConfigError, match=refused):
        compile_pipeline(trips(by_name, "kubeflow.notify={cron: null, exit_handler: true}"), {})
    assert set(compiled("kubeflow.notify={exit_handler: true}")["root"]["dag"]["tasks"]) > {"trainer"}  # no receivers


@dataclass
class Ending:
    """A pipeline with an exit handler on a server."""

    kubeflow: Kubeflow
    hook: HttpReceiver

    def ending(
        self, state: str, tasks: Mapping[str, tuple[str, str]] = {}, *, phase: str = "", run_id: str = ""
    ) -> str:
        """A run whose components have ended; its exit handler runs. phase: Argo's of the group."""
        server = self.kubeflow.server
        run_id = run_id or self.kubeflow.ended("RUNNING", {})
        server.time += dt.timedelta(minutes=5)
        self.group = {
            "display_name": GROUP,
            "state": state,
            "start_time": server.time.isoformat(),
            "end_time": (server.time + dt.timedelta(seconds=40)).isoformat(),
        }
        self.nodes = [{"id": "g", "displayName": GROUP, "phase": phase, "startedAt": "2026-01-02T03:04:05Z"}]
        self.details = [*self._details(run_id, tasks), self.group]
        server.report(run_id, "RUNNING", self.details, self.nodes)
        return run_id

    def ends(self, run_id: str, state: str) -> None:
        """The exit handler has ended, and so has the run."""
        self.kubeflow.server.time += dt.timedelta(minutes=2)
        self.kubeflow.server.report(run_id, state, self.details, self.nodes)

    def tell(self, run_id: str) -> str | None:
        """What the exit handler's pod tells."""
        outside = Outside({"PATH": "/usr/bin:/bin"}, lambda _: None)
        kubeflow = self.kubeflow
        notice = tell_exit(kubeflow.session, kubeflow.store, run_id, outside, kubeflow.server.time.timestamp)
        return None if notice is None else str(notice)

    def told(self) -> list[tuple[str, str]]:
        """Of which runs, and what."""
        return [(one.json["id"].split("/")[1], one.json["type"].rpartition(".")[2]) for one in self.hook.requests]

    def _details(self, run_id: str, tasks: Mapping[str, tuple[str, str]]) -> Iterator[dict[str, Any]]:
        for name in self.kubeflow.session.tasks(self.kubeflow.session.run(run_id)):
            state, message = tasks.get(name, ("SUCCEEDED", ""))
            times = {"start_time": self.group["start_time"], "end_time": self.group["start_time"]}
            error = {"error": {"message": message}} if message else {}
            yield {"display_name": name, "state": state, **times, **error}


@pytest.fixture
def ending(store: Store, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ending]:
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with serving(ApiServer()) as server, http_receiver() as hook:
        assert isinstance(server, ApiServer)
        receiver = {"kind": "webhook", "url": f"{hook.url}/all", "on": ALL}
        yield Ending(kubeflow_of(server, store, tmp_path, HANDLED, ops=receiver), hook)


def test_each_end_is_told_once_by_the_exit_handler_or_else_by_the_sweep(ending: Ending) -> None:
    skipped = dict.fromkeys(("canary", "pusher", "record-blessing"), ("SKIPPED", ""))
    killed = ending.ending("FAILED", {"trainer": ("FAILED", KILLED), **skipped}, phase="Failed")
    name = ending.kubeflow.session.run(killed).display_name
    assert ending.kubeflow.sweep() == []  # it runs
    assert ending.tell(killed) == f"run       {name}  failed: told ops"
    assert ending.tell(killed) is None  # its pod was deleted and started again
    event = ending.hook.requests[0].json["data"]
    assert event["failed"][0]["component"] == "Trainer"
    assert event["failed"][0]["error"] == "OOMKilled, exit code 137"
    assert (event["finished"], event["events"]) == (_utc(ending.group["end_time"]), ["failed"])
    ending.ends(killed, "FAILED")
    assert ending.kubeflow.sweep() == []
    ending.kubeflow.server.pass_time(minutes=59)
    assert [ending.kubeflow.sweep() for _ in range(2)] == [[], []]  # nor when the margin of a sweep is over

    refused = ending.ending("SUCCEEDED", phase="Succeeded")
    ending.kubeflow.evaluated(refused, EVALUATION)
    ending.tell(refused)
    ending.ends(refused, "SUCCEEDED")
    blessed = ending.ending("SUCCEEDED", phase="Succeeded")
    ending.kubeflow.evaluated(blessed, BLESSED)
    ending.tell(blessed)
    ending.ends(blessed, "SUCCEEDED")
    assert ending.kubeflow.sweep() == []
    assert ending.told() == [(killed, "failed"), (refused, "not_blessed"), (blessed, "blessed")]

    # Argo starts no exit handler that succeeded again, so a sweep tells of the second end.
    runs.retry(ending.kubeflow.session.server, ending.kubeflow.session.run(killed))
    ending.ending("FAILED", {"trainer": ("FAILED", KILLED)}, phase="Failed", run_id=killed)
    ending.ends(killed, "FAILED")
    assert len(ending.kubeflow.sweep()) == 1
    assert ending.told()[3:] == [(killed, "failed")]
    assert len({one.json["id"] for one in ending.hook.requests}) == 4
    assert ending.kubeflow.sweep() == []


def _utc(moment: str) -> str:
    return dt.datetime.fromisoformat(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_what_the_exit_handler_cannot_know_is_left_to_the_sweep(ending: Ending) -> None:
    lost = ending.ending("FAILED", {"trainer": ("FAILED", "pod deleted")}, phase="Error")
    with pytest.raises(LeftError, match="Argo may start the whole run again"):
        ending.tell(lost)
    cancelled = ending.kubeflow.ended("RUNNING", {})
    runs.cancel(ending.kubeflow.session.server, ending.kubeflow.session.run(cancelled))
    ending.ending("FAILED", phase="Failed", run_id=cancelled)
    ending.kubeflow.server.report(cancelled, "CANCELING", ending.details, ending.nodes)
    with pytest.raises(LeftError, match="is being cancelled"):
        ending.tell(cancelled)
    ending.ends(cancelled, "FAILED")
    unreported = ending.ending("RUNNING", phase="Running")
    with pytest.raises(LeftError, match="has not reported within 60 s"):
        ending.tell(unreported)
    assert ending.hook.requests == []
    ending.ends(lost, "FAILED")
    assert len(ending.kubeflow.sweep()) == 2
    assert sorted(ending.told()) == sorted([(lost, "failed"), (cancelled, "interrupted")])


def test_a_receiver_that_the_exit_handler_did_not_reach_is_told_by_the_sweep_with_the_same_id(ending: Ending) -> None:
    with http_receiver(refuse=[404, 200]) as flaky:
        receiver = {"kind": "webhook", "url": flaky.url}
        kubeflow = kubeflow_of(
            ending.kubeflow.server, ending.kubeflow.store, ending.kubeflow.tmp, HANDLED, flaky=receiver
        )
        both = Ending(kubeflow, flaky)
        run_id = both.ending("FAILED", {"trainer": ("FAILED", KILLED)}, phase="Failed")
        assert str(both.tell(run_id)).endswith("failed: told nobody")
        both.ends(run_id, "FAILED")
        (line,) = both.kubeflow.sweep()
        assert line.endswith("failed: told flaky")
        assert both.kubeflow.sweep() == []
    assert len(flaky.requests) == 2
    assert len({one.json["id"] for one in flaky.requests}) == 1


def test_the_compiled_program_tells_of_the_run_that_kubeflow_names(ending: Ending, s3_server: S3Server) -> None:
    server = ending.kubeflow.server
    secret = f"{ending.hook.url}/all"
    receiver = "notify={ops: {kind: webhook, url_env: OPS_URL}}"
    secrets = "secrets: [{name: o, env: {OPS_URL: u}}]"
    notifier = f"kubeflow.notify={{exit_handler: true, endpoint: '{server.url}', {secrets}}}"
    root = f"kubeflow.pipeline_root={ROOT}"
    from_outside = "{endpoint: 'https://kubeflow.example', auth: {kind: cookie, env: MY_COOKIE}, ca_file: my.pem}"
    own = compile_pipeline(trips(receiver, notifier, root, f"kubeflow.server={from_outside}"), {})
    executors = next(yaml.safe_load_all(own))["deploymentSpec"]["executors"]
    container = executors["exec-headrace-notify"]["container"]
    run_id = ending.ending("FAILED", {"trainer": ("FAILED", KILLED)}, phase="Failed")
    given = json.dumps({"inputs": {"parameterValues": {"run_id": run_id}}})
    command = [sys.executable, *container["command"][1:], *(one.replace("{{$}}", given) for one in container["args"])]
    environment = {"PATH": "/usr/bin:/bin", "OPS_URL": secret, **s3_server.environment}
    done = [
        subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False) for _ in range(2)
    ]
    name = ending.kubeflow.session.run(run_id).display_name
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert done[0].stdout == f"run       {name}  failed: told ops\n"
    assert done[1].stdout.startswith("nothing to tell: ")
    assert ending.told() == [(run_id, "failed")]
    assert ending.hook.requests[0].json["data"]["page"] == f"https://kubeflow.example/#/runs/details/{run_id}"
    assert ending.hook.requests[0].json["source"] == HOME
