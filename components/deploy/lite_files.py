"""The `.tflite` files beside the pushed versions: `serving/taxi/lite/<version>/`, with the report of the conversion.

push_lite(home, entry, Path("serving/taxi/1795402861"))

Model servers read folders whose names are numbers, so they pass over `lite`. Imports no TFX.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from pathlib import Path

from headrace.common.checksums import checksum
from headrace.common.durable import sync_folder, sync_tree
from headrace.common.errors import DataError, RunError
from headrace.components.lite.verdict import MODEL_FILE, REPORT_FILE, LiteVerdict
from headrace.components.stored_models import shared_models
from headrace.components.stored_models.blessed_record import Entry
from headrace.components.stored_models.push import locked
from headrace.components.stored_models.stored_versions import StoredVersions, shown, stored_versions

logger = logging.getLogger(__name__)

LITE = "lite"
"""Folder below `deploy.push`, with a folder for each version."""
_NEW, _OLD = ".pushing-", ".removing-"


def converted(uri: str) -> str | None:
    """The folder of an artifact if a `.tflite` file is in it, else None."""
    return uri if Path(uri, MODEL_FILE).is_file() else None


def push_lite(home: Path, entry: Entry, version: Path) -> None:
    """Put a model's `.tflite` file beside a version, and remove the files of versions that are gone.

    A file that is gone or damaged is not put there, and the log says so: the version itself is in service already.
    The push is recorded before, whatever happens here, and the next run that pushes nothing completes what is missing.
    It waits for other pushes to the same folder. home: the folder that `entry.lite` is relative to.

    On a machine that starts with an empty disk, the file is brought here before (`shared_models`).

    Raises RunError if the destination cannot be written to.
    """
    folder = version.parent / LITE
    try:
        store = stored_versions(version.parent) if entry.lite is not None or folder.is_dir() else None
        with locked(version.parent), store.locked() if store else contextlib.nullcontext():
            if store:
                store.refresh()  # versions of other machines are not gone
            _remove_leftovers(folder)
            if entry.lite is not None and version.is_dir() and (source := _intact(home / entry.lite)) is not None:
                _copy(source, folder / version.name, store)
            for path in folder.glob("*"):
                if _is_own(path) and not (version.parent / path.name).is_dir():
                    shutil.rmtree(path)
            if store:
                store.remove_orphans(LITE)
    except (OSError, DataError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(
            f"deploy.push: cannot write to {shown(folder)}: {error}\n"
            f"  Version {version.name} is in service, without its `.tflite` file, which the next run puts there. Make"
            " the folder writable and free some space, or set `deploy.lite` to null."
        ) from error


def _remove_leftovers(folder: Path) -> None:
    """Remove what pushes that were killed have left, of whatever version."""
    for prefix in (_NEW, _OLD):
        for path in folder.glob(f"{prefix}*"):
            if _is_own(path, prefix):
                shutil.rmtree(path)


def _is_own(path: Path, prefix: str = "") -> bool:
    """Whether a path is a folder of a version, and not what somebody else put there."""
    return path.name.removeprefix(prefix).isdecimal() and path.is_dir() and not path.is_symlink()


def _intact(source: Path) -> Path | None:
    file = source / MODEL_FILE
    if not file.exists():
        shared_models.fetch(source)
    verdict = LiteVerdict.read(source)
    if verdict is not None and file.is_file() and checksum(file) == verdict.contents:
        return source
    what = "damaged" if file.is_file() else "gone"
    logger.warning(f"{file} is {what}, so the version gets no such file; the next training converts its model")
    return None


def _copy(source: Path, target: Path, store: StoredVersions | None) -> None:
    """In one step, with nothing in the way of it; an equal one stays. Into the store first, the model after its report:
    what a kill leaves is not equal here.
    """
    names = (MODEL_FILE, REPORT_FILE)
    equal = all((target / name).is_file() and checksum(target / name) == checksum(source / name) for name in names)
    place, sizes = f"{LITE}/{target.name}", {name: (source / name).stat().st_size for name in names}
    if store and not (equal and store.has_beside(place, sizes)):
        store.put_beside(place, [source / name for name in reversed(names)])
    if equal:
        return
    target.parent.mkdir(exist_ok=True)
    new, old = target.with_name(f"{_NEW}{target.name}"), target.with_name(f"{_OLD}{target.name}")
    new.mkdir()
    for name in names:
        shutil.copyfile(source / name, new / name)
    sync_tree(new)
    if target.exists():
        target.rename(old)
    new.rename(target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)
