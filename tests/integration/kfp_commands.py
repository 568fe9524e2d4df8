"""The command line against one experiment and one pipeline of a Kubeflow server: one that the tests built, or any.

kubeflow = Built(server, 7)                        # Kubeflow's own API server, with nothing behind it
kubeflow = Reachable("http://localhost:8080")      # a cluster; `remove()` takes away what the tests made there
kubeflow("submit", "--again").ending("run")
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from command import ROOT, Finished, Going, started_at_once, wait_until
from kfp_server import Server
from kfp_workflows import cancelled, post, report, with_pod

CONFIG = "configs/taxi.yaml"
IMAGE = "kubeflow.image=registry.example/headrace:1"
"""There is none: a cluster goes no further than to ask for it."""
TOKEN = "HEADRACE_TEST_KFP_TOKEN"
"""Environment variable with the token for a server with users."""
ENDED_BADLY = {"FAILED", "CANCELED"}
A_WHILE = 300.0
"""Seconds that a cluster may take for what it does by itself."""
NEWEST = "page_size=200&sort_by=created_at%20desc"


class Kubeflow:
    """The command, and what the server tells of what it did. namespace: on a server with users."""

    def __init__(self, url: str, name: str, namespace: str = "") -> None:
        self.url, self.namespace = url, namespace
        self.experiment = self.pipeline = f"headrace-test-{name}"

    def going(self, verb: str, *arguments: str, **environment: str) -> Going:
        settings = (
            IMAGE,
            f"pipeline.name={self.pipeline}",
            f"kubeflow.server.endpoint={self.url}",
            f"kubeflow.server.experiment={self.experiment}",
            *([f"kubeflow.namespace={self.namespace}"] if self.namespace else []),
            *([f"kubeflow.server.auth={{kind: bearer, env: {TOKEN}}}"] if TOKEN in os.environ else []),
        )
        options = [part for setting in settings for part in ("--set", setting)]
        return started_at_once(ROOT, verb, CONFIG, *arguments, *options, **environment)

    def __call__(self, verb: str, *arguments: str, code: int = 0, **environment: str) -> Finished:
        done = self.going(verb, *arguments, **environment).finish()
        assert done.code == code, done.out + done.err
        return done

    def runs(self) -> list[Any]:
        found = [self._listed(f"runs?{NEWEST}&experiment_id={one}", "runs") for one in self._experiments()]
        return [run for runs in found for run in runs]

    def versions(self) -> list[Any]:
        (pipeline,) = self._pipelines()
        return self._listed(f"pipelines/{pipeline}/versions?{NEWEST}", "pipeline_versions")

    def schedules(self) -> list[Any]:
        mine = set(self._experiments())
        found = self._listed(f"recurringruns?{NEWEST}&namespace={self.namespace}", "recurringRuns")
        return [one for one in found if one["experiment_id"] in mine]

    def end_badly(self, run_id: str) -> None:
        """Have a run end otherwise than well."""
        raise NotImplementedError

    def end_cancelled(self, run_id: str) -> None:
        """Wait until the cluster has ended a run that was cancelled."""
        raise NotImplementedError

    def pod_of(self, run_id: str, task: str) -> str:
        """The name of a task's pod, once there is one; "" where only a cluster's own clients could tell it."""
        raise NotImplementedError

    def first_run(self, schedule: Mapping[str, Any]) -> str:
        """The id of the first run that a schedule makes."""
        raise NotImplementedError

    @contextlib.contextmanager
    def made_by_hand(self, like: Mapping[str, Any]) -> Iterator[str]:
        """The id of a recurring run of the same content, but for what headrace writes down on its own."""
        given = ("display_name", "experiment_id", "pipeline_version_reference", "runtime_config", "trigger")
        body = {**{name: like[name] for name in given}, "max_concurrency": "1", "mode": "ENABLE", "description": "mine"}
        made: str = self.ask("POST", "recurringruns", body)["recurring_run_id"]
        yield made
        self.ask("DELETE", f"recurringruns/{made}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What the server answers, None where that is nothing."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.url}/apis/v2beta1/{path}"
        headers = {"Content-Type": "application/json"}
        if TOKEN in os.environ:
            headers["Authorization"] = f"Bearer {os.environ[TOKEN]}"
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def _experiments(self) -> list[str]:
        found = self._listed(f"experiments?{NEWEST}&namespace={self.namespace}", "experiments")
        return [one["experiment_id"] for one in found if one["display_name"] == self.experiment]

    def _pipelines(self) -> list[str]:
        found = self._listed(f"pipelines?{NEWEST}&namespace={self.namespace}", "pipelines")
        return [one["pipeline_id"] for one in found if one["display_name"] == self.pipeline]

    def _listed(self, path: str, name: str) -> list[Any]:
        return list(self.ask("GET", path).get(name, []))


class Built(Kubeflow):
    """On the server that the tests built, which runs nothing: what a cluster would report of a run, the test does."""

    def __init__(self, server: Server, number: int) -> None:
        super().__init__(server.url, str(number))
        self.server = server

    def end_badly(self, run_id: str) -> None:
        """As the persistence agent reports it."""
        report(self.server, run_id, "Failed", {"a": ("spans", "Failed", 0, 9)})

    def end_cancelled(self, run_id: str) -> None:
        """As Argo ends it, and the persistence agent reports it."""
        cancelled(self.server, run_id)

    def pod_of(self, run_id: str, task: str) -> str:
        """After a first try that ended in an error."""
        return with_pod(self.server, self.server.workflow(run_id), run_id, task, tries=2)

    def first_run(self, schedule: Mapping[str, Any]) -> str:
        """As the scheduled-workflow controller makes it, and the persistence agent reports it."""
        made = str(post(self.server, f"/schedules/{schedule['recurring_run_id']}/due"))
        report(self.server, made, "Running", {"a": ("spans", "Running", 0, 0)})
        return made


class Reachable(Kubeflow):
    """On a Kubeflow that is there, among what others do there."""

    def __init__(self, url: str, namespace: str = "") -> None:
        super().__init__(url.rstrip("/"), uuid.uuid4().hex[:12], namespace)

    def end_badly(self, run_id: str) -> None:
        """Terminate it, and wait until the cluster has."""
        self.ask("POST", f"runs/{run_id}:terminate")
        self.end_cancelled(run_id)

    def end_cancelled(self, run_id: str) -> None:
        """Argo's controller and the persistence agent do that."""
        assert wait_until(lambda: self.ask("GET", f"runs/{run_id}")["state"] in ENDED_BADLY, A_WHILE)

    def pod_of(self, run_id: str, task: str) -> str:  # noqa: ARG002 - the first task's is the first that there is
        """Wait until the driver has let Argo make it: Kubernetes then asks in vain for its image."""
        assert wait_until(lambda: self._has_executor(run_id), A_WHILE)
        return ""

    def first_run(self, schedule: Mapping[str, Any]) -> str:
        """Wait for it."""
        made: list[Any] = []

        def there() -> bool:
            time.sleep(1)
            made[:] = [run for run in self.runs() if run.get("recurring_run_id") == schedule["recurring_run_id"]]
            return bool(made) and made[-1]["state"] == "RUNNING"

        assert wait_until(there, A_WHILE)
        return str(made[-1]["run_id"])

    def _has_executor(self, run_id: str) -> bool:
        time.sleep(1)
        details = self.ask("GET", f"runs/{run_id}").get("run_details", {}).get("task_details", [])
        return any(one.get("display_name") == "executor" and one.get("child_tasks") for one in details)

    def remove(self) -> None:
        """Take away what was made here."""
        for schedule in self.schedules():
            self.ask("DELETE", f"recurringruns/{schedule['recurring_run_id']}")
        for run in self.runs():
            with contextlib.suppress(HTTPError):  # it has ended
                self.ask("POST", f"runs/{run['run_id']}:terminate")
            self.ask("DELETE", f"runs/{run['run_id']}")
        for pipeline in self._pipelines():
            for version in self.versions():
                self.ask("DELETE", f"pipelines/{pipeline}/versions/{quote(version['pipeline_version_id'])}")
            self.ask("DELETE", f"pipelines/{pipeline}")
        for experiment in self._experiments():
            self.ask("DELETE", f"experiments/{experiment}")


def name_of(done: Finished) -> str:
    """The name of the run that was submitted."""
    return done.ending("run").split()[0]
