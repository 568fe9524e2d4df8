"""What was pushed last to each place: `pushed.json`, beside `blessed.json`.

A model is blessed, pushed and then noted here, in this order. So a blessed model that is not noted is one whose run was
killed, or failed, before or while it was pushed; the next run pushes it. To lose the file costs one comparison. The
file has a checksum: a damaged one would give a false reason for a push.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.components.registry import Entry, inside
from headrace.configs.checksums import checksum, with_checksum, without_checksum
from headrace.configs.durable import write_text
from headrace.configs.errors import RunError

LATE = "headrace_late"
"""Custom property of a PushedModel that an earlier run made: which model that is, in words."""
IN_SERVICE = "headrace_in_service"
"""Custom property of a PushedModel of a run that pushed nothing: the folder of the version that was pushed last."""
IN_SERVICE_CONTENTS = "headrace_in_service_contents"
"""The checksum of its files when it was pushed."""


class Push(BaseModel):
    """uri: of the Model artifact, relative to the folder of the file if it lies below it; blessed_at: as in its entry;
    version: the name of its folder; contents: the checksum of its files when it was pushed, None in records of earlier
    versions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    uri: str
    blessed_at: str
    version: str
    contents: str | None = None


class Pushed(BaseModel):
    """The last push to each destination (an absolute path)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    last: dict[str, Push] = {}

    @classmethod
    def read(cls, path: Path) -> Pushed:
        """What the file says; nothing if it is not there. RunError if it is damaged."""
        try:
            return cls.model_validate_json(without_checksum(path.read_bytes()))
        except FileNotFoundError:
            return cls()
        except ValueError as error:  # ValidationError and ChecksumError are ValueErrors
            what = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise RunError(
                f"{path}: the record of what was pushed is damaged: {what}.\n"
                "  Delete it: the next run then compares the newest blessed model with the newest version there, and"
                " pushes it if they differ. If you edited it yourself, remove its `checksum` instead."
            ) from None

    def of(self, path: Path, entry: Entry, destination: Path) -> Push | None:
        """The last push there if it was this blessing's. path: of the file."""
        last = self.last.get(str(destination))
        same = last and (last.uri, last.blessed_at) == (inside(path.parent, entry.uri), entry.blessed_at)
        return last if same else None

    def copies_of(self, path: Path, entry: Entry) -> list[Path]:
        """Where this blessing's model was the last to be pushed. It may be gone from there."""
        pushes = ((Path(place), self.of(path, entry, Path(place))) for place in self.last)
        return [place / push.version for place, push in pushes if push]

    def write(self, path: Path, entry: Entry, version: Path) -> None:
        """Note a push, whose folder `version` is."""
        push = Push(
            uri=inside(path.parent, entry.uri),
            blessed_at=entry.blessed_at,
            version=version.name,
            contents=checksum(version),
        )
        noted = Pushed(last={**self.last, str(version.parent): push})
        write_text(path, with_checksum(noted.model_dump_json()))
