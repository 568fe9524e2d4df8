"""Trainings and pushes of a pipeline in an object store. Blessings are in blessings.py.

    trained/<time>-judged-<digest>.json          the data of a training whose model was judged, and not blessed
    trained/<time>-blessed-<digest>.json         the data of a training whose model was blessed
    trained/<time>-passed-<digest>.json          data that did not drift
    trained/before.json                          `trained.json` as a version without such objects left it
    pushed/<version>-<digest>.json               a model was pushed, as a version of a destination
    pushed/<version>/                            the model card of a version (stored_card.py)

Trainings are recorded like blessings, one object per event, so that runs that end together lose none. Readers merge the
objects in the order of their names, which is that of their times by the pods' clocks (a pod whose clock is slow takes
the time just after the last object). `trained.json` next to the folder holds the merged state for people and tools.
Nothing before the latest blessed model counts.

Pushes are recorded in this way too: `pushed.json` next to the folder is what the objects add up to, and saves readers
all but those that it lacks, because another run had read the list before and wrote it last.

All paths in the objects are relative to the pipeline's folder.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from headrace.common.checksums import with_checksum
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.kubeflow.pod.paths import PodPaths, sibling
from headrace.pipeline.kubeflow.store import Store

logger = logging.getLogger(__name__)

TRAINED, PUSHED = "trained", "pushed"
"""The folders of the objects of trainings and of pushes."""
BEFORE = "before.json"
_PUSH = re.compile(r"[0-9]+-[0-9a-f]{16}\.json")
_TRAINING = re.compile(r"(?P<time>[0-9T:.+-]+)-(?P<kind>judged|blessed|passed)-[0-9a-f]{16}\.json")


def fetch_pushes(uri: str, path: Path, store: Store) -> PushRecord:
    """Write the merged record of pushes to `path`, with the destinations in the pipeline's folder as paths below that.

    In the store they are the paths of a pod, as every pod has them. uri: that of `pushed.json`. Raises RunError if the
    record or an object is damaged.
    """
    return _fetch_pushes(uri, path, store)[0]


def known_pushes(uri: str, path: Path, store: Store, *, pushes: bool) -> PushRecord | None:
    """The same for a component, as `publish_pushes` wants it.

    pushes: whether the component may push. For such a one it is None if `pushed.json` lacks what an object says, so
    that it is written again. Others may have credentials that only read.
    """
    record, is_whole = _fetch_pushes(uri, path, store)
    return record if is_whole or not pushes else None


def read_pushes(uri: str, store: Store) -> PushRecord:
    """The merged record of pushes, with the destinations as paths of a pod. Raises RunError as `fetch_pushes` does."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        return _stored_pushes(uri, Path(folder, "pushed.json"), store)[1]


def publish_pushes(uri: str, path: Path, store: Store, known: PushRecord | None) -> None:
    """Write an object for each push in the record at `path` since `known`; then `pushed.json`, merged with others'."""
    record = PushRecord.read(path)
    if record == known or not path.exists():
        return
    outer, local = f"{_in_pod(uri)}/", f"{path.parent}/"
    stored = record.renamed(lambda there: there.replace(local, outer, 1) if there.startswith(local) else there)
    before = {} if known is None else known.last
    for there, (local_path, push) in zip(stored.last, record.last.items(), strict=True):
        if push != before.get(local_path):
            one = PushRecord(last={there: push}, models={there: {push.version: push.uri}})
            (name,) = _names_of(one)
            store.write(f"{sibling(uri, PUSHED)}/{name}", with_checksum(one.model_dump_json()))
    file = path.with_name(f".{path.name}.store")
    stored.merged_with(_stored_pushes(uri, file, store)[1]).save(file)
    store.put(file, uri)
    file.unlink()


def _fetch_pushes(uri: str, path: Path, store: Store) -> tuple[PushRecord, bool]:
    """As `fetch_pushes`, and whether `pushed.json` has all of it."""
    found, whole = _stored_pushes(uri, path, store)
    inner = f"{_in_pod(uri)}/"
    local = whole.renamed(lambda there: f"{path.parent}/{there.partition(inner)[2]}" if inner in there else there)
    if local != found:
        local.save(path)
    return local, whole == found


def _stored_pushes(uri: str, path: Path, store: Store) -> tuple[PushRecord, PushRecord]:
    """`pushed.json` in the store, which is copied to `path`, without and with what only the objects say."""
    store.get(uri, path)
    try:
        found = PushRecord.read(path)
    except RunError as error:
        raise RunError(str(error).replace(str(path), uri)) from None
    whole, folder = found, sibling(uri, PUSHED)
    there = {*store.children(folder)}
    names = {name for name in there if _PUSH.fullmatch(name)}
    for stray in sorted(name for name in there - names if not name.isdecimal()):  # a number is a folder with a card
        logger.warning(f"{folder}/{stray} is not a record of a push; it is ignored")
    for name in sorted(names - _names_of(found)):
        way_out = "the next run then compares the model with the newest version in service."
        whole = whole.merged_with(store.record(f"{folder}/{name}", PushRecord, "the record of a push", way_out))
    return found, whole


def _names_of(record: PushRecord) -> set[str]:
    """The names of the objects for all pushes of a record, in which destinations are as in the store."""
    return {
        f"{version}-{hashlib.sha256(f'{there} {uri}'.encode()).hexdigest()[:16]}.json"
        for there, models in record.models.items()
        for version, uri in models.items()
    }


def _in_pod(uri: str) -> str:
    """The path, in a pod, of the folder of an object."""
    return str(PodPaths().local(uri).parent)


def fetch_trainings(uri: str, path: Path, store: Store) -> TrainingRecord:
    """Write what is known of trainings to `path`, and return it. uri: that of `trained.json`.

    Raises RunError if an object is damaged.
    """
    folder = sibling(uri, TRAINED)
    there = store.children(folder)
    names = sorted(name for name in there if _TRAINING.fullmatch(name))
    for stray in {*there} - {*names, BEFORE}:
        logger.warning(f"{folder}/{stray} is not a record of a training; it is ignored")
    if not there:
        known = _parsed(uri, path.read_bytes()) if store.get(uri, path) else TrainingRecord()
    else:
        before = _training(f"{folder}/{BEFORE}", store) if BEFORE in there else TrainingRecord()
        known = _merged(folder, names, before, store)
        write_text(path, known.text())
    return known


def publish_trainings(uri: str, path: Path, store: Store, known: TrainingRecord, now: datetime) -> None:
    """Write an object for what the file at `path` says beyond `known`; then `trained.json`, merged with others'."""
    found = _new_record(known, _parsed(str(path), path.read_bytes()) if path.exists() else TrainingRecord())
    if found is None:
        return
    folder, (kind, record) = sibling(uri, TRAINED), found
    there = store.children(folder)
    if known != TrainingRecord() and not there:
        store.write(f"{folder}/{BEFORE}", known.text())
    text = record.text()
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    time = _time_after(there, now)
    store.write(f"{folder}/{time.isoformat(timespec='microseconds')}-{kind}-{digest}.json", text)
    fetch_trainings(uri, path, store)
    store.put(path, uri)


def _merged(folder: str, names: list[str], known: TrainingRecord, store: Store) -> TrainingRecord:
    """What is known after all of these records. Those that later ones supersede are not read."""
    kinds = [_kind(name) for name in names]
    start = len(kinds) - 1 - kinds[::-1].index("blessed") if "blessed" in kinds else 0
    last_passed = max((index for index, kind in enumerate(kinds) if kind == "passed"), default=-1)
    for index in range(start, len(names)):
        if kinds[index] != "passed" or index == last_passed:
            known = _updated(known, _training(f"{folder}/{names[index]}", store))
    return known


def _updated(known: TrainingRecord, record: TrainingRecord) -> TrainingRecord:
    if record.judged is not None:
        return known.with_judged(record.judged, blessed=record.blessed is not None)
    return known.with_passed(*record.passed) if record.passed is not None else known


def _new_record(known: TrainingRecord, now: TrainingRecord) -> tuple[str, TrainingRecord] | None:
    """The kind and the content of the record that a component added, or None if it added none."""
    if now.judged is not None and now.judged != known.judged:
        if now.blessed == now.judged:
            return "blessed", TrainingRecord(judged=now.judged, blessed=now.judged)
        return "judged", TrainingRecord(judged=now.judged)
    if now.passed is not None and now.passed != known.passed:
        return "passed", TrainingRecord(passed=now.passed)
    return None


def _training(uri: str, store: Store) -> TrainingRecord:
    return _parsed(uri, store.text(uri))


def _parsed(uri: str, text: str | bytes) -> TrainingRecord:
    try:
        return TrainingRecord.parsed(text)
    except ValueError as error:
        raise RunError(
            f"{uri}: the record of a training is damaged: {error}\n"
            "  Remove the object; the next run then trains, unless another record shows that it need not."
        ) from None


def _kind(name: str) -> str:
    found = _TRAINING.fullmatch(name)
    return found["kind"] if found else ""


def _time_after(names: list[str], now: datetime) -> datetime:
    """Now, or just after the last record, whose pod's clock may be ahead of this one's."""
    times = [datetime.fromisoformat(found["time"]) for name in names if (found := _TRAINING.fullmatch(name))]
    return max([now, *(time + timedelta(microseconds=1) for time in times)])
