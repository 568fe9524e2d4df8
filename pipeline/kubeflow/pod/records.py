"""Trainings and pushes of a pipeline in an object store. Blessings are in blessings.py.

    trained/<time>-judged-<digest>.json          the data of a training whose model was judged, and not blessed
    trained/<time>-blessed-<digest>.json         the data of a training whose model was blessed
    trained/<time>-passed-<digest>.json          data that did not drift
    trained/before.json                          `trained.json` as a version without such objects left it

Trainings are recorded like blessings, one object per event, so that runs that end together lose none. Readers merge the
objects in the order of their names, which is that of their times by the pods' clocks (a pod whose clock is slow takes
the time just after the last object). `trained.json` next to the folder holds the merged state for people and tools.
Nothing before the latest blessed model counts.

All paths in the objects are relative to the pipeline's folder.
"""

from __future__ import annotations

import hashlib
import logging
import re
from datetime import datetime, timedelta
from pathlib import Path

from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.components.deploy.push_record import PushRecord
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.kubeflow.pod.paths import PodPaths, sibling
from headrace.pipeline.kubeflow.store import Store

logger = logging.getLogger(__name__)

TRAINED = "trained"
"""The folder of the objects of trainings."""
BEFORE = "before.json"
_TRAINING = re.compile(r"(?P<time>[0-9T:.+-]+)-(?P<kind>judged|blessed|passed)-[0-9a-f]{16}\.json")


def fetch_pushes(uri: str, path: Path, store: Store) -> PushRecord:
    """Write `pushed.json` to `path`, with the destinations in the pipeline's folder as paths below that of `path`.

    In the store they are the paths of a pod, as every pod has them. uri: that of `pushed.json`. Raises RunError if the
    record is damaged.
    """
    store.get(uri, path)
    try:
        found = PushRecord.read(path)
    except RunError as error:
        raise RunError(str(error).replace(str(path), uri)) from None
    inner = f"{_in_pod(uri)}/"
    local = found.renamed(lambda there: f"{path.parent}/{there.partition(inner)[2]}" if inner in there else there)
    if local != found:
        local.save(path)
    return local


def publish_pushes(uri: str, path: Path, store: Store, known: PushRecord | None) -> None:
    """Replace `pushed.json` in the store by the record at `path`, if there is one that is not `known`.

    What another run has pushed in the meantime is kept. (Not every store can refuse a write, so of two runs that do
    this at the very same moment, the later one may still replace the other's.)
    """
    record = PushRecord.read(path)
    if record == known or not path.exists():
        return
    now = path.with_name(f".{path.name}.now")
    record = record.merged_with(fetch_pushes(uri, now, store))
    now.unlink(missing_ok=True)
    outer = f"{_in_pod(uri)}/"
    file, local = path.with_name(f".{path.name}.store"), f"{path.parent}/"
    record.renamed(lambda there: there.replace(local, outer, 1) if there.startswith(local) else there).save(file)
    store.put(file, uri)
    file.unlink()


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
