"""The `.tflite` files beside the pushed versions, in an object store (`headrace.components.deploy.lite_files`).

A component finds the file of the newest version, and empty folders for the others. What it puts there or replaces is
uploaded, the model after its report, and what it removes is removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from headrace.common.checksums import checksum
from headrace.components.lite.verdict import MODEL_FILE
from headrace.pipeline.kubeflow.store import Store


@contextlib.contextmanager
def mirrored(folder: Path, uri: str, store: Store) -> Iterator[None]:
    """Fetch the state of `uri` into the folder; if the block succeeds, bring changes back.

    Pushes of other runs may be in progress: only what this component changed is touched.
    """
    there = {name.partition("/")[0] for name in store.listing(uri)}
    for version in there:
        (folder / version).mkdir(parents=True, exist_ok=True)
    if newest := max((name for name in there if name.isdecimal()), key=int, default=None):
        store.get_all(f"{uri}/{newest}", folder / newest)
    before = _contents(folder)
    yield
    after = _contents(folder)
    for version in sorted(name for name, what in after.items() if what != before.get(name)):
        store.put_all(folder / version, f"{uri}/{version}", last=MODEL_FILE)
    for version in sorted(before.keys() - after.keys()):
        for inside in sorted(store.files(f"{uri}/{version}"), key=MODEL_FILE.__ne__):
            store.remove(f"{uri}/{version}/{inside}")
        store.remove_if_empty(f"{uri}/{version}")


def _contents(folder: Path) -> dict[str, str]:
    """The checksum of each version's folder; "" for an empty one."""
    found = [path for path in folder.glob("*") if path.name.isdecimal() and path.is_dir()]
    return {path.name: checksum(path) if any(path.iterdir()) else "" for path in found}
