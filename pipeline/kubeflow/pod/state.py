"""The state of a pipeline between runs, for the components that use it: `blessed.json`, `trained.json`, pushed models,
checkpoints and cached spans.

With `kubeflow.storage: staged` this state is in the object store, while components work on paths. So before such a
component runs, the pod fetches the files that it reads (of pushed models, those of the newest version), and creates an
empty folder for each blessed model, whose files are fetched when the component asks for them
(`headrace.components.stored_models.shared_models`). Afterwards, what the component wrote is copied back. On a shared
volume nothing needs to be copied.

Data from the store contains paths. One that leads out of the pipeline's folder is an error, because the pod would
otherwise read or write wherever it points.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from headrace.common.errors import RunError
from headrace.components.deploy.lite_files import LITE
from headrace.components.spans.shared_spans import sharing
from headrace.components.stored_models import shared_models
from headrace.components.stored_models.blessed_record import PUSHING, Registry
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.kubeflow.pod import lite_files
from headrace.pipeline.kubeflow.pod.checkpoints import mirrored
from headrace.pipeline.kubeflow.pod.invocation import state_paths
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import BLESSINGS, PUSHES, TRAININGS
from headrace.pipeline.kubeflow.pod.spans import SpanObjects
from headrace.pipeline.kubeflow.pod.version_claims import claimed, claimed_numbers
from headrace.pipeline.kubeflow.store import Store, StoredObject
from headrace.trainer.weights.sidecar import TrainingOrigin

GRAPH = "saved_model.pb"
"""A server takes a folder without this file for no model, so it is the last file of a version to be written, and the
first to be removed."""
GRACE = 86_400.0
"""Seconds after which an incomplete upload of a version counts as abandoned and is removed."""
ORIGIN = f"Format-Serving/{TrainingOrigin.FILE}"
"""The file of a model that WarmStart reads."""


class _Context(NamedTuple):
    """user: `<run>/<task>`; compares: whether the component compares data with that of a blessed model; pushes: whether
    it pushes one that it was given, so that of the others it needs the entries alone.
    """

    paths: PodPaths
    store: Store
    user: str
    compares: bool
    pushes: bool


@contextlib.contextmanager
def present(properties: Mapping[str, Any], paths: PodPaths, store: Store, user: str = "") -> Iterator[None]:
    """Fetch the state that the properties name; if the block succeeds, copy what changed back. user: `<run>/<task>`.

    Pushes of an earlier block in this pod that did not reach the store are forgotten.
    """
    state, context = (
        state_paths(properties),
        _Context(paths, store, user, compares=_compares(properties), pushes="destination" in properties),
    )
    copied: tuple[tuple[Path | None, Callable[[Path, str, _Context], contextlib.AbstractContextManager[None]]], ...] = (
        (state.registry, _registry),
        (state.trained, _trained),
        (state.push_record, _push_record),  # before the next, so that it is copied back after it: a push, then its note
        (state.pushed and state.pushed / LITE, _lite_files),  # also after the version, and before its note
        (state.pushed, _pushed),
        (state.checkpoints, _checkpoints),
        (state.spans, _spans),
        (state.predictions, _predictions),
    )
    here = [
        (path, uri, copy)
        for path, copy in copied
        if path is not None and not paths.mount and (uri := paths.remote(path)) is not None
    ]
    if state.pushed is not None and state.pushed.is_dir() and any(path == state.pushed for path, _, _ in here):
        shutil.rmtree(state.pushed)
    with contextlib.ExitStack() as stack:
        for path, uri, copy in here:
            stack.enter_context(copy(path, uri, context))
        yield


def _compares(properties: Mapping[str, Any]) -> bool:
    """Whether they are those of Drift or DataVerdict, unlike those of RecordBlessing, which has columns too."""
    return "columns" in properties and not {"trained", "gates"}.isdisjoint(properties)


@contextlib.contextmanager
def _registry(path: Path, uri: str, context: _Context) -> Iterator[None]:
    known, found = BLESSINGS.fetch(uri, path, context.store), Registry.read(path)
    paths = ((entry.uri, entry.compared_with, entry.statistics, entry.lite) for entry in found.models)
    _check_inside(uri, path.parent, (one for each in paths for one in each))
    local = found.newest.statistics if context.compares and found.newest is not None else None
    if local is not None and (remote := context.paths.remote(local)):
        context.store.get_all(remote, Path(local))
    for entry in () if context.pushes else found.models:
        model = context.paths.remote(entry.uri)
        if model is not None and context.store.exists(model):
            Path(entry.uri).mkdir(parents=True, exist_ok=True)
            context.store.get(f"{model}/{ORIGIN}", Path(entry.uri, ORIGIN))
    with shared_models.sharing(_StoredModels(path.parent, context)):
        yield
    BLESSINGS.publish(uri, path, context.store, known)


class _StoredModels:
    """The `headrace.components.stored_models.shared_models.SharedModels` of a pod."""

    def __init__(self, home: Path, context: _Context) -> None:
        self._home, self._context = home, context

    def fetch(self, folder: Path) -> None:
        if uri := self._uri(folder):
            self._context.store.get_all(uri, folder)

    def fetch_file(self, file: Path) -> None:
        if uri := self._uri(file):
            self._context.store.get(uri, file)

    def publish(self, folder: Path, names: Iterable[str]) -> None:
        if uri := self._uri(folder):
            for name in names:
                self._context.store.put(folder / name, f"{uri}/{name}")

    def _uri(self, folder: Path) -> str | None:
        """None for a folder on a volume, and for one outside the pipeline's folder."""
        inside = Path(os.path.normpath(folder)).is_relative_to(self._home)
        return self._context.paths.remote(folder) if inside else None


@contextlib.contextmanager
def _trained(path: Path, uri: str, context: _Context) -> Iterator[None]:
    """`trained.json`, and for a component that compares, the statistics that it names."""
    known, found = TRAININGS.fetch(uri, path, context.store), TrainingRecord.read(path)
    data = (found.judged, found.blessed, found.newest)
    _check_inside(uri, path.parent, (one.statistics for one in data if one is not None))
    if found.blessed is not None and context.compares:
        statistics = context.paths.remote(found.blessed.statistics)
        if statistics:
            context.store.get_all(statistics, Path(found.blessed.statistics))
    yield
    TRAININGS.publish(uri, path, context.store, known, datetime.now(UTC))


@contextlib.contextmanager
def _push_record(path: Path, uri: str, context: _Context) -> Iterator[None]:
    known = PUSHES.fetch(uri, path, context.store)
    yield
    PUSHES.publish(uri, path, context.store, known, datetime.now(UTC))


@contextlib.contextmanager
def _pushed(folder: Path, uri: str, context: _Context) -> Iterator[None]:
    store, now = context.store, datetime.now(UTC).timestamp()
    files: dict[str, dict[str, StoredObject]] = defaultdict(dict)
    for object_name, found in store.listing(uri).items():
        name, _, inside = object_name.partition("/")
        files[name][inside] = found
    files.pop(LITE, None)
    incomplete = {name for name, those in files.items() if name.isdecimal() and GRAPH not in those}
    versions = sorted(files.keys() - incomplete)
    for name in versions:
        (folder / name).mkdir(parents=True, exist_ok=True)
    taken = map(str, claimed_numbers(uri, store, now - GRACE))
    for name in {*incomplete, *taken}:  # by an outage, or a run that pushes now: their numbers are taken
        (folder / f"{PUSHING}{name}").mkdir(parents=True, exist_ok=True)
    if newest := max((name for name in versions if name.isdecimal()), key=int, default=None):
        store.get_all(f"{uri}/{newest}", folder / newest)
    yield
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in versions and path.name != LITE and not path.name.startswith(PUSHING):
            with claimed(uri, path.name, store):
                store.put_all(path, f"{uri}/{path.name}", last=GRAPH)
    abandoned = {name for name in incomplete if max(one.written for one in files[name].values()) < now - GRACE}
    retired = {name for name in versions if name.isdecimal() and not (folder / name).exists()}  # by `deploy.keep`
    for name in sorted(retired | abandoned):
        for inside in sorted(store.files(f"{uri}/{name}"), key=GRAPH.__ne__):
            store.remove(f"{uri}/{name}/{inside}")
        store.remove_if_empty(f"{uri}/{name}")


def _lite_files(folder: Path, uri: str, context: _Context) -> contextlib.AbstractContextManager[None]:
    return lite_files.mirrored(folder, uri, context.store)


@contextlib.contextmanager
def _predictions(path: Path, uri: str, context: _Context) -> Iterator[None]:
    """The file of predictions. The component completes its path, asks for the file, and publishes it. The path is the
    config's and not one from the store, so it may be anywhere.
    """
    del path, uri
    with shared_models.sharing(_StoredModels(Path("/"), context)):
        yield


def _checkpoints(folder: Path, uri: str, context: _Context) -> contextlib.AbstractContextManager[None]:
    return mirrored(folder, uri, context.store)


@contextlib.contextmanager
def _spans(folder: Path, uri: str, context: _Context) -> Iterator[None]:
    """The cached spans, which the component asks for by key."""
    with SpanObjects(folder, uri, context.store, context.user).open() as objects, sharing(objects):
        yield


def _check_inside(uri: str, home: Path, paths: Iterable[str | None]) -> None:
    """Raise RunError for a path that leads out of the pipeline's folder. uri: the object that contains the paths."""
    for path in paths:
        if path is not None and not Path(os.path.normpath(path)).is_relative_to(home):
            raise RunError(
                f"{uri}, or a record next to it, names {path}, which is not below {home}.\n"
                "  No run writes such a path: find out who did, and remove the entry."
            )
