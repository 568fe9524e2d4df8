"""What the models of a pipeline learned from, in an object store: an object for each run that found something out,
written once, below `trained/`.

    <time>-judged-<digest>.json     the data of a training whose model was judged, and not blessed
    <time>-blessed-<digest>.json    the data of one whose model was blessed
    <time>-passed-<digest>.json     data that did not drift
    before.json                     `trained.json` as a version without such objects left it

Two runs that end together would each read `trained.json`, change it and write it, so the later one would undo what the
earlier one wrote. An object of its own cannot be lost. What is known is what the objects add up to in the order of
their names, which is that of the times at which the runs found it, by their pods' clocks; a pod whose clock is behind
takes the time after the last one there. Nothing before the latest
blessed model counts any more, so readers begin there. `trained.json` beside the folder holds the sum, for people.

Paths in all of them are relative to the pipeline's folder.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from pathlib import Path

from headrace.components.trigger.trained import Trained
from headrace.configs.durable import write_text
from headrace.configs.errors import RunError
from headrace.pipeline.kubeflow.store import Store

FOLDER = "trained"
BEFORE = "before.json"
_NAME = re.compile(r"(?P<time>[0-9T:.+-]+)-(?P<kind>judged|blessed|passed)-[0-9a-f]{16}\.json")


def fetch(uri: str, path: Path, store: Store) -> Trained:
    """Bring what is known to `path`, and give it as it stands there. uri: of `trained.json`.

    Raises RunError if an object is damaged.
    """
    folder = _folder(uri)
    there = store.children(folder)
    names = sorted(name for name in there if _NAME.fullmatch(name))
    for odd in {*there} - {*names, BEFORE}:
        print(f"{folder}/{odd} is not a record of a training, so it is passed over", flush=True)
    if not there:
        known = _parsed(uri, path.read_bytes()) if store.get(uri, path) else Trained()
    else:
        known = _sum(folder, names, _read(f"{folder}/{BEFORE}", store) if BEFORE in there else Trained(), store)
        write_text(path, known.text())
    return known


def publish(uri: str, path: Path, store: Store, known: Trained, now: datetime) -> None:
    """Write what the file at `path` says beyond what was known, then `trained.json` with what others found too."""
    found = _found(known, _parsed(str(path), path.read_bytes()) if path.exists() else Trained())
    if found is None:
        return
    folder, (kind, record) = _folder(uri), found
    there = store.children(folder)
    if known != Trained() and not there:
        store.write(f"{folder}/{BEFORE}", known.text())
    text = record.text()
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    at = _time_after(there, now)
    store.write(f"{folder}/{at.isoformat(timespec='microseconds')}-{kind}-{digest}.json", text)
    fetch(uri, path, store)
    store.put(path, uri)


def _sum(folder: str, names: list[str], known: Trained, store: Store) -> Trained:
    """What is known after all of these, of which those that later ones make meaningless are not read."""
    kinds = [_kind(name) for name in names]
    start = len(kinds) - 1 - kinds[::-1].index("blessed") if "blessed" in kinds else 0
    last_passed = max((place for place, kind in enumerate(kinds) if kind == "passed"), default=-1)
    for place in range(start, len(names)):
        if kinds[place] != "passed" or place == last_passed:
            known = _after(known, _read(f"{folder}/{names[place]}", store))
    return known


def _after(known: Trained, record: Trained) -> Trained:
    if record.judged is not None:
        return known.with_judged(record.judged, blessed=record.blessed is not None)
    return known.with_passed(*record.passed) if record.passed is not None else known


def _found(known: Trained, now: Trained) -> tuple[str, Trained] | None:
    """What a component found out, and its kind; None if nothing."""
    if now.judged is not None and now.judged != known.judged:
        if now.blessed == now.judged:
            return "blessed", Trained(judged=now.judged, blessed=now.judged)
        return "judged", Trained(judged=now.judged)
    if now.passed is not None and now.passed != known.passed:
        return "passed", Trained(passed=now.passed)
    return None


def _read(uri: str, store: Store) -> Trained:
    return _parsed(uri, store.text(uri))


def _parsed(uri: str, text: str | bytes) -> Trained:
    try:
        return Trained.parsed(text)
    except ValueError as error:
        raise RunError(
            f"{uri}: the record of a training is damaged: {error}\n"
            "  Remove the object; the next run then trains, if no other record says that it need not."
        ) from None


def _folder(uri: str) -> str:
    return f"{uri.rpartition('/')[0]}/{FOLDER}"


def _kind(name: str) -> str:
    found = _NAME.fullmatch(name)
    return found["kind"] if found else ""


def _time_after(names: list[str], now: datetime) -> datetime:
    """Now, or the moment after the last of the records: its pod's clock may be ahead of this one's."""
    times = [datetime.fromisoformat(found["time"]) for name in names if (found := _NAME.fullmatch(name))]
    return max([now, *(time + timedelta(microseconds=1) for time in times)])
