"""The record of a pipeline's pushed models: `pushed.json`. It is written like `blessed.json` (blessed_record.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import BaseModel

from headrace.common.checksums import checksum, with_checksum
from headrace.common.durable import write_text
from headrace.common.errors import RunError
from headrace.common.records import parse_record
from headrace.components.stored_models.blessed_record import Entry, Registry, inside
from headrace.components.stored_models.blessing import changing


class Push(BaseModel, frozen=True, extra="forbid", strict=True):
    """The last push to one destination.

    Args:
        uri: URI of the Model artifact, relative to the folder of `pushed.json` if it lies below it.
        blessed_at: as in the model's entry.
        version: name of the version's folder.
        contents: checksum of its files when it was pushed.
    """

    uri: str
    blessed_at: str
    version: str
    contents: str


class PushRecord(BaseModel, frozen=True, extra="forbid"):
    """The pushes to each destination. Without the file, the next run compares once more; in an object store it is built
    again from the objects in `pushed/` beside it.

    Destinations are absolute paths; in the file those below its folder are relative to it.

    last: the last push; models and contents: for every version ever pushed, the URI of its model and the checksum of
    its files, as in `Push`.
    """

    last: dict[str, Push] = {}
    models: dict[str, dict[str, str]] = {}
    contents: dict[str, dict[str, str]] = {}

    def model_of(self, path: Path, version: Path) -> str | None:
        """The absolute URI of the model in a version's folder; None if no run pushed it. path: the file of this."""
        there = str(version.parent)
        last = self.last.get(there)
        known = {last.version: last.uri} if last else {}
        uri = {**known, **self.models.get(there, {})}.get(version.name)
        return None if uri is None else str(path.parent / uri)

    def contents_of(self, version: Path) -> str | None:
        """The checksum that the files of a version had when it was pushed; None if that is not known."""
        return self._contents_at(str(version.parent)).get(version.name)

    def is_damaged(self, version: Path) -> bool:
        """Whether the files of a version are known not to be the ones that were pushed."""
        known = self.contents_of(version)
        return known is not None and checksum(version) != known

    @classmethod
    def read(cls, path: Path) -> PushRecord:
        """The record in a file; empty if there is no file. Raises RunError if the file is damaged."""
        try:
            return parse_record(cls, path.read_bytes())._renamed(lambda there: str(path.parent / there))
        except FileNotFoundError:
            return cls()
        except ValueError as error:
            raise RunError(
                f"{path}: the record of pushed models is damaged: {error}.\n"
                "  Delete it: the next run then compares the newest blessed model with the newest version in service,"
                " and pushes it if they differ. In an object store, delete only this file, and keep `pushed/` beside"
                " it: the next run builds the file again from there. If you edited it yourself, remove its `checksum`"
                " instead."
            ) from None

    def of(self, path: Path, entry: Entry, destination: Path) -> Push | None:
        """The last push to a destination if it pushed this entry. path: the file of this record."""
        last = self.last.get(str(destination))
        same = last and (last.uri, last.blessed_at) == (inside(path.parent, entry.uri), entry.blessed_at)
        return last if same else None

    def is_approved(self, path: Path, entry: Entry, destination: Path) -> bool:
        """Whether a model was promoted for a destination, or pushed there before. path: the file of this record."""
        there = str(destination)
        pushed = self.models.get(there, {}).values()
        approved = entry.approved_for is not None and str(path.parent / entry.approved_for) == there
        return approved or inside(path.parent, entry.uri) in pushed

    def copies_of(self, path: Path, entry: Entry) -> list[Path]:
        """The version folders as which a model was ever pushed, newest first. Some may have been removed since."""
        wanted = inside(path.parent, entry.uri)
        found = {Path(there, push.version) for there, push in self.last.items() if push.uri == wanted}
        found |= {
            Path(there, name) for there, all_ in self.models.items() for name, uri in all_.items() if uri == wanted
        }
        return sorted(found, key=lambda version: int(version.name), reverse=True)

    def damaged_version(self, destination: Path) -> Path | None:
        """The version pushed last to a destination, if model servers serve it and its files have changed since."""
        last = self.last.get(str(destination))
        if last is None or not (version := destination / last.version).is_dir():
            return None
        served = max(int(path.name) for path in destination.iterdir() if path.name.isdecimal())
        return version if version.name == str(served) and self.is_damaged(version) else None

    def merged_with(self, other: PushRecord) -> PushRecord:
        """All pushes of both; of the last ones to one destination, that of the greater version, or else this one's."""
        last = {**other.last, **self.last}
        for there in other.last.keys() & self.last.keys():
            last[there] = max(self.last[there], other.last[there], key=lambda push: int(push.version))
        models = {
            there: {**other.models.get(there, {}), **self.models.get(there, {})}
            for there in {**other.models, **self.models}
        }
        contents = {there: {**other._contents_at(there), **self._contents_at(there)} for there in last}
        return PushRecord(last=last, models=models, contents=contents)

    def _contents_at(self, there: str) -> dict[str, str]:
        """The checksums of the versions at a destination."""
        last = self.last.get(there)
        return {**self.contents.get(there, {}), **({last.version: last.contents} if last else {})}

    def _renamed(self, change: Callable[[str], str]) -> PushRecord:
        """The same record with `change` applied to the destinations."""
        return PushRecord(
            last={change(there): push for there, push in self.last.items()},
            models={change(there): models for there, models in self.models.items()},
            contents={change(there): contents for there, contents in self.contents.items()},
        )

    def write(self, path: Path, entry: Entry, version: Path) -> None:
        """Note that `entry` was pushed as the folder `version`."""
        push = Push(
            uri=inside(path.parent, entry.uri),
            blessed_at=entry.blessed_at,
            version=version.name,
            contents=checksum(version),
        )
        there = str(version.parent)
        models = {**self.models, there: {**self.models.get(there, {}), version.name: push.uri}}
        contents = {**self.contents, there: {**self._contents_at(there), version.name: push.contents}}
        last = {**self.last, there: push}
        relative = PushRecord(last=last, models=models, contents=contents)._renamed(
            lambda there: inside(path.parent, there)
        )
        write_text(path, with_checksum(relative.model_dump_json()))


def note_own_push(
    path: Path, registry: Path, models: Iterable[str], version: Path, *, reused: bool = False
) -> str | None:
    """Note what a Pusher of the user's pushed, which ours notes itself. Returns why that is impossible, None if noted.

    Args:
        path: the file of the record.
        registry: the path of `blessed.json`.
        models: the URIs of the Pusher's inputs, one of which is the model.
        version: the folder that it says it pushed.
        reused: whether it pushed in an earlier run, after which others may have replaced the version's files.
    """
    if not version.name.isdecimal() or not version.is_dir():
        return "it is not a folder on this machine that is named by a number"
    with changing(registry):
        blessed = Registry.read(registry)
        entry = next((entry for uri in models if (entry := blessed.find(uri))), None)
        if entry is None:
            return "no model that it read is blessed"
        record = PushRecord.read(path)
        if not reused or record.model_of(path, version) is None:
            record.write(path, entry, version)
    return None
