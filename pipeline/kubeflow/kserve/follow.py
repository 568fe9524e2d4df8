"""Brings the InferenceService to the version that was pushed last, from the Pusher's pod or for a command.

settings = kserve_settings(config)                 # compiled for the Pusher's pod
follow(settings, "s3://bucket/root/taxi", store, ServiceClient.of_pod(...), "<run>/<task>")

A version that fails is noted as failed, the service is pointed back to what it served before, and the push is rolled
back, in this order. (Nothing is rolled back before the service has served a version: its own settings may be wrong.)
So the model in service, the newest version in `deploy.push` and the newest in `blessed.json` are
the same again. After a kill in between, the next run continues there, and does not try the version once more.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import inside
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.kserve import KServeConfig
from headrace.pipeline.kubeflow.kserve.rollout import Rollout, SupersededError, Target
from headrace.pipeline.kubeflow.kserve.service import WHERE, ServiceClient
from headrace.pipeline.kubeflow.kserve.shelf import Attempt, KServeShelf, State
from headrace.pipeline.kubeflow.model_changes import Place, roll_back_in
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_models import StoredHome
from headrace.pipeline.models.destination import Destination

logger = logging.getLogger(__name__)


def _log(line: str) -> None:
    logger.info(f"kserve: {line}")


def kserve_settings(config: PipelineConfig) -> Mapping[str, Any]:
    """What a rollout needs of the config, as it is compiled for the Pusher's pod; empty without `deploy.kserve`."""
    if config.deploy.kserve is None:
        return {}
    volume = config.kubeflow.volume if config.kubeflow.storage == "reference" else None
    return {
        "service": config.deploy.kserve.model_dump(mode="json"),
        "namespace": config.kubeflow.namespace,
        "push": config.push_directory,
        "keep": config.deploy.keep,
        "claim": volume.claim if volume else "",
        "mount": volume.path if volume else "",
    }


def follow_in_pod(given: Mapping[str, Any], home: str, store: Store, run: str) -> None:
    """Like `follow`, with the service account of this pod."""
    service = ServiceClient.of_pod(KServeConfig.model_validate(given["service"]), given["namespace"])
    _log(follow(given, home, store, service, run))


def check_as_user(config: PipelineConfig) -> None:
    """Raise RunError if the user's kubeconfig does not lead to the service, before anything is changed."""
    given = kserve_settings(config)
    ServiceClient.of_user(KServeConfig.model_validate(given["service"]), given["namespace"]).read()


def follow_as_user(config: PipelineConfig, home: str, store: Store, say: Callable[[str], None]) -> str:
    """Like `follow`, with the user's kubeconfig."""
    given = kserve_settings(config)
    service = ServiceClient.of_user(KServeConfig.model_validate(given["service"]), given["namespace"])
    return follow(given, home, store, service, "", say)


def follow(
    given: Mapping[str, Any],
    home: str,
    store: Store,
    service: ServiceClient,
    run: str,
    say: Callable[[str], None] = _log,
    rollout: Callable[..., Rollout] = Rollout,
) -> str:
    """Serve the newest version of `deploy.push`; returns what the service does then, in words.

    Args:
        given: what `kserve_settings` returned.
        home: URI of the pipeline's folder.
        store: where that is.
        service: the InferenceService.
        run: `<run>/<task>`, whose failed rollout stays a failure if the task is tried again; "" for a command.
        say: gets one line for each stage.
        rollout: makes the rollout, so that a caller may give it a clock of its own.

    Raises RunError if the version failed, if the service cannot be changed, or if a record is damaged.
    """
    shelf = KServeShelf(home, store, given["claim"], given["mount"])
    place = Place(home, given["push"], given["keep"], given["mount"])
    settings = KServeConfig.model_validate(given["service"])
    return _Follow(settings, place, store, service, shelf, run, say, rollout).bring()


@dataclass(frozen=True)
class _Follow:
    settings: KServeConfig
    place: Place
    store: Store
    service: ServiceClient
    shelf: KServeShelf
    run: str
    say: Callable[[str], None]
    rollout: Callable[..., Rollout]

    def bring(self) -> str:
        for one in self.shelf.attempts.values():
            if self.run and one.run == self.run and one.state == "failed" and one.service == self._name:
                raise RunError(self._failure(one))
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            there = StoredHome(self.place.uri, self.place.push, self.store, Path(folder)).destination
            wanted = self._wanted(there) if there else None
        if wanted is None:
            return f"{self.place.push} has no version of this pipeline, so {self.service} is left as it is"
        return self._serve(wanted)

    def _wanted(self, there: Destination) -> Attempt | None:
        """The newest version; None if there is none, another program put it there, or its model was withdrawn.

        If it was withdrawn because it failed here, the rollback of its push was stopped half way, and is completed.
        """
        version = str(max(there.versions, default=""))
        uri = there.model_of(version) if version else None
        entry = there.registry.find(uri) if uri else None
        is_withdrawn = entry is not None and entry.withdrawn_at is not None
        if uri is None or (is_withdrawn and not self._has_failed(version)):
            return None
        last = there.record.last.get(str(there.path))
        contents = last.contents if last and last.version == version else None
        return Attempt(
            service=self._name,
            version=version,
            model=inside(there.record_file.parent, uri),
            contents=contents or "",
            uri=self.shelf.uri_of(version),
            run=self.run,
            state="trying",
            at=_now(),
        )

    def _has_failed(self, version: str) -> bool:
        known = self.shelf.attempts.get(version)
        return known is not None and known.state == "failed" and known.service == self._name

    def _serve(self, wanted: Attempt) -> str:
        served, known = self.shelf.in_service(self._name), self.shelf.attempts.get(wanted.version)
        seen = self.service.read()
        is_same = served and served.model == wanted.model and wanted.contents in ("", served.contents)
        if served and is_same and seen.now.uri == served.uri and seen.canary is None:
            return f"{self.service} serves version {served.version} already, which has the model"
        rollout = self.rollout(self.service, self.settings, self._target(wanted), self._is_good, say=self.say)
        if served and known is not None and self._has_failed(wanted.version):
            self._undo(rollout, known)
        try:
            rollout.check(seen)
            pushed = f"{self.place.uri}/{self.place.push}/{wanted.version}"
            contents = self.shelf.stage(pushed, wanted.version, wanted.contents or None)
            wanted = replace(wanted, contents=contents)
            if known is None or known.state != "trying":
                self.shelf.note(wanted)
            why = rollout.try_out()
        except SupersededError as error:
            self._note(wanted, "superseded", str(error))
            return f"version {wanted.version} is left: {error}"
        if why is not None:
            self._undo(rollout, self._note(wanted, "failed", why))
        self._note(wanted, "in_service")
        self._clean(wanted)
        return f"{self.service} serves version {wanted.version}"

    def _undo(self, rollout: Rollout, failed: Attempt) -> None:
        """Take a failed version back, and its push. Raises RunError, which says what became of both."""
        try:
            where = rollout.take_back(failed.why)
        except SupersededError as error:
            where = str(error)
        raise RunError(f"{self._failure(failed)}; {where}.\n  {self._rolled_back(failed)}")

    def _rolled_back(self, failed: Attempt) -> str:
        served = self.shelf.in_service(self._name)
        if served is None:
            what = "Its push stays, as the service has not served a version yet, so the cause may be its own"
            return f"{what}. Correct it; the next run, promotion or rollback tries again."
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            there = StoredHome(self.place.uri, self.place.push, self.store, Path(folder)).destination
            newest = str(max(there.versions, default="")) if there else ""
        if newest != failed.version:
            return f"Version {newest} is in {self.place.push} by now."
        try:
            done = roll_back_in(self.place, self.store, served.version, datetime.now(UTC))
        except RunError as error:
            return f"Its push stays, as it cannot be rolled back: {error}"
        version = done.version.rpartition("/")[2]
        return f"Its push was rolled back as well: version {version} of {self.place.push} has the model before it."

    def _clean(self, served: Attempt) -> None:
        """Remove the copies of versions that `deploy.keep` removed, unless the service may go back to them."""
        previous = self.service.read().previous
        kept = {*self.store.children(f"{self.place.uri}/{self.place.push}"), served.version}
        self.shelf.remove_all_but(kept | ({previous.version} if previous else set()))

    def _target(self, wanted: Attempt) -> Target:
        return Target(wanted.uri, wanted.version, wanted.run or "a command", self.place.uri)

    def _is_good(self, uri: str) -> bool:
        """Whether a URI came into service; one that is not ours did."""
        found = [one for one in self.shelf.attempts.values() if one.uri == uri and one.service == self._name]
        return not found or any(one.state == "in_service" for one in found)

    def _note(self, attempt: Attempt, state: State, why: str = "") -> Attempt:
        noted = replace(attempt, state=state, why=why, at=_now())
        self.shelf.note(noted)
        return noted

    def _failure(self, one: Attempt) -> str:
        return f"{WHERE}: version {one.version} failed on {self.service}: {one.why}"

    @property
    def _name(self) -> str:
        return f"{self.service.namespace}/{self.service.name}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
