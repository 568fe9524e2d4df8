"""Blessings of a pipeline in an object store: one object per event, of which none replaces another.

    blessed/<time>-<model>.json                          a model was blessed, restored by a rollback, or promoted
    blessed/<time>-<model>.judged-<time>-<digest>.json   it was blessed again while it awaits approval
    blessed/<time>-<model>.lite-<number>-<digest>.json   it got another `.tflite` file
    blessed/<time>-<model>.withdrawn.json                a rollback from it withdrew it

Pods have no lock in common, and not every object store supports conditional writes. If two runs that end together both
read `blessed.json`, changed it and wrote it, the later one would undo what the earlier one did. Nobody writes over
objects with names of their own, so readers find all of them, and what they add up to does not depend on the order of
the writes. `blessed.json` next to the folder is what they add up to, for people and tools; it also saves readers most
of the objects. It may be older than they are, if a run that had read the list before wrote it last.

Each object has the whole entry, of which readers take what its event changed. `<time>` is `blessed_at`, so names sort
by it; `<model>` and `<digest>` are digests, of the model's path and of what changed. All paths in the objects are
relative to the pipeline's folder.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from headrace.common.checksums import with_checksum
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import Entry, Registry, inside
from headrace.pipeline.kubeflow.pod.paths import PARTS_BELOW_HOME, sibling
from headrace.pipeline.kubeflow.store import Store

logger = logging.getLogger(__name__)

BLESSED = "blessed"
"""The folder of the objects."""
_JUDGED, _LITE, _WITHDRAWN = "judged", "lite", "withdrawn"
_CHANGES = {_JUDGED: ("judged_at", "compared_with"), _LITE: ("lite",), _WITHDRAWN: ("withdrawn_at",)}
"""What the events change that leave the time of the blessing as it is."""
_NAME = re.compile(
    r"(?P<blessing>.+?)(?:\.(?:(?P<kind>judged|lite)-(?P<order>.+)-(?P<digest>[0-9a-f]{16})|(?P<gone>withdrawn)))?\.json"
)


class _Name(NamedTuple):
    """The name of an object. blessing: `<time>-<model>`; kind: "" for a blessing; order, digest: as in the name."""

    blessing: str
    kind: str = ""
    order: str = ""
    digest: str = ""

    @classmethod
    def parsed(cls, name: str) -> _Name | None:
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(found["blessing"], found["kind"] or found["gone"] or "", found["order"] or "", found["digest"] or "")

    def __str__(self) -> str:
        parts = "-".join(filter(None, (self.kind, self.order, self.digest)))
        return f"{self.blessing}.{parts}.json" if parts else f"{self.blessing}.json"


def fetch_blessings(uri: str, path: Path, store: Store) -> Registry:
    """Write the merged list of blessed models to `path`, and return it. uri: that of `blessed.json`.

    Raises RunError if the list or an object is damaged.
    """
    store.get(uri, path)
    try:
        known = Registry.read(path)
    except RunError as error:
        raise RunError(str(error).replace(str(path), uri)) from None
    folder, home = sibling(uri, BLESSED), path.parent
    states = {_blessing(entry): entry for entry in known.models}
    for name in _unread(_names(folder, store), states, home):
        entry = _read(f"{folder}/{name}", store).with_paths(lambda text: str(home / text))
        states[name.blessing] = _after(states.get(name.blessing), name.kind, entry)
    merged = _merged(states.values())
    if merged.models:
        merged.write(path)
    return merged


def publish_blessings(uri: str, path: Path, store: Store, known: Registry) -> None:
    """Write an object for each event in the list at `path` since `known`; then `blessed.json`, merged with others'."""
    changed = [entry for entry in Registry.read(path).models if entry not in known.models]
    if not changed:
        return
    folder, home = sibling(uri, BLESSED), path.parent
    names = _names(folder, store)
    for entry in changed:
        file, relative = path.with_name(f".{path.name}.entry"), entry.with_paths(lambda text: inside(home, text))
        write_text(file, with_checksum(relative.model_dump_json()))
        for name in _events(known.find(entry.uri), entry, names, home):
            store.put(file, f"{folder}/{name}")
        file.unlink()
    fetch_blessings(uri, path, store)
    store.put(path, uri)


def _names(folder: str, store: Store) -> list[_Name]:
    """The objects in the order of their names: of one blessing, first it and then what changed."""
    found = {name: _Name.parsed(name) for name in store.children(folder)}
    for stray in (name for name, parsed in found.items() if parsed is None):
        logger.warning(f"{folder}/{stray} is not a record of a blessing; it is ignored")
    return sorted(parsed for parsed in found.values() if parsed)


def _unread(names: Iterable[_Name], states: Mapping[str, Entry], home: Path) -> list[_Name]:
    """The objects that say more than the list. Of several that changed the same, the last one counts."""
    last = {(name.blessing, name.kind): name for name in names}
    return [name for name in sorted(last.values()) if not _says(states.get(name.blessing), name, home)]


def _says(entry: Entry | None, name: _Name, home: Path) -> bool:
    """Whether an entry of the list includes what an object says."""
    if entry is None:
        return False
    if name.kind == _JUDGED:
        return (entry.judged, _digest(entry, name.kind, home)) >= (name.order, name.digest)
    if name.kind == _LITE:
        return _digest(entry, name.kind, home) == name.digest
    return name.kind != _WITHDRAWN or entry.withdrawn_at is not None


def _events(before: Entry | None, entry: Entry, names: Iterable[_Name], home: Path) -> list[_Name]:
    """The names of the objects for what changed an entry. before: as it was, None if the model was not listed."""
    blessing = _blessing(entry)
    if before is None or before.blessed_at != entry.blessed_at:
        return [_Name(blessing), *([_Name(blessing, _WITHDRAWN)] if entry.withdrawn_at else [])]
    kinds = [
        kind for kind, fields in _CHANGES.items() if any(getattr(before, one) != getattr(entry, one) for one in fields)
    ]
    number = sum(1 for name in names if (name.blessing, name.kind) == (blessing, _LITE))
    order = {_JUDGED: entry.judged, _LITE: f"{number:06}"}
    digests = {kind: _digest(entry, kind, home) for kind in order}
    return [_Name(blessing, kind, order.get(kind, ""), digests.get(kind, "")) for kind in kinds]


def _after(before: Entry | None, kind: str, entry: Entry) -> Entry:
    """An entry after an event. entry: as the object of the event has it."""
    if before is None:
        return entry
    return before.model_copy(update={field: getattr(entry, field) for field in _CHANGES.get(kind, ())})


def _merged(entries: Iterable[Entry]) -> Registry:
    """The list of these entries, in the order of their blessings, with the latest entry of each model.

    Of two in the same second, every reader puts the same one first.

    Two rules hold for the entry of a run that had read the list before somebody withdrew or promoted the same model, as
    they do for a run that reads it afterwards: a model that is withdrawn stays so until a rollback or a promotion
    restores it, and one that is listed does not await approval again.
    """
    merged = Registry()
    for entry in sorted(entries, key=lambda entry: (entry.blessed_at, entry.uri)):
        known = merged.find(entry.uri)
        restored = entry.judged_at is not None and not entry.awaiting_approval
        if known and not restored and (known.withdrawn_at or (entry.awaiting_approval and not known.awaiting_approval)):
            continue
        merged = merged.with_newest(entry)
    return merged


def _read(uri: str, store: Store) -> Entry:
    way_out = "its model then no longer serves as a baseline."
    return store.record(uri, Entry, "the record of a blessing", way_out)


def _blessing(entry: Entry) -> str:
    """The start of the objects' names: the same for the same blessing whatever the pod's paths are."""
    model = "/".join(Path(entry.uri).parts[-PARTS_BELOW_HOME:])
    return f"{entry.blessed_at}-{hashlib.sha256(model.encode()).hexdigest()[:16]}"


def _digest(entry: Entry, kind: str, home: Path) -> str:
    """A digest of what an event changed, which tells those of one kind and time apart."""
    relative = entry.with_paths(lambda text: inside(home, text))
    values = "\n".join(f"{getattr(relative, field)}" for field in _CHANGES[kind])
    return hashlib.sha256(values.encode()).hexdigest()[:16]
