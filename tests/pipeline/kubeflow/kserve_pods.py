"""The pods of the stand-in of KServe (kserve_cluster.py): how they fare, and what Kubernetes says of them."""

from __future__ import annotations

from dataclasses import dataclass

from kserve_objects import NAME, Json

SOURCE = "internal.serving.kserve.io/storage-initializer-sourceuri"
CRASHES = "CrashLoopBackOff"
NO_NODE = "0/3 nodes are available: 3 Insufficient cpu."


@dataclass(frozen=True)
class Plan:
    """How the pods of a URI fare, in steps.

    ready_after: from the first step in which it is being loaded. crashes_after: from the creation, ready or not;
    restarts_before: how often they did so before. load_error: what KServe's storage initializer ends with, each time.
    no_node: for how long no node takes them. failed_downloads: how often the storage initializer fails before it does
    not.
    """

    ready_after: int | None = 2
    crashes_after: int | None = None
    load_error: str = ""
    restarts_before: int = 0
    no_node: int = 0
    failed_downloads: int = 0


@dataclass
class Revision:
    """A revision of Knative, or the ReplicaSet of a Deployment."""

    name: str
    uri: str
    template: str
    plan: Plan
    age: int = 0
    was_ready: bool = False

    @property
    def restarts(self) -> int:
        after = self.plan.crashes_after
        return self.plan.restarts_before + (0 if after is None else max(0, self.age - after + 1))

    @property
    def is_scheduled(self) -> bool:
        return self.age > self.plan.no_node

    @property
    def downloads(self) -> int:
        """How often the storage initializer failed; each time takes a step of loading and one of failing."""
        tries = max(0, self.age - self.plan.no_node) // 2
        return tries if self.plan.load_error else min(tries, self.plan.failed_downloads)

    @property
    def is_loaded(self) -> bool:
        """Whether the storage initializer is done."""
        return not self.plan.load_error and self.age > self._waits

    @property
    def is_ready(self) -> bool:
        return self.is_loaded and self.plan.ready_after is not None and self.age >= self._waits + self.plan.ready_after

    @property
    def _waits(self) -> int:
        return self.plan.no_node + 2 * self.plan.failed_downloads

    @property
    def failure(self) -> str:
        """What Knative says of it. That no node took it is said until it is ready."""
        if self.is_ready:
            return ""
        if self.restarts:
            return "Container failed with: exit code 139"
        return NO_NODE if self.plan.no_node else ""

    def pod(self) -> Json:
        labels = {"serving.kserve.io/inferenceservice": NAME, "component": "predictor"}
        status = self._containers() if self.is_scheduled else {}
        conditions = [{"type": "Ready", "status": str(self.is_ready)}]
        scheduled = {"type": "PodScheduled", "status": str(self.is_scheduled)}
        waits = {} if self.is_scheduled else {"reason": "Unschedulable", "message": NO_NODE}
        return {
            "metadata": {
                "name": f"{self.name}-pod",
                "annotations": {SOURCE: self.uri},
                "labels": labels | {"serving.knative.dev/revision": self.name},
            },
            "status": {
                "phase": "Running" if self.is_loaded else "Pending",
                "conditions": [*conditions, scheduled | waits],
                **status,
            },
        }

    def _containers(self) -> Json:
        ended = {"reason": "Error", "exitCode": 1, "message": self.plan.load_error or "timed out"}
        last: Json = {"lastState": {"terminated": ended}} if self.downloads else {}
        now: Json = {"running": {}}
        if self.is_loaded:
            now = {"terminated": {"reason": "Completed", "exitCode": 0}}
        elif self.downloads > 1:
            now = {"waiting": {"reason": CRASHES}}
        elif (self.age - self.plan.no_node) % 2 == 0:
            now, last = {"terminated": ended}, {}
        first = {"name": "storage-initializer", "restartCount": self.downloads, "state": now, **last}
        crashed = {"terminated": {"reason": "Error", "exitCode": 139}}
        waiting = {"waiting": {"reason": CRASHES if self.restarts else "PodInitializing"}}
        second: Json = {"name": "kserve-container", "restartCount": self.restarts}
        second["state"] = {"running": {}} if self.is_loaded and (self.is_ready or not self.restarts) else waiting
        if self.restarts:
            second["lastState"] = crashed
        return {"initContainerStatuses": [first], "containerStatuses": [second]}
