"""What was pushed last to each place: `pushed.json`, beside `blessed.json`.

A model is blessed, pushed and then noted here, in this order. So a blessed model that is not noted is one whose run was
killed, or failed, before or while it was pushed; the next run pushes it. To lose the file costs one comparison.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from components.registry import Entry, inside
from configs.durable import write_text

LATE = "headrace_late"
"""Custom property of a PushedModel that an earlier run made: which model that is, in words."""


class Push(BaseModel):
    """uri: of the Model artifact, relative to the folder of the file if it lies below it; blessed_at: as in its entry;
    version: the name of its folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    uri: str
    blessed_at: str
    version: str


class Pushed(BaseModel):
    """The last push to each destination (an absolute path)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    last: dict[str, Push] = {}

    @classmethod
    def read(cls, path: Path) -> Pushed:
        """What the file says; nothing if it is not there or damaged, as a push that is repeated changes nothing."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return cls()

    def has(self, path: Path, entry: Entry, destination: Path) -> bool:
        """Whether the last push there was this blessing's. path: of the file."""
        return bool(self.version_of(path, entry, destination))

    def version_of(self, path: Path, entry: Entry, destination: Path) -> str:
        """The version that this blessing has there, if it was the last push; else ""."""
        last = self.last.get(str(destination))
        same = last and (last.uri, last.blessed_at) == (inside(path.parent, entry.uri), entry.blessed_at)
        return last.version if last and same else ""

    def write(self, path: Path, entry: Entry, version: Path) -> None:
        """Note a push, whose folder `version` is."""
        push = Push(uri=inside(path.parent, entry.uri), blessed_at=entry.blessed_at, version=version.name)
        noted = Pushed(last={**self.last, str(version.parent): push})
        write_text(path, noted.model_dump_json(indent=1) + "\n")
