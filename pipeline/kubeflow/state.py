"""What a pipeline keeps between runs, for the components that look at it: `blessed.json`, pushed models, checkpoints,
what models learned from, and what was made of spans.

With staged artifacts these lie in the object store, and components work on paths. So before such a component runs, the
pod gets the files it reads (of pushed models, the newest's), and an empty folder for each blessed model, whose files
come when the component asks for them (`headrace.components.shared_models`); afterwards, what the component wrote is
copied back. On a shared volume all of it is there already.

What comes from the store names paths. One that leads out of the pipeline's folder is refused: the pod would look, or
write, where nobody meant it to.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from headrace.components import shared_models
from headrace.components.example_gen.shared_spans import sharing
from headrace.components.pushed import Pushed
from headrace.components.trigger.trained import Trained
from headrace.configs.errors import RunError
from headrace.pipeline.kubeflow import blessings, trainings
from headrace.pipeline.kubeflow.checkpoints import mirrored
from headrace.pipeline.kubeflow.kept import kept
from headrace.pipeline.kubeflow.places import Places
from headrace.pipeline.kubeflow.span_objects import SpanObjects
from headrace.pipeline.kubeflow.store import Found, Store
from headrace.trainer.weights.origin import Origin

GRAPH = "saved_model.pb"
"""Without it a folder is no model to a server: so it is the last file of a version to come, and the first to go."""
GRACE = 86_400.0
"""Seconds after which an upload of a version that has not ended is one that was broken off, and is cleared away."""
ORIGIN = f"Format-Serving/{Origin.FILE}"
"""In a model: what the component that looks for a model to begin with reads of it."""


class _Pod(NamedTuple):
    """store: with what is kept between runs; user: `<run>/<task>`; compares: whether the component looks for drift."""

    places: Places
    store: Store
    user: str
    compares: bool


@contextlib.contextmanager
def present(properties: Mapping[str, Any], places: Places, store: Store, user: str = "") -> Iterator[None]:
    """Have what the properties name in the pod, and put back what changed if all went well. `user`: `<run>/<task>`."""
    named, pod = kept(properties), _Pod(places, store, user, compares="columns" in properties)
    copied: tuple[tuple[Path | None, Callable[[Path, str, _Pod], contextlib.AbstractContextManager[None]]], ...] = (
        (named.registry, _registry),
        (named.trained, _trained),
        (named.push_record, _push_record),  # before the next, so that it goes back after it: pushed first, then noted
        (named.pushed, _pushed),
        (named.checkpoints, _checkpoints),
        (named.spans, _spans),
    )
    with contextlib.ExitStack() as stack:
        for path, copy in copied:
            uri = None if path is None or places.mount else places.remote(path)
            if path is not None and uri is not None:
                stack.enter_context(copy(path, uri, pod))
        yield


@contextlib.contextmanager
def _registry(path: Path, uri: str, pod: _Pod) -> Iterator[None]:
    known = blessings.fetch(uri, path, pod.store)
    _check_inside(uri, path.parent, (one for entry in known.models for one in (entry.uri, entry.compared_with)))
    for entry in known.models:
        model = pod.places.remote(entry.uri)
        if model is not None and pod.store.exists(model):
            Path(entry.uri).mkdir(parents=True, exist_ok=True)
            pod.store.get(f"{model}/{ORIGIN}", Path(entry.uri, ORIGIN))
    with shared_models.sharing(_Models(path.parent, pod)):
        yield
    blessings.publish(uri, path, pod.store, known)


class _Models:
    """The folders of models, as a component that asks for one by its path gets them from the object store."""

    def __init__(self, home: Path, pod: _Pod) -> None:
        self._home, self._pod = home, pod

    def fetch(self, folder: Path) -> None:
        if uri := self._uri(folder):
            self._pod.store.get_all(uri, folder)

    def publish(self, folder: Path, names: Iterable[str]) -> None:
        if uri := self._uri(folder):
            for name in names:
                self._pod.store.put(folder / name, f"{uri}/{name}")

    def _uri(self, folder: Path) -> str | None:
        """None for a folder of a volume, and for one that is not the pipeline's."""
        inside = Path(os.path.normpath(folder)).is_relative_to(self._home)
        return self._pod.places.remote(folder) if inside else None


def _checkpoints(folder: Path, uri: str, pod: _Pod) -> contextlib.AbstractContextManager[None]:
    return mirrored(folder, uri, pod.store)


@contextlib.contextmanager
def _trained(path: Path, uri: str, pod: _Pod) -> Iterator[None]:
    """`trained.json`; with the statistics that it names, for a component that compares."""
    known = trainings.fetch(uri, path, pod.store)
    found = Trained.read(path)
    named = (found.judged, found.blessed, found.newest)
    _check_inside(uri, path.parent, (data.statistics for data in named if data is not None))
    if found.blessed is not None and pod.compares and (statistics := pod.places.remote(found.blessed.statistics)):
        pod.store.get_all(statistics, Path(found.blessed.statistics))
    yield
    trainings.publish(uri, path, pod.store, known, datetime.now(UTC))


@contextlib.contextmanager
def _push_record(path: Path, uri: str, pod: _Pod) -> Iterator[None]:
    """`pushed.json`, checked here so that an error names the object."""
    pod.store.get(uri, path)
    try:
        Pushed.read(path)
    except RunError as error:
        raise RunError(str(error).replace(str(path), uri)) from None
    before = path.read_bytes() if path.exists() else None
    yield
    if path.exists() and path.read_bytes() != before:
        pod.store.put(path, uri)


@contextlib.contextmanager
def _pushed(folder: Path, uri: str, pod: _Pod) -> Iterator[None]:
    store, now = pod.store, datetime.now(UTC).timestamp()
    files: dict[str, dict[str, Found]] = defaultdict(dict)
    for object_name, found in store.listing(uri).items():
        name, _, inside = object_name.partition("/")
        files[name][inside] = found
    broken = {name for name, those in files.items() if name.isdecimal() and GRAPH not in those}
    there = sorted(files.keys() - broken)
    for name in there:
        (folder / name).mkdir(parents=True, exist_ok=True)
    if newest := max((name for name in there if name.isdecimal()), key=int, default=None):
        store.get_all(f"{uri}/{newest}", folder / newest)
    yield
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in there:
            if store.exists(f"{uri}/{path.name}"):
                raise RunError(f"{uri}/{path.name}: another run pushed a version of that number meanwhile; run again")
            store.put_all(path, f"{uri}/{path.name}", last=GRAPH)
    old = {name for name in broken if max(one.written for one in files[name].values()) < now - GRACE}
    let_go = {name for name in there if name.isdecimal() and not (folder / name).exists()}  # by `deploy.keep`
    for name in sorted(let_go | old):
        for inside in sorted(store.files(f"{uri}/{name}"), key=GRAPH.__ne__):
            store.remove(f"{uri}/{name}/{inside}")
        store.remove_if_empty(f"{uri}/{name}")


@contextlib.contextmanager
def _spans(folder: Path, uri: str, pod: _Pod) -> Iterator[None]:
    """What is kept of spans, which the component asks for by their keys."""
    with SpanObjects(folder, uri, pod.store, pod.user).open() as objects, sharing(objects):
        yield


def _check_inside(uri: str, home: Path, paths: Iterable[str | None]) -> None:
    """Raise RunError for a path that leads out of the pipeline's folder. uri: of what names them."""
    for path in paths:
        if path is not None and not Path(os.path.normpath(path)).is_relative_to(home):
            raise RunError(
                f"{uri}, or a record beside it, names {path}, which is not below {home}.\n"
                "  No run writes that: find out who did, and remove the entry."
            )
