"""Blessings and trainings of a pipeline in an object store: one object per event.

    blessed/<time>-<digest of the model>.json    a blessed model
    blessed/<time>-<digest>.withdrawn.json       the same model, after a rollback from it
    trained/<time>-judged-<digest>.json          the data of a training whose model was judged, and not blessed
    trained/<time>-blessed-<digest>.json         the data of a training whose model was blessed
    trained/<time>-passed-<digest>.json          data that did not drift
    trained/before.json                          `trained.json` as a version without such objects left it

If two runs that end together both read `blessed.json`, added a model and wrote it, the later one would undo the earlier
one, and not every object store supports conditional writes. Separate objects cannot be lost: readers merge them in the
order of their names, which is that of their times by the pods' clocks (a pod whose clock is slow takes the time just
after the last object). `blessed.json` and `trained.json` next to the folders hold the merged state for people and
tools; the former also saves readers most of the objects. Of trainings, nothing before the latest blessed model counts.

An object is replaced only when its model is judged again or gets a `.tflite` file. A run that ends at that moment and
has read `blessed.json` before may write the older state of it there again.

All paths in the objects are relative to the pipeline's folder.
"""

from __future__ import annotations

import hashlib
import logging
import re
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from headrace.common.checksums import with_checksum, without_checksum
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.components.deploy.push_record import PushRecord
from headrace.components.deploy.registry import Entry, Registry, inside
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.kubeflow.pod.paths import PARTS_BELOW_HOME, PodPaths
from headrace.pipeline.kubeflow.store import Store

logger = logging.getLogger(__name__)

BLESSED, TRAINED = "blessed", "trained"
"""The folders of the objects."""
BEFORE = "before.json"
_JSON = ".json"
_TRAINING = re.compile(r"(?P<time>[0-9T:.+-]+)-(?P<kind>judged|blessed|passed)-[0-9a-f]{16}\.json")


def fetch_blessings(uri: str, path: Path, store: Store) -> Registry:
    """Write the merged list of blessed models to `path`, and return it. uri: that of `blessed.json`.

    Raises RunError if the list or an object is damaged.
    """
    store.get(uri, path)
    try:
        known = Registry.read(path)
    except RunError as error:
        raise RunError(str(error).replace(str(path), uri)) from None
    folder = _sibling(uri, BLESSED)
    names = store.children(folder)
    known_names = {_blessing_name(each) for entry in known.models for each in (entry, _before_withdrawal(entry))}
    for stray in (name for name in names if not name.endswith(_JSON)):
        logger.warning(f"{folder}/{stray} is not a record of a blessing; it is ignored")
    new = [_blessing(f"{folder}/{name}", store) for name in names if name.endswith(_JSON) and name not in known_names]
    merged = known.merged(entry.with_paths(lambda text: str(path.parent / text)) for entry in new)
    if merged.models:
        merged.write(path)
    return merged


def publish_blessings(uri: str, path: Path, store: Store, known: Registry) -> None:
    """Write an object for each blessing at `path` that is not in `known`; then `blessed.json`, merged with others'."""
    new = [entry for entry in Registry.read(path).models if entry not in known.models]
    if not new:
        return
    for entry in new:
        file = path.with_name(f".{path.name}.entry")
        relative = entry.with_paths(lambda text: inside(path.parent, text))
        write_text(file, with_checksum(relative.model_dump_json()))
        store.put(file, f"{_sibling(uri, BLESSED)}/{_blessing_name(entry)}")
        file.unlink()
    fetch_blessings(uri, path, store).merged(new).write(path)  # an object of that name may have been known already
    store.put(path, uri)


def _blessing(uri: str, store: Store) -> Entry:
    try:
        return Entry.model_validate_json(without_checksum(store.text(uri)))
    except ValueError as error:  # ValidationError and ChecksumError are ValueErrors
        what = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise RunError(
            f"{uri}: the record of a blessing cannot be read: {what}\n"
            "  Remove the object; its model then no longer serves as a baseline."
        ) from None


def _blessing_name(entry: Entry) -> str:
    """The object's name: sorts by time, and is the same for the same blessing whatever the pod's paths are.

    A withdrawal is an object of its own, which sorts after that of the blessing: a run that ends at the same time and
    writes the list as it was before does not undo it.
    """
    model = "/".join(Path(entry.uri).parts[-PARTS_BELOW_HOME:])
    withdrawn = ".withdrawn" if entry.withdrawn_at else ""
    return f"{entry.blessed_at}-{hashlib.sha256(model.encode()).hexdigest()[:16]}{withdrawn}{_JSON}"


def _before_withdrawal(entry: Entry) -> Entry:
    """The entry as it was before a rollback from its model."""
    return entry.model_copy(update={"withdrawn_at": None})


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
    """Replace `pushed.json` in the store by the record at `path`, if there is one that is not `known`."""
    record = PushRecord.read(path)
    if record == known or not path.exists():
        return
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
    folder = _sibling(uri, TRAINED)
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
    folder, (kind, record) = _sibling(uri, TRAINED), found
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


def _sibling(uri: str, folder: str) -> str:
    """The URI of a folder next to an object."""
    return f"{uri.rpartition('/')[0]}/{folder}"


def _kind(name: str) -> str:
    found = _TRAINING.fullmatch(name)
    return found["kind"] if found else ""


def _time_after(names: list[str], now: datetime) -> datetime:
    """Now, or just after the last record, whose pod's clock may be ahead of this one's."""
    times = [datetime.fromisoformat(found["time"]) for name in names if (found := _TRAINING.fullmatch(name))]
    return max([now, *(time + timedelta(microseconds=1) for time in times)])
