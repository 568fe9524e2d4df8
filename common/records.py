"""Records as JSON, read as models of pydantic: those that are trusted later, with a checksum, and those for reading.

write_text(path, with_checksum(record.model_dump_json()))
record = parse_record(PushRecord, path.read_bytes())

CanaryVerdict.read(folder)                 # a RecordFile; None if there is none
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self, TypeVar

from pydantic import BaseModel, ValidationError

from headrace.common.checksums import without_checksum
from headrace.common.durable import write_text

_Record = TypeVar("_Record", bound=BaseModel)


def parse_record(model: type[_Record], text: str | bytes) -> _Record:
    """The record in a JSON object, after its checksum was verified.

    Raises ChecksumError if the object was changed since it was written, and ValueError, with the first field that is
    wrong, if it is not such a record.
    """
    try:
        return model.model_validate_json(without_checksum(text))
    except ValidationError as error:
        raise ValueError(first_mistake(error)) from None


def first_mistake(error: ValidationError) -> str:
    """The first mistake that pydantic found, as `field: what is wrong`."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else first["msg"]


class RecordFile(BaseModel, frozen=True):
    """A record that is a file of its own, without a checksum."""

    file_name: ClassVar[str]

    def write(self, folder: Path) -> None:
        """Write the file into a folder, as indented JSON."""
        write_text(folder / self.file_name, self.model_dump_json(indent=1))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The record in a folder; None if there is none, or another version wrote it."""
        try:
            return cls.model_validate_json((folder / cls.file_name).read_bytes())
        except (OSError, ValidationError):
            return None
