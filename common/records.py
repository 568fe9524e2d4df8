"""Records that are written now and trusted later: JSON with a checksum, read as a model of pydantic.

write_text(path, with_checksum(record.model_dump_json()))
record = parse_record(PushRecord, path.read_bytes())
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from headrace.common.checksums import without_checksum

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
