"""Points an InferenceService to a version, watches that, and promotes it or takes it back.

rollout = Rollout(service, settings, target)
why = rollout.try_out()               # None: the version has all requests. Otherwise why it failed
rollout.take_back(why)                # in words, where the service is now

Whatever was begun is seen in the service itself, so after a kill the same calls continue: a version that is pointed to
is not pointed to again. Only one of two that begin at once succeeds (`resourceVersion`); a run whose version was
replaced by a newer one stops (Superseded).

In serverless mode `canaryTrafficPercent: 0` keeps all requests at the last version that had them, while a revision for
that version's URI is made again. Without it they would go to the failed revision until then, if that was ever ready.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.common.errors import RunError
from headrace.configs.schema.kserve import KServeConfig
from headrace.configs.schema.section import to_seconds
from headrace.pipeline.kubeflow.kserve.observed import (
    BEFORE,
    PIPELINE,
    PREVIOUS,
    RUN,
    VERSION,
    Observed,
    Served,
    all_serve,
    crash_of,
    is_starting,
    waits_for_node,
)
from headrace.pipeline.kubeflow.kserve.service import WHERE, ServiceClient

logger = logging.getLogger(__name__)

POLL_SECONDS, LOOKS = 5.0, 5
"""Seconds between two looks at the service, unless so many looks take longer than `observe`."""
UNREADY_POLLS = 3
"""Looks in a row at a version that is not ready any more, after which it counts as failed."""
ATTEMPTS = 100
"""Changes in a row that may be refused because the service changed meanwhile; KServe notes its state there, too."""


class SupersededError(RunError):
    """Somebody pointed the service elsewhere during a rollout."""


@dataclass(frozen=True)
class Target:
    """The version to serve. pipeline: URI of the folder of the pipeline, which the service is of from then on."""

    uri: str
    version: str
    run: str
    pipeline: str

    @property
    def served(self) -> Served:
        return Served(self.uri, self.version, self.run)


@dataclass
class Rollout:
    """The way of one version into service.

    Attributes:
        service: The InferenceService.
        settings: `deploy.kserve`.
        target: The version.
        is_good: Whether a URI that the service is pointed to has been in service, so that it can be gone back to.
        clock, sleep: In seconds.
        say: Gets one line for each stage.
    """

    service: ServiceClient
    settings: KServeConfig
    target: Target
    is_good: Callable[[str], bool] = lambda _: True
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = logger.info
    _before: Mapping[str, int] = field(default_factory=dict)
    """By pod, the restarts from before this rollout, of a version that has all requests already."""
    _rest: str = ""
    """The revision that had all requests before, and has the rest of them beside a canary."""

    def check(self, seen: Observed) -> None:
        """Raise RunError if the service cannot be pointed to the version, SupersededError if it is at a newer one."""
        percent = self.settings.canary_percent
        if seen.problem:
            raise RunError(f"{WHERE}: {self.service} cannot be changed: {seen.problem}")
        if seen.pipeline not in ("", self.target.pipeline):
            what = f"{self.service} serves the models of {seen.pipeline}, not those of {self.target.pipeline}"
            raise RunError(f"{WHERE}.name: {what}.\n  Name another one; or remove its annotation {PIPELINE}.")
        if seen.mode is None:
            what = f"{self.service} does not say how KServe deploys it"
            raise RunError(f"{WHERE}: {what}; set its annotation serving.kserve.io/deploymentMode.")
        if percent is not None and seen.mode == "raw":
            what = f"{self.service} is in RawDeployment (Standard) mode, in which KServe does not split the traffic"
            raise RunError(
                f"{WHERE}.canary_percent: {what}.\n  Set it to null: pods are then replaced one after the other. Or"
                " deploy the service in serverless (Knative) mode."
            )
        if seen.now.version.isdecimal() and int(seen.now.version) > int(self.target.version):
            raise SupersededError(f"{self.service} is at the newer version {seen.now.version}")

    def try_out(self) -> str | None:
        """Point the service to the version, wait until it is ready, watch it, and let it have all requests.

        Returns why the version failed; None if it is in service. Raises RunError if the service cannot be changed or
        looked at, SupersededError if it was pointed elsewhere.
        """
        self._begin()
        if (why := self._until_ready(self.target.uri)) or (why := self._observed()):
            return why
        return self._promoted()

    def take_back(self, why: str) -> str:
        """Point the service to what it served before, unless that was done. Returns where the service is, in words."""
        seen = self.service.read()
        if seen.now.uri == self.target.uri:
            if seen.previous is None:
                return "there is no earlier version to go back to, so the service stays as it is"
            self.say(f"{why}; going back to {seen.previous.uri}")
            seen = self._changed(_back, lambda found: found.now.uri == self.target.uri)
        back = seen.now.uri
        problem = self._until_ready(back)
        if problem and seen.canary == 0:
            return f"all requests still go to revision {seen.rolled_out}; its successor for {back} failed: {problem}"
        if problem:
            return f"it was pointed back to {back}, which is not ready: {problem}"
        self._changed(_everything, lambda found: found.now.uri == back and found.canary == 0)
        return f"it serves {back} again"

    def _begin(self) -> None:
        seen = self.service.read()
        if seen.now.uri == self.target.uri and seen.canary is None:
            self._before = {pod.name: pod.restarts for pod in self.service.pods()}
        seen = self._changed(self.pointing, lambda found: found.now.uri != self.target.uri, check=True)
        share = f", {seen.canary}% of the requests" if seen.canary is not None else ""
        self.say(f"{self.service} is at version {self.target.version}{share}: waiting until it is ready")

    def pointing(self, seen: Observed) -> dict[str, Any]:
        """The patch that points the service to the version."""
        good = seen.previous if seen.previous and not self.is_good(seen.now.uri) else seen.now
        notes = {
            PIPELINE: self.target.pipeline,
            PREVIOUS: good.to_json() if good.uri else None,
            BEFORE: seen.created or None,
        }
        percent = self.settings.canary_percent if seen.mode == "serverless" and seen.rolled_out else None
        self._rest = seen.rolled_out if percent is not None else ""
        return _pointing(self.target.served, percent, notes)

    def _until_ready(self, uri: str) -> str | None:
        """Why the service did not become ready with what it is pointed to; None if it did."""
        end = self.clock() + to_seconds(self.settings.ready)
        while True:
            seen = self._still(uri)
            if uri == self.target.uri:
                self._report_rest(seen)
            pods = self.service.pods()
            if (why := seen.revision_failure()) and not is_starting(pods, seen.created):
                return why
            if uri == self.target.uri and (why := crash_of(pods, uri, self._before)):
                return why
            is_ready = seen.is_new and seen.created == seen.ready_revision if seen.mode == "serverless" else False
            if seen.is_ready and (is_ready or (seen.mode == "raw" and all_serve(pods, uri))):
                return None
            if self.clock() >= end:
                return f"it was not ready after {self.settings.ready} ({waits_for_node(pods, uri) or seen.unmet})"
            self.sleep(self._pause)

    def _report_rest(self, seen: Observed) -> None:
        """Say once if KServe sends the rest of the requests to an earlier revision than the one that had them all.

        It does so if it sees Knative's new shares before the new revision: it takes that for a rollback.
        """
        if self._rest and seen.canary is not None and seen.rolled_out not in (self._rest, seen.created):
            share = f"{100 - seen.canary}% of the requests to revision {seen.rolled_out}"
            self.say(f"until the version has them all, KServe sends {share}, which served before {self._rest}")
            self._rest = ""

    def _observed(self) -> str | None:
        """Why the version failed while it was watched; None if it did not."""
        self.say(f"version {self.target.version} is ready; watching it for {self.settings.observe}")
        end, unready = self.clock() + to_seconds(self.settings.observe), 0
        while True:
            seen = self._still(self.target.uri)
            if why := crash_of(self.service.pods(), self.target.uri, self._before):
                return why
            unready = unready + 1 if seen.conditions.get("Ready", ("", ""))[0] == "False" else 0
            if unready == UNREADY_POLLS:
                return f"it was ready, and then no longer ({seen.unmet})"
            if self.clock() >= end:
                return None
            self.sleep(self._pause)

    def _promoted(self) -> str | None:
        """Let the version have all requests. Returns why it does not get them."""
        uri = self.target.uri
        self._changed(_everything, lambda found: found.now.uri == uri and found.canary is not None)
        seen = self._still(uri)
        end = self.clock() + to_seconds(self.settings.ready)
        while seen.mode == "serverless" and not seen.is_settled:
            if self.clock() >= end:
                return f"it was ready, but did not get all requests within {self.settings.ready} ({seen.unmet})"
            self.sleep(self._pause)
            seen = self._still(uri)
        return None

    @property
    def _pause(self) -> float:
        return min(POLL_SECONDS, to_seconds(self.settings.observe) / LOOKS)

    def _still(self, uri: str) -> Observed:
        seen = self.service.read()
        if seen.now.uri != uri:
            raise SupersededError(f"{self.service} was pointed to {seen.now.uri} meanwhile")
        return seen

    def _changed(
        self,
        patch: Callable[[Observed], dict[str, Any]],
        needed: Callable[[Observed], bool],
        *,
        check: bool = False,
    ) -> Observed:
        """The service after a change, or as it is if none is needed. check: whether it has to take the version."""
        for _ in range(ATTEMPTS):
            seen = self.service.read()
            if check:
                self.check(seen)
            if not needed(seen):
                return seen
            if not self.service.change(patch(seen), seen):
                self.sleep(0.1)
        raise RunError(f"{WHERE}: {self.service} changed {ATTEMPTS} times while it was to be changed; run again")


def _pointing(to: Served, percent: int | None, notes: Mapping[str, str | None]) -> dict[str, Any]:
    """The patch that points the service to a URI. None removes a field."""
    own = {VERSION: to.version or None, RUN: to.run or None}
    predictor = {"canaryTrafficPercent": percent, "model": {"storageUri": to.uri}}
    return {"metadata": {"annotations": {**own, **notes}}, "spec": {"predictor": predictor}}


def _back(seen: Observed) -> dict[str, Any]:
    """The patch that points it to what it served before. The failed revision gets no request, unless it had all."""
    assert seen.previous is not None  # noqa: S101 - `take_back` has looked
    held = seen.mode == "serverless" and seen.rolled_out not in ("", seen.created)
    return _pointing(seen.previous, 0 if held else None, {PREVIOUS: None, BEFORE: seen.created or None})


def _everything(_: Observed) -> dict[str, Any]:
    """The patch after which the latest revision gets all requests."""
    return {"spec": {"predictor": {"canaryTrafficPercent": None}}}
