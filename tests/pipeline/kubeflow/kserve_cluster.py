"""As much of a cluster with KServe as a rollout needs of it: the API of an InferenceService and its pods, and the
controllers of KServe, Knative and Deployments. kserve_pods.py has its pods, kserve_objects.py the InferenceService.

    with serving(Cluster("Serverless", plans={uri: Plan(crashes_after=3)})) as cluster:
        cluster.use(monkeypatch, folder)          # as the kubeconfig of this process

It is a stand-in: what it does of the controllers follows `createKnativeService`, `PropagateStatus`,
`PropagateRawStatus` and `PropagateModelStatus` of KServe 0.20 and the reconcilers of Knative Serving 0.48;
test_kserve_controller.py compares it with KServe itself. The controllers take one step with each read of the service,
so time is counted in reads. `traffic` has, after each step, the share of the requests that each URI gets.
"""

from __future__ import annotations

import copy
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from kserve_objects import MODES, NAME, NAMESPACE, InMemory, Json, Objects, first_service, manifest, status
from kserve_pods import Plan, Revision

SERVICE = f"/apis/serving.kserve.io/v1beta1/namespaces/{NAMESPACE}/inferenceservices/{NAME}"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NO_INGRESS = "Predictor ingress not created"
KEPT_BACK = ("kubectl.kubernetes.io/last-applied-configuration", "modelFormat")
"""Annotations that KServe does not pass on to pods."""


class Cluster:
    """One InferenceService in a namespace.

    Attributes:
        mode: KServe's deployment mode.
        objects: Where the service is.
        plans: How the pods of a URI fare.
        otherwise: How those of other URIs fare.
        rules: What the account may do: the rules of its Role.
        patches: The patches that were taken, in order.
        traffic: The share of the requests of each URI after each step, in percent.
        routes_first: Whether Knative shows new shares of the traffic a step before the new revision, as its two
            controllers may.
        before: Called before each request with its method and path; it may raise, or change things.
    """

    def __init__(self, mode: str, objects: Objects | None = None, plans: Mapping[str, Plan] | None = None) -> None:
        self.mode, self.plans = mode, dict(plans or {})
        self.objects = objects or InMemory(first_service(mode))
        self.otherwise = Plan()
        self.routes_first = False
        self.rules: Sequence[Json] = manifest("Role")["rules"]
        self.revisions: list[Revision] = []
        self.patches: list[Json] = []
        self.traffic: list[dict[str, int]] = []
        self.before: Callable[[str, str], None] = lambda *_: None
        self.url = ""
        self._status: Json = {}
        self._lock = threading.RLock()

    def settle(self, steps: int = 8) -> None:
        for _ in range(steps):
            self.step()

    @property
    def service(self) -> Json:
        found = self.objects.get()
        assert found is not None
        return found

    @property
    def uri(self) -> str:
        return str(self.service["spec"]["predictor"]["model"]["storageUri"])

    @property
    def canary(self) -> int | None:
        found: int | None = self.service["spec"]["predictor"].get("canaryTrafficPercent")
        return found

    def use(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
        """Write a kubeconfig with the context `here`, and let this process use it."""
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": "mine"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(kubeconfig))
        monkeypatch.setenv("KUBECONFIG", str(file))
        return file

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: Json) -> tuple[int, Json]:
        with self._lock:
            url = urllib.parse.urlsplit(path)
            query = dict(urllib.parse.parse_qsl(url.query))
            self.before(method, url.path)
            verb = {"PATCH": "patch", "GET": "list" if url.path == PODS else "get"}[method]
            resource, name = ("pods", "") if url.path == PODS else ("inferenceservices", url.path.rpartition("/")[2])
            if not any(allows(rule, resource, verb, name) for rule in self.rules):
                return 403, status(403, f"{resource} is forbidden: cannot {verb}")
            if url.path == PODS:
                assert query["labelSelector"] == f"serving.kserve.io/inferenceservice={NAME},component=predictor"
                return 200, {"kind": "PodList", "items": [*self._pods()]}
            if url.path != SERVICE or self.objects.get() is None:
                return 404, status(404, "not found")
            if method == "PATCH":
                assert headers["Content-Type"] == "application/merge-patch+json"
                assert query["fieldValidation"] == "Strict"
                code, found = self.objects.patch(body)
                self.patches += [body] if code == 200 else []
                return code, found
            self.step()
            return 200, self.service

    def step(self) -> None:
        """One step of the controllers."""
        with self._lock:
            service = self.service
            self._create(service)
            for revision in self.revisions:
                revision.age += 1
                revision.was_ready |= revision.is_ready
            self._status = self._serverless() if self.mode == "Serverless" else self._raw()
            self.objects.put_status(copy.deepcopy(self._status))

    def _create(self, service: Json) -> None:
        """KServe passes annotations on to the pods, so one that changes makes a new revision, too."""
        notes = {k: v for k, v in service["metadata"].get("annotations", {}).items() if k not in KEPT_BACK}
        template = json.dumps([self.uri, notes], sort_keys=True)
        if not self.revisions or self.revisions[-1].template != template:
            name = f"{NAME}-predictor-{len(self.revisions) + 1:05}"
            self.revisions.append(Revision(name, self.uri, template, self.plans.get(self.uri, self.otherwise)))

    def _serverless(self) -> Json:
        known = self._status.get("components", {}).get("predictor", {})
        rolled, previous = known.get("latestRolledoutRevision", ""), known.get("previousRolledoutRevision", "")
        is_late = self.routes_first and self.revisions[-1].age == 1 and len(self.revisions) > 1
        created = self.revisions[-2 if is_late else -1]
        ready = next((one for one in reversed(self.revisions) if one.was_ready), None)
        percent = self.canary
        targets: list[tuple[str, int, bool]] = []
        if ready is not None:
            if percent is None or not rolled:
                targets = [(ready.name, 100, True)]
            else:
                targets = [(ready.name, percent, True)] + ([(rolled, 100 - percent, False)] if percent < 100 else [])
            share = targets[0][1]
            if rolled != ready.name and share == 100:
                rolled, previous = ready.name, rolled
            elif rolled == ready.name and ready is created and share < 100 and previous:  # all targets are this one
                rolled = previous
        by_name = {one.name: one.uri for one in self.revisions}
        shares: dict[str, int] = {}
        for name, part, _ in targets:
            shares[by_name[name]] = shares.get(by_name[name], 0) + part
        self.traffic.append(shares)
        state = "Unknown" if is_late else "True" if ready is created else "False" if created.failure else "Unknown"
        revisions = {
            "latestCreatedRevision": created.name,
            "latestReadyRevision": ready.name if ready else "",
            "latestRolledoutRevision": rolled,
            "previousRolledoutRevision": previous,
            "traffic": [{"revisionName": n, "percent": p, "latestRevision": latest} for n, p, latest in targets],
        }
        said = f'Revision "{created.name}" failed with message: {created.failure}.' if state == "False" else ""
        reason = "RevisionFailed" if said else ""
        names = ("PredictorConfigurationReady", "PredictorReady")
        ingress = ("True", "") if ready else ("Unknown", NO_INGRESS)
        rest = "" if state == "True" else "PredictorConfigurationReady not ready"
        loads = self._loads([created.pod()], is_ready=state == "True", has_failed=bool(said))
        return {
            "components": {"predictor": {name: value for name, value in revisions.items() if value}},
            "conditions": [
                *(condition(name, state, reason, said) for name in names),
                condition("LatestDeploymentReady", state, rest),
                condition("Ready", state, reason or ingress[1], said),
                condition("IngressReady", *ingress),
                *(condition(name, "True") for name in ("PredictorRouteReady", "RoutesReady")),
                condition("Stopped", "False"),
            ],
            "modelStatus": loads,
            "deploymentMode": MODES[self.mode],
        }

    def _raw(self) -> Json:
        """A rolling update: the old pods go once the new ones are ready."""
        alive = self._alive()
        ready = [one for one in alive if one.is_ready]
        self.traffic.append({one.uri: 100 // len(ready) for one in ready})
        state = "True" if ready else "False"
        reason = f"MinimumReplicas{'Available' if ready else 'Unavailable'}"
        said = f"Deployment {'has' if ready else 'does not have'} minimum availability."
        return {
            "components": {"predictor": {}},
            "conditions": [
                condition("PredictorReady", state, reason, said),
                *(condition(name, state, "" if ready else NO_INGRESS) for name in ("IngressReady", "Ready")),
                condition("Stopped", "False"),
            ],
            "modelStatus": self._loads([one.pod() for one in alive], is_ready=bool(ready)),
            "deploymentMode": MODES[self.mode],
        }

    def _loads(self, pods: Sequence[Json], *, is_ready: bool, has_failed: bool = False) -> Json:
        known = self._status.get("modelStatus", {"states": {"activeModelState": ""}})
        return model_status(known, pods, is_ready=is_ready, has_failed=has_failed)

    def _alive(self) -> list[Revision]:
        newest = self.revisions[-1]
        if newest.is_ready or self.mode == "Serverless":
            kept = self.revisions if self.mode == "Serverless" else [newest]
            return [one for one in kept if one is newest or self._has_traffic(one)]
        older = [one for one in self.revisions[:-1] if one.is_ready]
        return [*older[-1:], newest]

    def _has_traffic(self, revision: Revision) -> bool:
        targets = self._status.get("components", {}).get("predictor", {}).get("traffic", [])
        return any(one["revisionName"] == revision.name for one in targets)

    def _pods(self) -> Iterator[Json]:
        for one in self._alive() if self.revisions else ():
            yield one.pod()


def condition(name: str, state: str, reason: str = "", message: str = "") -> Json:
    found = {"type": name, "status": state, "lastTransitionTime": "2026-11-26T00:00:00Z"}
    return found | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def model_status(known: Json, pods: Sequence[Json], *, is_ready: bool, has_failed: bool) -> Json:
    """What KServe makes of the first pod. It keeps the last failure, and what it does not know better.

    pods: of the newest revision; of all in raw mode. is_ready: whether the service is, with that revision. has_failed:
    whether Knative says so of anything.
    """
    if not pods:
        return loading(known, "FailedToLoad" if has_failed else "Pending")
    containers = pods[0]["status"]
    for kind, name in (("initContainerStatuses", "storage-initializer"), ("containerStatuses", "kserve-container")):
        if kind == "containerStatuses" and is_ready:
            return loading(known, "Loaded")
        for one in containers.get(kind, ()):
            assert one["name"] == name
            loops = one["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
            if kind == "initContainerStatuses" and "running" in one["state"]:
                return known if "lastState" in one else loading(known, "Loading")
            ended = (one["lastState"] if loops else one["state"]).get("terminated", {})
            if ended.get("reason") == "Error":
                return loading(known, "FailedToLoad", ended)
            if kind == "containerStatuses":
                return loading(known, "Pending")
    return known


def loading(known: Json, state: str, ended: Json | None = None) -> Json:
    transition = {"Loaded": "UpToDate", "FailedToLoad": "BlockedByFailedLoad"}.get(state, "InProgress")
    active = state if state == "Loaded" else known["states"]["activeModelState"]
    found = known | {"transitionStatus": transition, "states": {"activeModelState": active, "targetModelState": state}}
    if ended is not None:
        failure = {"reason": "ModelLoadFailed", "message": ended.get("message", ""), "exitCode": ended["exitCode"]}
        found["lastFailureInfo"] = {name: value for name, value in failure.items() if value}
    return found


def allows(rule: Json, resource: str, verb: str, name: str) -> bool:
    names = rule.get("resourceNames", [name])
    return resource in rule["resources"] and verb in rule["verbs"] and name in names


@contextmanager
def serving(cluster: Cluster) -> Iterator[Cluster]:
    class Answer(BaseHTTPRequestHandler):
        def serve(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, found = cluster.answer(self.command, self.path, self.headers, json.loads(sent or b"{}"))  # type: ignore[arg-type]
            text = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = serve  # noqa: N815 - the names that http.server asks for

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        cluster.url = f"http://127.0.0.1:{server.server_port}"
        yield cluster
        server.shutdown()
