"""Change which model of a pipeline on Kubeflow is in service: a rollback or a promotion, in the object store.

done = roll_back(config, open_results(config), None, datetime.now(UTC))
done.version, done.model                 # URIs

This does what a pod does: the state of the pipeline is fetched into a folder that stands for the pod's, changed there
by the same code as on this machine, and copied back (`pod/state.py`). First come the records of blessings, which each
run's Baseline, WarmStart and RecordBlessing read, then the version, then `pushed.json`. On a mounted volume all of it
is changed in place.

Pods have no lock in common, so a run in progress is not noticed.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from headrace.common.errors import RunError
from headrace.common.storage.paths import is_remote
from headrace.components.stored_models import shared_models
from headrace.components.stored_models.blessed_record import Registry
from headrace.components.stored_models.blessing import changing
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.results_store import home_uri
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_card import write_stored_card
from headrace.pipeline.kubeflow.stored_models import StoredHome
from headrace.pipeline.models.destination import Destination, ModelChange, required_push_directory
from headrace.pipeline.models.promotion import PromotableModels
from headrace.pipeline.models.rollback import newly_withdrawn, rolled_back


@dataclass(frozen=True)
class Place:
    """Where a pipeline's models are.

    Attributes:
        uri: URI of the pipeline's folder.
        push: `deploy.push`, relative to it.
        keep: `deploy.keep`.
        mount: Path of the shared volume that has the folder; "" for an object store.
    """

    uri: str
    push: str
    keep: int | None = None
    mount: str = ""

    @classmethod
    def of(cls, config: PipelineConfig) -> Self:
        """Raises RunError if `deploy.push` is null."""
        volume = config.kubeflow.volume if config.kubeflow.storage == "reference" else None
        push = required_push_directory(config)
        return cls(home_uri(config), push, config.deploy.keep, volume.path if volume else "")


def roll_back(config: PipelineConfig, store: Store, to: str | None, now: datetime) -> ModelChange:
    """Put an earlier blessed model back into service, as `headrace.pipeline.models.rollback` does on this machine.

    Raises RunError, before anything is changed, if there is no such model, it is not blessed, or its files are gone or
    damaged; OSError if the store fails.
    """
    return roll_back_in(Place.of(config), store, to, now)


def roll_back_in(place: Place, store: Store, to: str | None, now: datetime) -> ModelChange:
    """Like `roll_back`, from what a pod knows of the config."""
    with _home(place, store) as home:
        done = home.changed(lambda there, _: rolled_back(there, to, now))
    _write_card(place, store, done)
    return done


def promote(
    config: PipelineConfig, store: Store, wanted: str | None, now: datetime, *, allow_older: bool = False
) -> ModelChange:
    """Push a blessed model that awaits approval, as `headrace.pipeline.models.promotion` does on this machine.

    wanted: id of the run that trained it, or a version of it; by default the newest that awaits approval.

    Raises RunError, before anything is changed, if the model cannot be promoted; OSError if the store fails.
    """

    def promoted(there: Destination, stored: StoredHome) -> Registry:
        found = stored.models(manual=True)
        known = [stored.judged(model) if model.run == wanted else model for model in found]
        models = [replace(model, path=home.path / model.path) for model in known]
        trained: dict[str, Path | None] = {model.run: model.path for model in models if model.run}
        return PromotableModels(there, models, trained, "--kubeflow").promoted(wanted, now, allow_older=allow_older)

    place = Place.of(config)
    with _home(place, store) as home:
        done = home.changed(promoted)
    _write_card(place, store, done)
    return done


def _write_card(place: Place, store: Store, done: ModelChange) -> None:
    model, version = done.model.removeprefix(f"{place.uri}/"), done.version.rpartition("/")[2]
    write_stored_card(place.uri, place.push, store, model, version)


@dataclass(frozen=True)
class _Home:
    """The pipeline's folder, at a path that stands for that of a pod."""

    place: Place
    paths: PodPaths
    store: Store
    stored: StoredHome

    @property
    def uri(self) -> str:
        return self.place.uri

    @property
    def path(self) -> Path:
        return self.paths.local(self.uri)

    def changed(self, change: Callable[[Destination, StoredHome], Registry]) -> ModelChange:
        """Change the list of blessed models, and push the model that is then the last.

        After a failure in between, the same command or the next run completes it, as on this machine.
        """
        if not self.stored.registry.models:
            raise RunError(f"no model in {self.uri} has been blessed yet")
        self.path.mkdir(parents=True, exist_ok=True)
        registry = self.path / "blessed.json"
        with self._present("registry", "push_record"), changing(registry):
            there = self._destination()
            listed = change(there, self.stored)
            newest = listed.models[-1]
            if not newest.contents:  # else it has been fetched, to compare its checksum
                shared_models.fetch(Path(newest.uri))
            if newest.lite is not None:
                shared_models.fetch(Path(newest.lite))
            listed.write(registry)
        with self._present("push_record", "destination"):
            version = self._destination().push(listed.models[-1], self.place.keep)
        model = self._uri(listed.models[-1].uri)
        withdrawn = tuple(map(self._uri, newly_withdrawn(there.registry, listed)))
        return ModelChange(self._uri(version), model, model.removeprefix(f"{self.uri}/").partition("/")[0], withdrawn)

    def _present(self, *names: str) -> contextlib.AbstractContextManager[None]:
        """The state that a component with these properties would find. See `pod/state.py`."""
        files = {"registry": "blessed.json", "push_record": "pushed.json", "destination": self._push}
        return present({name: str(self.path / files[name]) for name in names}, self.paths, self.store)

    def _destination(self) -> Destination:
        path, record = self.path / self._push, self.path / "pushed.json"
        found = self.stored.destination
        versions = {number: path / str(number) for number in (found.versions if found else ())}
        return Destination(path, versions, Registry.read(self.path / "blessed.json"), PushRecord.read(record), record)

    @property
    def _push(self) -> str:
        return self.place.push

    def _uri(self, path: str | Path) -> str:
        return self.paths.remote(path) or str(path)


@contextlib.contextmanager
def _home(place: Place, store: Store) -> Iterator[_Home]:
    """The pipeline's folder. Messages name URIs in place of paths."""
    if is_remote(place.push):
        raise RunError(
            f"deploy.push: {place.push} is for runs on this machine; on Kubeflow it is a path below the pipeline's own"
            " folder, which the profile for Kubeflow sets"
        )
    if Path(place.push).is_absolute():
        raise RunError(
            f"deploy.push: {place.push} is on a volume of the Pusher's pod, which this command does not reach; use a"
            " folder below the pipeline's own, without a leading slash"
        )
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        read = Path(folder, "read")
        read.mkdir()
        paths = PodPaths(mount=place.mount) if place.mount else PodPaths(f"{folder}/pod")
        home = _Home(place, paths, store, StoredHome(place.uri, place.push, store, read))
        try:
            yield home
        except RunError as error:
            raise RunError(str(error).replace(str(home.path), place.uri)) from None
