"""What a pipeline keeps between runs, for the components that look at it: `blessed.json`, pushed models, checkpoints,
and what was made of spans.

With staged artifacts these lie in the object store, and components work on paths. So before such a component runs, the
pod gets the files it reads (of pushed models, the newest's), and an empty folder for each thing that it only asks
whether it is there; afterwards, what the component wrote is copied back. On a shared volume all of it is there already.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from components.example_gen.shared_spans import sharing
from components.trigger.trained import Trained
from configs.errors import RunError
from pipeline.kubeflow import blessings
from pipeline.kubeflow.checkpoints import mirrored
from pipeline.kubeflow.kept import kept
from pipeline.kubeflow.places import Places
from pipeline.kubeflow.span_objects import SpanObjects
from pipeline.kubeflow.store import Store
from trainer.weights.origin import Origin

GRAPH = "saved_model.pb"
"""Without it a folder is no model to a server: so it is the last file of a version to come, and the first to go."""
ORIGIN = f"Format-Serving/{Origin.FILE}"
"""In a model: what the component that looks for a model to begin with reads of it."""


@contextlib.contextmanager
def present(properties: Mapping[str, Any], places: Places, store: Store, user: str = "") -> Iterator[None]:
    """Have what the properties name in the pod, and put back what changed if all went well. `user`: `<run>/<task>`."""
    with contextlib.ExitStack() as stack:
        named = kept(properties)
        if named.registry is not None:
            stack.enter_context(_registry(named.registry, places, store))
        if named.trained is not None:
            stack.enter_context(_trained(named.trained, "columns" in properties, places, store))
        if named.push_record is not None:  # before the next, so that it goes back after it: pushed first, then noted
            stack.enter_context(_copied(named.push_record, places, store))
        if named.pushed is not None:
            stack.enter_context(_pushed(named.pushed, places, store))
        if named.checkpoints is not None:
            stack.enter_context(_checkpoints(named.checkpoints, places, store))
        if named.spans is not None:
            stack.enter_context(_spans(named.spans, places, store, user))
        yield


@contextlib.contextmanager
def _registry(path: Path, places: Places, store: Store) -> Iterator[None]:
    uri = places.remote(path)
    if uri is None or places.mount:
        yield
        return
    known = blessings.fetch(uri, path, store)
    for entry in known.models:
        model = places.remote(entry.uri)
        if model is not None and store.exists(model):
            Path(entry.uri).mkdir(parents=True, exist_ok=True)
            store.get(f"{model}/{ORIGIN}", Path(entry.uri, ORIGIN))
    yield
    blessings.publish(uri, path, store, known)


def _checkpoints(folder: Path, places: Places, store: Store) -> contextlib.AbstractContextManager[None]:
    uri = places.remote(folder)
    return contextlib.nullcontext() if uri is None or places.mount else mirrored(folder, uri, store)


@contextlib.contextmanager
def _trained(path: Path, compared: bool, places: Places, store: Store) -> Iterator[None]:
    """`trained.json`; compared: with the statistics that it names, for the component that looks for drift."""
    uri = places.remote(path)
    if uri is None or places.mount:
        yield
        return
    store.get(uri, path)
    before = path.read_bytes() if path.exists() else None
    blessed = Trained.read(path).blessed
    statistics = places.remote(blessed.statistics) if blessed and compared else None
    if blessed and statistics:
        store.get_all(statistics, Path(blessed.statistics))
    yield
    if path.exists() and path.read_bytes() != before:
        store.put(path, uri)


@contextlib.contextmanager
def _pushed(folder: Path, places: Places, store: Store) -> Iterator[None]:
    uri = places.remote(folder)
    if uri is None or places.mount:
        yield
        return
    there = store.children(uri)
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
    for name in there:
        if name.isdecimal() and not (folder / name).exists():  # what `deploy.keep` lets go
            for inside in sorted(store.files(f"{uri}/{name}"), key=GRAPH.__ne__):
                store.remove(f"{uri}/{name}/{inside}")


@contextlib.contextmanager
def _copied(path: Path, places: Places, store: Store) -> Iterator[None]:
    """A file that a component reads, and may write."""
    uri = places.remote(path)
    if uri is None or places.mount:
        yield
        return
    store.get(uri, path)
    before = path.read_bytes() if path.exists() else None
    yield
    if path.exists() and path.read_bytes() != before:
        store.put(path, uri)


@contextlib.contextmanager
def _spans(folder: Path, places: Places, store: Store, user: str) -> Iterator[None]:
    """What is kept of spans, which the component asks for by their keys."""
    uri = places.remote(folder)
    if uri is None or places.mount:
        yield
        return
    with SpanObjects(folder, uri, store, user).open() as objects, sharing(objects):
        yield
