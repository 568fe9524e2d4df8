"""Whether a blessed model can be used: it exists, fits the data, and has the files that it had when it was blessed.

A model with damaged files is restored from its pushed copy, if that is intact: both have the same bytes, which the
checksum in the model's entry proves before anything is replaced. So is one that was pruned, for who puts it back into
service.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import NamedTuple

from headrace.common.checksums import checksum, checksum_of, files_below, same_bytes
from headrace.common.durable import replacing
from headrace.components.stored_models import shared_models
from headrace.components.stored_models.blessed_record import Entry, MadeFor
from headrace.components.stored_models.push_record import PushRecord

logger = logging.getLogger(__name__)

SERVING = "Format-Serving"
"""The folder of a Model artifact that is pushed."""


class Unusable(NamedTuple):
    """Why a blessed model cannot be used. `damaged`: its files exist, but are not what was blessed."""

    reason: str
    damaged: bool = False


def why_unusable(
    uri: str, entry: Entry | None, data: MadeFor | None, push_record: Path | None = None
) -> Unusable | None:
    """Why a blessed model cannot be used; None if it can. Restores a damaged model if there is an intact copy.

    Args:
        uri: the folder of the model.
        entry: its entry in the registry, if it has one.
        data: the label and the columns that it must fit.
        push_record: the path of `pushed.json`, which lists the pushed copies.
    """
    folder = Path(uri)
    if not folder.is_dir():
        return Unusable(f"the blessed model {uri} is gone")
    if entry and entry.made_for and data and not entry.made_for.fits(data):
        return Unusable(f"the blessed model {uri} was trained for another label or other data columns")
    return _check_files(entry, push_record) if entry else None


def restore_pruned(entry: Entry, push_record: Path) -> None:
    """Make a model that is gone again from a pushed copy, if one is intact."""
    if entry.contents and not Path(entry.uri).is_dir():
        _restored(entry, push_record)


def _check_files(entry: Entry, push_record: Path | None) -> Unusable | None:
    folder = Path(entry.uri)
    if entry.contents:
        shared_models.fetch(folder)
    if not entry.contents or checksum(folder) == entry.contents:
        return None
    if not files_below(folder):
        return Unusable(f"the blessed model {folder} is gone")
    if push_record is not None and _restored(entry, push_record):
        return None
    what = "its files have changed since it was blessed"
    return Unusable(f"the blessed model {folder} is damaged: {what}", damaged=True)


def _restored(entry: Entry, push_record: Path) -> bool:
    """Replace the damaged files by those of a pushed copy. False if none is intact, or the folder cannot be written."""
    folder = Path(entry.uri)
    flaw = "damaged" if folder.is_dir() else "gone"
    for copy in PushRecord.read(push_record).copies_of(push_record, entry):
        try:
            shared_models.fetch(copy)
            served = {f"{SERVING}/{name}": file for name, file in files_below(copy).items()}
            others = {name: file for name, file in files_below(folder).items() if not name.startswith(f"{SERVING}/")}
            if not served or checksum_of({**others, **served}) != entry.contents:
                continue
            _replace(folder, served)
        except OSError as error:
            logger.warning(f"the blessed model {entry.uri} is {flaw} and cannot be restored from {copy}: {error}")
            continue
        logger.warning(f"the blessed model {entry.uri} was {flaw} and has been restored from {copy}, the same model")
        return True
    return False


def _replace(folder: Path, wanted: dict[str, Path]) -> None:
    """Replace the serving files of a model, each atomically. If interrupted, the model remains detectably damaged."""
    there = {name: file for name, file in files_below(folder).items() if name.startswith(f"{SERVING}/")}
    for name in there.keys() - wanted.keys():
        there[name].unlink()
    different = [name for name, file in wanted.items() if name not in there or not same_bytes(file, there[name])]
    for name in different:
        with replacing(folder / name) as partial:
            shutil.copyfile(wanted[name], partial)
    shared_models.publish(folder, different)
