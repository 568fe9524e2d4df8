"""The stand-in of KServe (kserve_cluster.py) and a rollout, against KServe itself.

HEADRACE_TEST_KSERVE is the address of a Kubernetes API with KServe's definitions, webhooks and controller, without
authentication (`kubectl proxy`). Knative's definitions are there and its controllers are not, nor are there nodes or
controllers of Deployments: the test writes what they would, from the stand-in's revisions.
"""

from __future__ import annotations

import copy
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pytest
from kserve_cluster import PODS, SERVICE, Cluster, serving
from kserve_objects import FIRST, MODES, NAME, NAMESPACE, manifest
from kserve_pods import SOURCE, Plan
from test_kserve_rollout import LATER, NEXT, rollout

from headrace.pipeline.kubeflow.kserve.observed import Observed

ADDRESS = "HEADRACE_TEST_KSERVE"
PREDICTOR = f"{NAME}-predictor"
KNATIVE = f"/apis/serving.knative.dev/v1/namespaces/{NAMESPACE}/services/{PREDICTOR}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{PREDICTOR}"
SECONDS = 10.0
Json = dict[str, Any]


def ask(method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
    data = None if body is None else json.dumps(body).encode()
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    asked = urllib.request.Request(os.environ[ADDRESS] + path, data, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def found(path: str) -> Json:
    code, answer = ask("GET", path)
    assert code == 200, answer
    return answer


class Api:
    """The InferenceService in the API."""

    def get(self) -> Json:
        return found(SERVICE)

    def patch(self, body: Json) -> tuple[int, Json]:
        return ask("PATCH", SERVICE, body)

    def put_status(self, status: Json) -> None:
        """KServe writes it."""


class Controlled(Cluster):
    """The stand-in, whose revisions and pods are written for KServe; what KServe makes of them is compared."""

    def __init__(self, mode: str) -> None:
        super().__init__(mode, Api())
        self.compared = 0
        self.asked: list[list[tuple[int, str]]] = []
        """What KServe asked Knative for, without repetitions: percentages, with the revision, "" for the latest."""

    def step(self) -> None:
        with self._lock:
            super().step()
            self._write_pods()
            if self.mode == "Serverless":
                self._write_knative()
            else:
                self._write_deployment()
            self._compare()

    def _pods(self) -> Iterator[Json]:
        yield from found(f"{PODS}?{selector('serving.kserve.io/inferenceservice', NAME)}")["items"]

    def _compare(self) -> None:
        end = time.monotonic() + SECONDS
        while (other := self._differences()) and time.monotonic() < end:
            time.sleep(0.2)
        assert not other
        self.compared += 1

    def _differences(self) -> Json:
        """By name, what KServe's status has, and the stand-in's."""
        service = self.service
        pairs = zip(told(service), told({**service, "status": self._status}), strict=True)
        return {
            name: (one.get(name), two.get(name))
            for one, two in pairs
            for name in one | two
            if one.get(name) != two.get(name)
        }

    def _write_pods(self) -> None:
        template = found(KNATIVE if self.mode == "Serverless" else DEPLOYMENT)["spec"]["template"]
        newest = self.revisions[-1]
        assert template["metadata"]["annotations"][SOURCE] == newest.uri
        wanted = {f"{one.name}-pod": one.pod() for one in self._alive()}
        there = {one["metadata"]["name"]: one for one in self._pods()}
        for name in there.keys() - wanted.keys():
            ask("DELETE", f"{PODS}/{name}")
        for name, pod in wanted.items():
            if name not in there:
                self._create_pod(name, pod, template)
            code, answer = ask("PATCH", f"{PODS}/{name}/status", {"status": pod["status"]})
            assert code == 200, answer

    def _create_pod(self, name: str, pod: Json, template: Json) -> None:
        """As a ReplicaSet does, with what Knative adds. KServe's webhook adds the storage initializer."""
        own = template["metadata"]
        label = {"serving.knative.dev/revision": name.removesuffix("-pod")} if self.mode == "Serverless" else {}
        labels, annotations = own["labels"] | label, own["annotations"]
        assert pod["metadata"]["labels"].items() <= labels.items() | pod["metadata"]["labels"].items()
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        spec = {key: value for key, value in template["spec"].items() if key not in KNATIVES_OWN}
        code, answer = ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        assert code in (200, 201), answer
        (first,) = answer["spec"]["initContainers"]
        assert (first["name"], first["args"]) == ("storage-initializer", [annotations[SOURCE], "/mnt/models"])

    def _write_knative(self) -> None:
        """What Knative's controllers make of the revisions, and of the traffic that KServe asks for."""
        known = self._status["components"]["predictor"]
        of_stand_in = {one["type"]: one for one in self._status["conditions"]}
        conditions = [of_stand_in["PredictorConfigurationReady"] | {"type": "ConfigurationsReady"}]
        conditions += [of_stand_in["PredictorReady"] | {"type": "Ready"}]
        conditions += [of_stand_in["RoutesReady"]]
        ready = known.get("latestReadyRevision", "")
        targets = found(KNATIVE)["spec"]["traffic"]
        asked = [(one["percent"], one.get("revisionName", "")) for one in targets]
        self.asked += [asked] if self.asked[-1:] != [asked] else []
        traffic = [{**one, "revisionName": one.get("revisionName") or ready} for one in targets if ready]
        url = f"http://{PREDICTOR}.{NAMESPACE}.example.com"
        status = {
            "latestCreatedRevisionName": known["latestCreatedRevision"],
            "latestReadyRevisionName": ready or None,
            "conditions": conditions,
            "traffic": traffic,
            "url": url if ready else None,
            "address": {"url": url} if ready else None,
        }
        code, answer = ask("PATCH", f"{KNATIVE}/status", {"status": status})
        assert code == 200, answer

    def _write_deployment(self) -> None:
        ready = next(one for one in self._status["conditions"] if one["type"] == "PredictorReady")
        conditions = [{"type": "Available", **{key: ready[key] for key in ("status", "reason", "message")}}]
        code, answer = ask("PATCH", f"{DEPLOYMENT}/status", {"status": {"conditions": conditions}})
        assert code == 200, answer


KNATIVES_OWN = ("containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds")


def selector(label: str, value: str) -> str:
    return urllib.parse.urlencode({"labelSelector": f"{label}={value},component=predictor"})


def told(service: Mapping[str, Any]) -> tuple[Json, Json, Json]:
    """What the product reads of the service, its conditions, and what it says of the model."""
    found = asdict(Observed.of(service)) | {"resource_version": ""}
    return found, found.pop("conditions"), {**service["status"]["modelStatus"], "copies": None}


def applied(mode: str) -> Json:
    """Our manifest, with the changes that docs/kubeflow_cluster.md names for the mode."""
    service = copy.deepcopy(manifest("InferenceService"))
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": mode, "team": "a user's own"}
    service["spec"]["predictor"]["model"]["storageUri"] = FIRST
    if mode == "Serverless":
        service["spec"]["predictor"] |= {"scaleMetric": "concurrency", "scaleTarget": 10}
    return service


@pytest.fixture
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Controlled]:
    if ADDRESS not in os.environ:
        pytest.skip(f"{ADDRESS} names no Kubernetes API with KServe")
    mode = request.param
    ask("DELETE", SERVICE)
    for path in (KNATIVE, DEPLOYMENT):
        ask("DELETE", path)
    for one in found(f"{PODS}?{selector('serving.kserve.io/inferenceservice', NAME)}")["items"]:
        ask("DELETE", f"{PODS}/{one['metadata']['name']}")
    code, answer = ask("POST", SERVICE.rpartition("/")[0], applied(mode))
    assert code in (200, 201), answer
    alive = Controlled(mode)
    with serving(alive):
        alive.use(monkeypatch, tmp_path)
        alive.settle()
        alive.traffic.clear()
        yield alive


both_modes = pytest.mark.parametrize("cluster", MODES, indirect=True)


@both_modes
def test_kserve_takes_what_a_rollout_writes_and_changes_none_of_it(cluster: Controlled) -> None:
    wanted = applied(cluster.mode)["spec"]["predictor"]
    assert rollout(cluster).try_out() is None
    cluster.settle(2)
    service = cluster.service
    got = service["spec"]["predictor"]
    assert got["model"].pop("name", "") == ""
    wanted["model"]["storageUri"] = NEXT
    assert got == wanted
    notes = service["metadata"]["annotations"]
    assert notes["serving.kserve.io/deploymentMode"] == MODES[cluster.mode]
    assert {name: notes[name] for name in ("headrace/version", "headrace/run", "team")} == {
        "headrace/version": "2",
        "headrace/run": "run-2/pusher",
        "team": "a user's own",
    }
    assert service["status"]["deploymentMode"] == MODES[cluster.mode]
    assert cluster.traffic[-1] == {NEXT: 100}


@pytest.mark.parametrize("cluster", ["Serverless"], indirect=True)
def test_kserve_asks_knative_for_the_share_of_a_canary(cluster: Controlled) -> None:
    cluster.plans[NEXT] = Plan(crashes_after=6)
    one = rollout(cluster)
    why = str(one.try_out())
    assert "restarted" in why
    one.take_back(why)
    cluster.settle(2)
    all_at_latest, first = [(100, "")], f"{PREDICTOR}-00001"
    assert cluster.asked == [all_at_latest, [(10, ""), (90, first)], [(0, ""), (100, first)], all_at_latest]
    assert len(cluster.revisions) == 3


@pytest.mark.parametrize("cluster", ["Serverless"], indirect=True)
def test_kserve_takes_shares_that_come_before_the_revision_for_a_rollback(cluster: Controlled) -> None:
    assert rollout(cluster).try_out() is None
    cluster.settle(2)
    cluster.routes_first = True
    assert rollout(cluster, LATER, "3").try_out() is None
    assert [(10, ""), (90, f"{PREDICTOR}-00001")] in cluster.asked
    cluster.settle(2)
    assert cluster.traffic[-1] == {LATER: 100}


@both_modes
@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(load_error="NoSuchBucket: root"),
        Plan(failed_downloads=1),
        Plan(no_node=3),
        Plan(ready_after=None),
        Plan(ready_after=None, crashes_after=2),
        Plan(ready_after=2, crashes_after=5),
    ],
    ids=["good", "no model", "second download", "no node", "never ready", "crashes", "crashes later"],
)
def test_stand_in_says_what_kserve_says(cluster: Controlled, plan: Plan) -> None:
    """The stand-in compares its status with KServe's after each step, also with a version after a failed one."""
    cluster.plans[NEXT] = plan
    one = rollout(cluster)
    if why := one.try_out():
        one.take_back(why)
    assert rollout(cluster, LATER, "3").try_out() is None
    cluster.settle(2)
    assert cluster.compared > 15
    assert cluster.uri == LATER
