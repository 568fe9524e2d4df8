"""The API server of Kubeflow Pipelines in front of a cluster: real HTTP on loopback, with the checks of release 2.17.0.

server = ApiServer(users={"ann": {"team-a": EDIT}})     # a multi-user server; without users, one of the other kind
with serving(server):
    connected(server, auth=...)

What it accepts, refuses and answers follows `backend/src/apiserver` (server/*.go, resource/resource_manager.go,
storage/*.go, validation/length.go) and, for the rights, `installs/multi-user/view-edit-cluster-roles.yaml`. Of the
cluster it has workflows, which Argo deletes an hour after their end (`ttlStrategy`), and the persistence agent.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import urllib.parse
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from faulty_backend import Answer, Backend

VIEW = frozenset(
    f"{resource}/{verb}" for resource in ("pipelines", "experiments", "jobs", "runs") for verb in ("get", "list")
)
EDIT = VIEW | {
    *(f"pipelines/{verb}" for verb in ("create", "delete", "update")),
    *(f"experiments/{verb}" for verb in ("archive", "create", "delete", "unarchive")),
    *(f"runs/{verb}" for verb in ("archive", "create", "delete", "retry", "terminate", "unarchive")),
    *(f"jobs/{verb}" for verb in ("create", "delete", "disable", "enable")),
}
"""Verbs of the cluster roles `kubeflow-pipelines-view` and `kubeflow-pipelines-edit`."""
EQUALS = 1
"""The number of the operation in filters, which may also be named."""
LONGEST = {"experiments": 128, "pipelines": 128, "versions": 127, "runs": 255, "recurringruns": 255}
"""Characters of the names."""
ENDED = {"SUCCEEDED", "FAILED", "CANCELED"}
TTL = dt.timedelta(hours=1)
GO_ON = {"PENDING", "RUNNING", "PAUSED"}
"""States of a run that may be terminated."""
AUDIENCE_TOKEN = "token of {}"
"""What Kubernetes would review as a user's token for the audience `pipelines.kubeflow.org`."""
Json = dict[str, Any]


def seconds(time: str | None) -> int:
    """Unix seconds, as the database has the times of objects: 0 for one that has not come."""
    return int(dt.datetime.fromisoformat(time).timestamp()) if time else 0


class RefusedError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str, key: str = "message") -> None:
        super().__init__(message)
        self.answer: Answer = status, {key: message}


class ApiServer(Backend):
    """users: by user and namespace the rights there. `behind_gateway`: whether it is reached as a browser does it, by a
    cookie of the login, which the gateway turns into the header `kubeflow-userid`.
    """

    def __init__(self, users: Mapping[str, Mapping[str, Collection[str]]] | None = None) -> None:
        super().__init__()
        self.users = users
        self.behind_gateway = False
        self._lock = threading.Lock()
        self.time = dt.datetime.now(dt.UTC)
        self.objects: dict[str, dict[str, Json]] = {kind: {} for kind in LONGEST}
        self.workflows: dict[str, Json] = {}
        """Those in the cluster, by the id of their run."""
        self.manifests: dict[str, Json] = {}
        """Of the workflows that were ever reported."""
        self.archive: dict[str, str] = {}
        """Logs, by pod."""

    def answer(self, method: str, path: str, body: Json) -> Answer:
        url = urllib.parse.urlparse(path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        try:
            with self._lock:
                return 200, self._route(method, url.path.removeprefix("/pipeline").strip("/").split("/"), query, body)
        except RefusedError as refused:
            return refused.answer

    # What the cluster does.

    def report(self, run_id: str, state: str, details: Collection[Json] = (), nodes: Collection[Json] = ()) -> None:
        """The persistence agent tells of a run's workflow, if there is one."""
        if run_id not in self.workflows:
            return
        run = self.objects["runs"][run_id]
        self._set_state(run, state)
        run["run_details"] = {"task_details": list(details)}
        self.manifests[run_id] = {"status": {"nodes": {node["id"]: node for node in nodes}}}
        if state in ENDED:
            run["finished_at"] = self.time.isoformat()
            self.workflows[run_id]["ended"] = self.time

    def pass_time(self, **span: float) -> None:
        """Let time pass; Argo deletes what ended long enough ago."""
        self.time += dt.timedelta(**span)
        gone = [one for one, workflow in self.workflows.items() if self.time - workflow.get("ended", self.time) > TTL]
        for run_id in gone:
            del self.workflows[run_id]

    def _set_state(self, run: Json, state: str) -> None:
        run["state"] = state
        if not run["state_history"] or run["state_history"][-1]["state"] != state:
            run["state_history"].append({"state": state, "update_time": self.time.isoformat()})

    # Who may do what.

    def _user(self) -> str:
        headers = {name.lower(): value for name, value in self.headers[-1].items()}
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if self.behind_gateway:
            given = headers.get("cookie", "").replace("oauth2_proxy_kubeflow=session", "token")
        return next((user for user in self.users or () if given == AUDIENCE_TOKEN.format(user)), "")

    def _authorize(self, resource: str, verb: str, namespace: str) -> None:
        if self.users is None:
            return
        if not namespace:
            if resource == "pipelines" and verb in ("get", "list"):
                return  # pipelines of no namespace are everybody's to read
            raise RefusedError(400, f"{resource}: cannot have an empty namespace in multi-user mode")
        user = self._user()
        if not user:
            raise RefusedError(401, "User identity is empty in the request header")
        if f"{resource}/{verb}" not in self.users[user].get(namespace, ()):
            raise RefusedError(403, f"User '{user}' is not authorized with reason: (request: {resource} {verb})")

    def _namespace(self, given: str | None) -> str:
        return (given or "") if self.users is not None else ""

    # Requests.

    def _route(self, method: str, parts: list[str], query: Mapping[str, str], body: Json) -> Any:
        match method, *parts[2:]:
            case "GET", "healthz":
                return {"multi_user": self.users is not None, "tag_name": self.release, "pipeline_store": "database"}
            case "POST", "pipelines", "upload_version":
                return self._upload(query, body)
            case "GET", "runs", run_id, "nodes", pod, "log":
                return self.archive.get(pod) or {"error_message": f"Failed to read logs for run {run_id}: {pod}: gone"}
            case "GET", "runs", run_id if parts[1] == "v1beta1":
                self._authorize("runs", "get", self._get("runs", run_id)["namespace"])
                return {"pipeline_runtime": {"workflow_manifest": json.dumps(self.manifests.get(run_id, {}))}}
            case _, "experiments" | "pipelines" as kind, *rest:
                return self._kept(method, kind, rest, query, body)
            case _, "runs" | "recurringruns" as kind, *rest:
                return self._run(method, kind, rest, query, body)
        raise RefusedError(404, "404 page not found")

    def _kept(self, method: str, kind: str, rest: list[str], query: Mapping[str, str], body: Json) -> Any:
        """Experiments, and pipelines with their versions."""
        if not rest:
            namespace = self._namespace(body.get("namespace") if method == "POST" else query.get("namespace"))
            self._authorize(kind, "create" if method == "POST" else "list", namespace)
            if method == "POST":
                return self._put(kind, {**body, "namespace": namespace})
            return self._list(kind, kind, query, namespace=namespace)
        identity, *version = rest
        self._authorize(kind, "delete" if method == "DELETE" else "get", self._get(kind, identity)["namespace"])
        if method == "DELETE":
            self.objects["versions" if version else kind].pop(version[-1] if version else identity)
            return {}
        if version == ["versions"]:
            return self._list("versions", "pipeline_versions", query, pipeline_id=identity)
        return self._get("versions", version[-1])

    def _run(self, method: str, kind: str, rest: list[str], query: Mapping[str, str], body: Json) -> Any:
        resource = "jobs" if kind == "recurringruns" else kind
        if rest:
            identity, _, verb = rest[0].partition(":")
            one = self._get(kind, identity)
            asked = verb or {"GET": "get", "DELETE": "delete"}[method]
            self._authorize(resource, asked, one["namespace"])
            return getattr(self, f"_{asked}_{resource}")(one, query)
        if method == "GET":
            return self._runs_of(kind, resource, query)
        experiment = self._get("experiments", body.get("experiment_id", ""))
        self._authorize(resource, "create", experiment["namespace"])
        made = self._put(kind, {**body, "namespace": experiment["namespace"]})
        if kind == "recurringruns":
            for name, value in made["trigger"].get("periodic_schedule", {}).items():
                made["trigger"]["periodic_schedule"][name] = str(value)  # a 64-bit number, which is text in its JSON
            made["status"] = f"{body['mode']}D"
            return made
        made["state_history"] = []
        self._set_state(made, "PENDING")
        self.workflows[made["run_id"]] = {}
        return made

    def _runs_of(self, kind: str, resource: str, query: Mapping[str, str]) -> Json:
        """Those of an experiment, whose namespace counts then, or of a namespace."""
        wanted = {"namespace": self._namespace(query.get("namespace"))}
        if query.get("experiment_id"):
            experiment = self._get("experiments", query["experiment_id"])
            wanted = {"namespace": experiment["namespace"], "experiment_id": experiment["experiment_id"]}
        self._authorize(resource, "list", wanted["namespace"])
        return self._list(kind, "recurringRuns" if kind == "recurringruns" else kind, query, **wanted)

    def _get_runs(self, run: Json, _query: Mapping[str, str]) -> Json:
        return run

    def _delete_runs(self, run: Json, _query: Mapping[str, str]) -> Json:
        self.workflows.pop(run["run_id"], None)
        return self.objects["runs"].pop(run["run_id"]) and {}

    def _terminate_runs(self, run: Json, _query: Mapping[str, str]) -> Json:
        """Only the next report of the workflow puts CANCELING into the history (`TerminateRun` in run_store.go)."""
        run_id = run["run_id"]
        if run["state"] not in GO_ON:
            raise RefusedError(400, f"Failed to terminate a run {run_id}. Row not found")
        run["state"] = "CANCELING"
        if run_id not in self.workflows:
            what = f'Failed to terminate workflow w-{run_id} due to patching error: workflows.argoproj.io "w" not found'
            raise RefusedError(500, f"Failed to terminate run {run_id} due to error terminating its workflow: {what}")
        return {}

    def _retry_runs(self, run: Json, _query: Mapping[str, str]) -> Json:
        if run["state"] not in {"FAILED", "CANCELED"}:
            raise RefusedError(500, f"Failed to retry run {run['run_id']} as it does not allow retries")
        self.workflows[run["run_id"]] = {}  # updated if there is one, else made again of what was reported
        self._set_state(run, "RUNNING")
        run.pop("finished_at", None)
        return {}

    def _get_jobs(self, job: Json, _query: Mapping[str, str]) -> Json:
        return job

    def _enable_jobs(self, job: Json, _query: Mapping[str, str]) -> Json:
        return job.update(status="ENABLED") or {}

    def _disable_jobs(self, job: Json, _query: Mapping[str, str]) -> Json:
        return job.update(status="DISABLED") or {}

    def _delete_jobs(self, job: Json, query: Mapping[str, str]) -> Json:
        """Kubernetes deletes the workflows that the schedule owns, unless it is asked to leave them."""
        identity = job["recurring_run_id"]
        if query.get("propagation_policy") != "ORPHAN":
            for run in self.objects["runs"].values():
                if run.get("recurring_run_id") == identity:
                    self.workflows.pop(run["run_id"], None)
        return self.objects["recurringruns"].pop(identity) and {}

    def _upload(self, query: Mapping[str, str], body: Json) -> Json:
        pipeline = self._get("pipelines", query["pipelineid"])
        try:
            self._authorize("pipelines", "create", pipeline["namespace"])
        except RefusedError:  # the upload's own handler answers whatever is wrong like this
            raise RefusedError(400, "Failed to create a pipeline version", "error_message") from None
        named = {"name": query["name"], "display_name": query["name"]}
        return self._put(
            "versions", {**named, "pipeline_id": pipeline["pipeline_id"], "pipeline_spec": body["uploaded"]}
        )

    # Objects.

    def _get(self, kind: str, identity: str) -> Json:
        if identity not in self.objects[kind]:
            raise RefusedError(404, f"{kind} {identity} not found")
        return self.objects[kind][identity]

    def _put(self, kind: str, one: Json) -> Json:
        name, place = one["display_name"], one.get("pipeline_id", one.get("namespace"))
        if len(name) > LONGEST[kind]:
            raise RefusedError(400, f"{kind}.Name length cannot exceed {LONGEST[kind]}")
        same = [each for each in self.objects[kind].values() if each["display_name"] == name]
        if kind in ("experiments", "pipelines", "versions") and place in [
            each.get("pipeline_id" if kind == "versions" else "namespace") for each in same
        ]:
            raise RefusedError(409, f"The name {name} already exists")
        key = {"versions": "pipeline_version_id", "recurringruns": "recurring_run_id"}.get(kind, f"{kind[:-1]}_id")
        identity = str(uuid.uuid4())
        self.time += dt.timedelta(seconds=1)
        self.objects[kind][identity] = {**one, key: identity, "created_at": self.time.isoformat()}
        return self.objects[kind][identity]

    def _list(self, kind: str, key: str, query: Mapping[str, str], **wanted: str) -> Json:
        predicates = json.loads(query.get("filter", "{}")).get("predicates", [])
        wanted |= {one["key"]: one["stringValue"] for one in predicates if one["operation"] == EQUALS}
        found = [one for one in self.objects[kind].values() if all(one.get(name) == wanted[name] for name in wanted)]
        for one in (one for one in predicates if one["operation"] == "GREATER_THAN_EQUALS"):
            found = [each for each in found if seconds(each.get(one["key"])) >= int(one["longValue"])]
        found.sort(key=lambda one: one["created_at"], reverse="desc" in query.get("sort_by", ""))
        first, size = int(query.get("page_token") or 0), int(query.get("page_size") or 20)
        more = {"next_page_token": str(first + size)} if first + size < len(found) else {}
        return {key: found[first : first + size], **more}
