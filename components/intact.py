"""Whether a blessed model can be used: it is there, fits the data, and has the files that it had when it was blessed.

A model whose files were damaged is restored from the copy of it that was pushed, if that one is whole: both have the
same bytes, which the checksum in the model's entry proves before anything is replaced.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from headrace.components.deploy import shared_models
from headrace.components.deploy.registry import Entry, MadeFor, PushRecord
from headrace.configs.checksums import checksum, checksum_of, file_checksum, files_below
from headrace.configs.durable import replacing

SERVING = "Format-Serving"
"""The folder of a Model artifact that is pushed."""


class Flaw(NamedTuple):
    """Why a blessed model cannot be used. `damaged`: its files are there and are not what was blessed."""

    reason: str
    damaged: bool = False


def flaw_of(uri: str, entry: Entry | None, data: MadeFor | None, push_record: Path | None = None) -> Flaw | None:
    """Why this blessed model cannot be used with such data; None if it can.

    A damaged one is restored first if there is a whole copy. push_record: path of `pushed.json`, which tells where.
    """
    folder = Path(uri)
    if not folder.is_dir():
        return Flaw(f"the blessed model {uri} is gone")
    if entry and entry.made_for and data and not entry.made_for.fits(data):
        return Flaw(f"the blessed model {uri} was made for another label or other data columns")
    return _flaw_of_files(entry, push_record) if entry else None


def _flaw_of_files(entry: Entry, push_record: Path | None) -> Flaw | None:
    folder = Path(entry.uri)
    if entry.contents:
        shared_models.fetch(folder)
    if not entry.contents or checksum(folder) == entry.contents:
        return None
    if not files_below(folder):
        return Flaw(f"the blessed model {folder} is gone")
    if push_record is not None and _restored(entry, push_record):
        return None
    what = "its files are not as they were when it was blessed"
    return Flaw(f"the blessed model {folder} is damaged: {what}", damaged=True)


def _restored(entry: Entry, push_record: Path) -> bool:
    """Replace the damaged files by those of a pushed copy. False if none is whole, or the folder cannot be written."""
    folder = Path(entry.uri)
    for copy in PushRecord.read(push_record).copies_of(push_record, entry):
        try:
            shared_models.fetch(copy)
            served = {f"{SERVING}/{name}": file for name, file in files_below(copy).items()}
            kept = {name: file for name, file in files_below(folder).items() if not name.startswith(f"{SERVING}/")}
            if not served or checksum_of({**kept, **served}) != entry.contents:
                continue
            _replace(folder, served)
        except OSError as error:
            print(f"the blessed model {entry.uri} is damaged, and cannot be restored from {copy}: {error}")
            continue
        print(f"the blessed model {entry.uri} was damaged: restored from {copy}, which is the same model")
        return True
    return False


def _replace(folder: Path, wanted: dict[str, Path]) -> None:
    """Make the served part of a model these files, each in one step. A kill in between leaves it damaged as before."""
    there = {name: file for name, file in files_below(folder).items() if name.startswith(f"{SERVING}/")}
    for name in there.keys() - wanted.keys():
        there[name].unlink()
    different = [name for name, file in wanted.items() if name not in there or not _same(file, there[name])]
    for name in different:
        with replacing(folder / name) as partial:
            shutil.copyfile(wanted[name], partial)
    shared_models.publish(folder, different)


def _same(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and file_checksum(one) == file_checksum(other)
