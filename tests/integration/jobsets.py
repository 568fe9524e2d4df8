"""As much of Kubernetes as a training in several pods needs of it: its API for JobSets and pods, and the controllers.

    with Cluster(folder, rules, environment) as cluster:
        subprocess.run(..., env={"KUBECONFIG": str(cluster.kubeconfig)})

A pod is a process with the command and the environment of its container, on a root folder of its own. The account may
do what the rules of its Role let it, and nothing else. Names of hosts are those that JobSet gives its pods; they stand
for this machine, as the cluster's DNS would have them stand for pods. A Job whose pod fails ends its other pods; the
JobSet makes all again, or fails, as its failure policy says. With `publishNotReadyAddresses` hosts are known at once.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import forks
import yaml

from headrace.trainer.service.ports import free_ports

NAMESPACE = "kubeflow"
GRACE_SECONDS, WAITING_SECONDS = 60.0, 3.0
"""Between SIGTERM and SIGKILL; and where a worker is gone, for which the others wait and do not react to SIGTERM."""
Json = dict[str, Any]


@dataclass
class Pod:
    """A pod of a JobSet, running or ended."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    environment: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def phase(self) -> str:
        code = self.process.poll()
        return "Running" if code is None else "Failed" if code else "Succeeded"

    def end(self, number: int = signal.SIGTERM) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


@dataclass
class JobSet:
    """One with its pods, of all its tries."""

    manifest: Json
    pods: list[Pod] = field(default_factory=list)
    deleted: threading.Event = field(default_factory=threading.Event)
    status: Json = field(default_factory=lambda: {"restarts": 0, "conditions": []})


class Cluster:
    """`rules`: of the account's Role; `environment`: of every pod, beside its own; `values`: Secret to key to value."""

    def __init__(
        self,
        folder: Path,
        rules: Sequence[Json],
        environment: Mapping[str, str],
        values: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.folder, self._rules, self._environment, self._values = folder, rules, environment, values
        self.jobsets: dict[str, JobSet] = {}
        self.made: list[JobSet] = []
        """Every JobSet that was created, in order."""
        self.tasks: dict[str, Json] = {}
        """The pods of tasks, by name."""
        self.refused: list[str] = []
        self.on_pods: Callable[[JobSet], None] = lambda _: None
        """Called when the pods of a try have been started."""
        cluster = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cluster._answer(self)

            def do_POST(self) -> None:
                cluster._answer(self)

            def do_DELETE(self) -> None:
                cluster._answer(self)

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)

    @property
    def kubeconfig(self) -> Path:
        host, port = self._server.server_address[:2]
        named = {"name": "here", "cluster": {"server": f"http://{host!s}:{port}"}}
        context = {"name": "here", "context": {"cluster": "here", "user": "account"}}
        user = {"name": "account", "user": {"token": "a token"}}
        reported = {"apiVersion": "v1", "kind": "Config", "clusters": [named], "contexts": [context], "users": [user]}
        file = self.folder / "kubeconfig"
        file.write_text(yaml.safe_dump({**reported, "current-context": "here"}))
        return file

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for one in self.made:
            one.deleted.set()
            for pod in one.pods:
                pod.end(signal.SIGKILL)
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        group, resource, name = _route(url.path)
        verb = {"POST": "create", "DELETE": "delete"}.get(request.command) or ("get" if name else "list")
        if not any(_allows(rule, group, resource, verb) for rule in self._rules):
            self.refused.append(f"{verb} {resource}")
            return _send(request, 403, _status(403, f"{resource} is forbidden: cannot {verb}"))
        if resource == "pods/log":
            return self._log(request, name)
        body = json.loads(request.rfile.read(int(request.headers.get("Content-Length") or 0)) or b"{}")
        if verb == "delete" and query.get("propagationPolicy") != "Foreground":
            return _send(request, 422, _status(422, "pods would be left behind"))
        code, reported = self._jobset(verb, name, body) if resource == "jobsets" else self._pods(verb, name, query)
        return _send(request, code, reported)

    def _pods(self, verb: str, name: str, query: Mapping[str, str]) -> tuple[int, Json]:
        if verb == "get":
            return (200, self.tasks[name]) if name in self.tasks else (404, _status(404, f"pods {name} not found"))
        key, _, value = query["labelSelector"].partition("=")
        assert key == "jobset.sigs.k8s.io/jobset-name"
        found = [pod for one in self.made if one.manifest["metadata"]["name"] == value for pod in one.pods]
        items = [{"metadata": {"name": pod.name}, "status": {"phase": pod.phase}} for pod in found]
        return 200, {"kind": "PodList", "apiVersion": "v1", "items": items}

    def _jobset(self, verb: str, name: str, body: Json) -> tuple[int, Json]:
        if verb == "create":
            name = body["metadata"]["name"]
            if name in self.jobsets:
                return 409, _status(409, "already exists")
            one = self.jobsets[name] = JobSet(body)
            self.made.append(one)
            threading.Thread(target=self._control, args=(one,), daemon=True).start()
            return 201, body
        found = self.jobsets.get(name)
        if found is None:
            return 404, _status(404, f"jobsets {name} not found")
        if verb == "delete":
            found.deleted.set()
        return 200, {**found.manifest, "status": found.status}

    def _control(self, one: JobSet) -> None:
        """What the controllers of JobSets and Jobs do, and the kubelet."""
        policy = one.manifest["spec"]["failurePolicy"]
        while True:
            pods = self._started(one)
            self.on_pods(one)
            codes = _ended(pods, one.deleted)
            if one.deleted.is_set():
                del self.jobsets[one.manifest["metadata"]["name"]]
                return
            job = one.manifest["spec"]["replicatedJobs"][0]["template"]["spec"]
            (final,) = job["podFailurePolicy"]["rules"]
            if not any(codes):
                one.status["conditions"].append({"type": "Completed", "status": "True"})
                return
            if any(code in final["onExitCodes"]["values"] for code in codes):
                assert policy["rules"][0]["action"] == "FailJobSet"
                _fail(one, "a job failed by PodFailurePolicy")
                return
            if one.status["restarts"] == policy["maxRestarts"]:
                _fail(one, "jobset failed due to reaching max number of restarts")
                return
            one.status["restarts"] += 1

    def _started(self, one: JobSet) -> list[Pod]:
        spec = one.manifest["spec"]
        (group,) = spec["replicatedJobs"]
        job = group["template"]["spec"]
        name = one.manifest["metadata"]["name"]
        assert spec["network"]["enableDNSHostnames"]
        assert job["completionMode"] == "Indexed"
        stems = [f"{name}-{group['name']}-0-{number}" for number in range(job["completions"])]
        ports = free_ports(len(stems))
        known = {f"{stem}.{name}:2222": f"127.0.0.1:{port}" for stem, port in zip(stems, ports, strict=True)}
        pods = [self._pod(job["template"]["spec"], stem, number, known) for number, stem in enumerate(stems)]
        one.pods += pods
        return pods

    def _pod(self, spec: Json, stem: str, number: int, known: Mapping[str, str]) -> Pod:
        (container,) = spec["containers"]
        name = f"{stem}-{uuid.uuid4().hex[:5]}"
        root = self.folder / name
        root.mkdir()
        own = {each["name"]: self._value(each, known) for each in container["env"]}
        environment = {
            **self._environment,
            **own,
            "JOB_COMPLETION_INDEX": str(number),
            "HEADRACE_POD": str(root),
            "PYTHONUNBUFFERED": "1",
        }
        assert container["command"][0] == "python"
        with (root / "log").open("wb") as log:
            process = forks.Forked(
                [sys.executable, *container["command"][1:]],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return Pod(name, process, root / "log", environment)

    def _value(self, each: Json, known: Mapping[str, str]) -> str:
        if "valueFrom" in each:
            secret = each["valueFrom"]["secretKeyRef"]
            return self._values[secret["name"]][secret["key"]]
        value: str = each["value"]
        if each["name"] != "HEADRACE_TRAINING":
            return value
        reported = json.loads(value)
        return json.dumps({**reported, "hosts": [known[host] for host in reported["hosts"]]})  # as DNS would answer

    def _log(self, request: http.server.BaseHTTPRequestHandler, name: str) -> None:
        (pod,) = [pod for one in self.made for pod in one.pods if pod.name == name]
        request.send_response(200)
        request.end_headers()
        with pod.log.open("rb") as file, contextlib.suppress(OSError):
            while True:
                ended = pod.process.poll() is not None
                request.wfile.write(file.read())
                request.wfile.flush()
                if ended:
                    return
                time.sleep(0.1)


def _route(path: str) -> tuple[str, str, str]:
    """(API group, resource, name) of a path."""
    parts = path.strip("/").split("/")
    group = "" if parts[0] == "api" else parts[1]
    rest = parts[parts.index("namespaces") + 1 :]
    assert rest[0] == NAMESPACE
    name = rest[2] if len(rest) > 2 else ""
    return group, "/".join([rest[1], *rest[3:]]), name


def _allows(rule: Json, group: str, resource: str, verb: str) -> bool:
    return group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]


def _status(code: int, message: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


def _send(request: http.server.BaseHTTPRequestHandler, code: int, body: Json) -> None:
    request.send_response(code)
    request.send_header("Content-Type", "application/json")
    request.end_headers()
    with contextlib.suppress(OSError):
        request.wfile.write(json.dumps(body).encode())


def _fail(one: JobSet, message: str) -> None:
    one.status["conditions"].append({"type": "Failed", "status": "True", "message": message})


def _ended(pods: Sequence[Pod], deleted: threading.Event) -> list[int]:
    """How pods ended: all are asked to once one has failed, or the JobSet is deleted, and later made to."""
    killed = 0.0
    for _ in _ticks():
        codes = [pod.process.poll() for pod in pods]
        if not killed and (deleted.is_set() or any(codes)):
            killed = time.monotonic() + (GRACE_SECONDS if deleted.is_set() else WAITING_SECONDS)
            for pod in pods:
                pod.end()
        if killed and time.monotonic() > killed:
            for pod in pods:
                pod.end(signal.SIGKILL)
        if None not in codes:
            return [code for code in codes if code is not None]
    raise AssertionError


def _ticks() -> Iterator[None]:
    while True:
        yield
        time.sleep(0.1)


def environment(**more: str) -> dict[str, str]:
    """What a pod has of the machine."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, **more}
