"""What an InferenceService and its pods show.

In serverless mode (Knative) each change of the service makes a revision. Knative sends requests to the latest revision
that is ready; with `canaryTrafficPercent`, only that share, and the rest to the revision that had all of them last
(KServe's `latestRolledoutRevision`). In RawDeployment mode (Standard) a Deployment replaces pod after pod, and its
status says nothing of which version a pod serves. KServe annotates pods with the URI that they load, in both modes.

KServe passes the annotations of the service on to the pods, so a changed annotation alone would make a new revision,
and restart the pods. Ours change only together with the URI.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from headrace.common.errors import RunError

Mode = Literal["serverless", "raw"]
MODE = "serving.kserve.io/deploymentMode"
MODES: Mapping[str, Mode] = {
    "Serverless": "serverless",
    "Knative": "serverless",
    "RawDeployment": "raw",
    "Standard": "raw",
}
"""The names of before and since KServe 0.16."""
PIPELINE, VERSION, RUN = "headrace/pipeline", "headrace/version", "headrace/run"
PREVIOUS, BEFORE = "headrace/previous", "headrace/revision-before"
SOURCE = "internal.serving.kserve.io/storage-initializer-sourceuri"
"""KServe's annotation of a pod: the URI that it loads."""
REVISION = "serving.knative.dev/revision"
"""Knative's label of a pod."""
FAILED = ("BlockedByFailedLoad", "InvalidSpec")
"""States of `status.modelStatus.transitionStatus` in which `lastFailureInfo` is of now. KServe never removes it, and
leaves these states when the next attempt at a download succeeds."""
STOPPED = "Stopped"
"""The one condition of an InferenceService that is False as long as it is served."""
CRASHES = "CrashLoopBackOff"
CONTAINERS = ("containerStatuses", "initContainerStatuses")
WORDS = 300
"""Characters of a container's last words that are reported."""
ENDED = ("Succeeded", "Failed")
"""Phases of pods that are no longer there in effect, such as evicted ones."""


@dataclass(frozen=True)
class Served:
    """What the service is pointed to. version and run: "" if it is not of this project."""

    uri: str
    version: str = ""
    run: str = ""

    def to_json(self) -> str:
        return json.dumps({"uri": self.uri, "version": self.version, "run": self.run})

    @classmethod
    def from_json(cls, text: str | None) -> Served | None:
        """None for text that `to_json` did not write."""
        try:
            found = json.loads(text or "")
            return cls(str(found["uri"]), str(found.get("version", "")), str(found.get("run", "")))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True)
class Observed:
    """An InferenceService.

    Attributes:
        resource_version: What a change has to name, so that it is refused if the service changed meanwhile.
        mode: How KServe deploys it; None if it does not say.
        now: What it is pointed to.
        previous: What to go back to from there; None if there is nothing.
        pipeline: URI of the folder of the pipeline that pointed it there; "" if none did.
        canary: `canaryTrafficPercent`.
        before: The latest revision before it was pointed there.
        created, ready_revision, rolled_out: The latest revision, the latest that was ever ready, and the latest that
            got all requests; "" for none. Serverless only.
        conditions: Type to (status, reason or message).
        failure: What KServe says of a model that it cannot load now; "" if there is none.
        problem: Why it cannot be pointed to a version; "" if it can.
    """

    resource_version: str
    mode: Mode | None
    now: Served
    previous: Served | None = None
    pipeline: str = ""
    canary: int | None = None
    before: str = ""
    created: str = ""
    ready_revision: str = ""
    rolled_out: str = ""
    conditions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    failure: str = ""
    problem: str = ""

    @classmethod
    def of(cls, service: Mapping[str, Any]) -> Self:
        """Read the object of the API. Raises RunError if it is not an InferenceService."""
        try:
            metadata, status = service["metadata"], service.get("status") or {}
            predictor = service["spec"]["predictor"]
            notes = metadata.get("annotations") or {}
            revisions = (status.get("components") or {}).get("predictor") or {}
            model = predictor.get("model") or {}
            return cls(
                resource_version=metadata["resourceVersion"],
                mode=_mode(status, notes, revisions),
                now=Served(model.get("storageUri") or "", notes.get(VERSION, ""), notes.get(RUN, "")),
                previous=Served.from_json(notes.get(PREVIOUS)),
                pipeline=notes.get(PIPELINE, ""),
                canary=predictor.get("canaryTrafficPercent"),
                before=notes.get(BEFORE, ""),
                created=revisions.get("latestCreatedRevision", ""),
                ready_revision=revisions.get("latestReadyRevision", ""),
                rolled_out=revisions.get("latestRolledoutRevision", ""),
                conditions={one["type"]: _condition(one) for one in status.get("conditions") or ()},
                failure=_failure(status.get("modelStatus") or {}),
                problem=_problem(predictor, model),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"deploy.kserve: the API's answer is not an InferenceService of v1beta1 ({error!r})"
            ) from None

    @property
    def is_ready(self) -> bool:
        return self.conditions.get("Ready", ("Unknown", ""))[0] == "True"

    @property
    def is_new(self) -> bool:
        """Whether KServe has made a revision since the service was pointed to where it is. Serverless only."""
        return bool(self.created) and self.created != self.before

    @property
    def is_settled(self) -> bool:
        """Whether the latest revision is ready, and all requests go to it. Serverless only."""
        return self.is_ready and bool(self.created) and self.created == self.ready_revision == self.rolled_out

    @property
    def unmet(self) -> str:
        """What is not ready, in KServe's words. Several conditions often say the same, which is reported once."""
        found: dict[str, str] = {}
        for type_, (status, why) in self.conditions.items():
            if status != "True" and type_ != STOPPED:
                found.setdefault(why or f"{type_} is {status}", type_)
        said = [f"{type_}: {why}" if type_ not in why else why for why, type_ in found.items()]
        otherwise = "its pods have not all loaded it" if self.conditions else "KServe has not reported its state"
        return "; ".join([*said, *filter(None, [self.failure])]) or otherwise

    def revision_failure(self) -> str:
        """Why the latest revision failed, in Knative's words; "" if it did not. Serverless only.

        Knative also says so of one whose pod waits for a node, and until that pod is ready.
        """
        if self.mode != "serverless" or not self.is_new or self.created == self.ready_revision:
            return ""
        status, why = self.conditions.get("PredictorConfigurationReady", ("Unknown", ""))
        return f"revision {self.created} failed: {why}" if status == "False" else ""


@dataclass(frozen=True)
class PodState:
    """A pod of the service.

    uri: what it loads; trouble: how a container of it crashed, "" if none did; restarts: of its containers, without the
    init containers; loops: whether a container waits to be started again; revision: Knative's, "" if it has none;
    unscheduled: why no node takes it, "" if one did.
    """

    name: str
    uri: str
    is_ready: bool
    is_ending: bool
    trouble: str
    restarts: int
    loops: bool
    revision: str = ""
    unscheduled: str = ""

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Self:
        metadata, status = pod["metadata"], pod.get("status") or {}
        conditions = status.get("conditions") or ()
        return cls(
            name=metadata["name"],
            uri=(metadata.get("annotations") or {}).get(SOURCE, ""),
            is_ready=any(one["type"] == "Ready" and one["status"] == "True" for one in conditions),
            is_ending="deletionTimestamp" in metadata or status.get("phase") in ENDED,
            trouble=next(_crashes(metadata["name"], status), ""),
            restarts=sum(one.get("restartCount", 0) for one in status.get("containerStatuses") or ()),
            loops=any(_waits(one) for kind in CONTAINERS for one in status.get(kind) or ()),
            revision=(metadata.get("labels") or {}).get(REVISION, ""),
            unscheduled=next((_unscheduled(one) for one in conditions if one["type"] == "PodScheduled"), ""),
        )


def crash_of(pods: Iterable[PodState], uri: str, before: Mapping[str, int]) -> str:
    """How a pod that loads the URI crashed; "" if none did. before: restarts that do not count, by the pod's name."""
    crashed = (one for one in pods if one.loops or one.restarts > before.get(one.name, 0))
    return next((one.trouble for one in crashed if one.uri == uri and not one.is_ending), "")


def is_starting(pods: Iterable[PodState], revision: str) -> bool:
    """Whether a pod of the revision has neither ended nor crashed, and so may become ready."""
    return any(one.revision == revision and not (one.is_ending or one.loops or one.restarts) for one in pods)


def waits_for_node(pods: Iterable[PodState], uri: str) -> str:
    """Which pod that loads the URI has no node, and why; "" if all have one."""
    found = (one for one in pods if one.uri == uri and one.unscheduled and not one.is_ending)
    return next((f"pod {one.name} has no node: {one.unscheduled}" for one in found), "")


def all_serve(pods: Iterable[PodState], uri: str) -> bool:
    """Whether there are pods, and all of them have loaded the URI."""
    alive = [pod for pod in pods if not pod.is_ending]
    return bool(alive) and all(pod.uri == uri and pod.is_ready for pod in alive)


def _mode(status: Mapping[str, Any], notes: Mapping[str, str], revisions: Mapping[str, Any]) -> Mode | None:
    """As KServe decides: by the status, then by the annotation. Its default is in its own settings."""
    for name in (status.get("deploymentMode"), notes.get(MODE)):
        if name and name in MODES:
            return MODES[name]
    return "serverless" if revisions.get("latestCreatedRevision") else None


def _problem(predictor: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    if not model:
        return "it has no `spec.predictor.model`, whose `storageUri` is to be set"
    other = [f"spec.predictor.{name}" for name in ("storageUris",) if predictor.get(name)]
    other += ["spec.predictor.model.storage"] if model.get("storage") else []
    return f"it has `{other[0]}`, which KServe does not take together with `storageUri`" if other else ""


def _condition(one: Mapping[str, Any]) -> tuple[str, str]:
    said = ": ".join(str(one[key]) for key in ("reason", "message") if one.get(key))
    return one["status"], said


def _failure(loading: Mapping[str, Any]) -> str:
    info = (loading.get("lastFailureInfo") or {}) if loading.get("transitionStatus") in FAILED else {}
    said = [str(info[key]) for key in ("reason", "message") if info.get(key)]
    said += [f"exit code {info['exitCode']}"] if info.get("exitCode") else []
    return " ".join(": ".join(said).split())[:500]


def _unscheduled(condition: Mapping[str, Any]) -> str:
    """What the scheduler says, from the condition PodScheduled."""
    return "" if condition["status"] == "True" else str(condition.get("message") or condition.get("reason"))


def _crashes(name: str, status: Mapping[str, Any]) -> Iterator[str]:
    """A container that restarted, or cannot start. An init container may be tried again: it loads over a network."""
    for kind in CONTAINERS:
        for one in status.get(kind) or ():
            if _waits(one) or (kind == "containerStatuses" and one.get("restartCount", 0) > 0):
                yield f"the container {one['name']} of pod {name} {_end(one)}"


def _waits(container: Mapping[str, Any]) -> bool:
    return ((container.get("state") or {}).get("waiting") or {}).get("reason") == CRASHES


def _end(container: Mapping[str, Any]) -> str:
    ended = (container.get("lastState") or {}).get("terminated") or {}
    details = [str(ended["reason"])] if ended.get("reason") else []
    details += [f"exit code {ended['exitCode']}"] if "exitCode" in ended else []
    details += [" ".join(ended["message"].split())[-WORDS:]] if ended.get("message") else []
    times = container.get("restartCount", 0)
    return f"restarted {times} time{'s' * (times != 1)}" + (f" ({', '.join(details)})" if details else "")
