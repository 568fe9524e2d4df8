"""The blessed models of a pipeline in an object store: one object for each blessing, written once, below `blessed/`.

Two runs that end together would each read `blessed.json`, add their own model and write it, so the later one would undo
what the earlier one wrote; not every store can make a write depend on what is there. An object of its own cannot be
lost. The list is put together from all of them on reading. `blessed.json` beside them holds the same, for people and
tools that look at the folder, and spares the next reader most of the objects.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from headrace.components.registry import Entry, Registry, inside
from headrace.configs.checksums import with_checksum, without_checksum
from headrace.configs.durable import write_text
from headrace.configs.errors import RunError
from headrace.pipeline.kubeflow.places import BELOW_HOME
from headrace.pipeline.kubeflow.store import Store

FOLDER, LAST = "blessed", ".json"


def fetch(uri: str, path: Path, store: Store) -> Registry:
    """Bring the list to `path`; uri: of `blessed.json`. RunError if that or an object is damaged."""
    store.get(uri, path)
    try:
        known = Registry.read(path)
    except RunError as error:
        raise RunError(str(error).replace(str(path), uri)) from None
    folder, there = _folder(uri), store.children(_folder(uri))
    here = {_name(entry) for entry in known.models}
    for odd in (name for name in there if not name.endswith(LAST)):
        print(f"{folder}/{odd} is not a record of a blessing, so it is passed over", flush=True)
    found = [_read(f"{folder}/{name}", store) for name in there if name.endswith(LAST) and name not in here]
    merged = known.merged(entry.with_paths(lambda text: str(path.parent / text)) for entry in found)
    if merged.models:
        merged.write(path)
    return merged


def publish(uri: str, path: Path, store: Store, known: Registry) -> None:
    """Write the blessings at `path` that are not among the known ones, then `blessed.json` with what others wrote."""
    new = [entry for entry in Registry.read(path).models if entry not in known.models]
    if not new:
        return
    for entry in new:
        file = path.with_name(f".{path.name}.entry")
        write_text(file, with_checksum(_relative(path, entry).model_dump_json()))
        store.put(file, f"{_folder(uri)}/{_name(entry)}")
        file.unlink()
    fetch(uri, path, store)
    store.put(path, uri)


def _relative(path: Path, entry: Entry) -> Entry:
    return entry.with_paths(lambda text: inside(path.parent, text))


def _read(uri: str, store: Store) -> Entry:
    try:
        return Entry.model_validate_json(without_checksum(store.text(uri)))
    except ValueError as error:  # ValidationError and ChecksumError are ValueErrors
        what = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise RunError(
            f"{uri}: the record of a blessing cannot be read: {what}\n"
            "  Remove the object; its model is then no baseline any more."
        ) from None


def _folder(uri: str) -> str:
    return f"{uri.rpartition('/')[0]}/{FOLDER}"


def _name(entry: Entry) -> str:
    """In the order of time; the same for the same blessing, whatever the pod's paths are."""
    model = "/".join(Path(entry.uri).parts[-BELOW_HOME:])
    return f"{entry.blessed_at}-{hashlib.sha256(model.encode()).hexdigest()[:16]}{LAST}"
