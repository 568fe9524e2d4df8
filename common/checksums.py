"""Checksums of files, which show whether they are still as they were written.

contents = checksum(Path("artifacts/Trainer/model/20261121-024752"))     # "crc32c:0f3a…"
write_text(path, with_checksum('{"models": []}'))                         # {"models": [], "checksum": "crc32c:…"}

CRC32C has a processor instruction of its own: 2 to 4 GB per second and core, reading included. It detects damage, such
as bit rot, a missing part, or an edited or replaced file. It does not protect against an attacker.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

BLOCK = 1 << 18
"""Bytes read at a time; a block that fits in the processor's cache is summed fastest."""
PREFIX = "crc32c:"
"""Prefix of every checksum, which distinguishes it from other kinds."""
_DIGITS = 32
FIELD = "checksum"
"""Name of the field with the checksum in a JSON object."""


def file_checksum(path: Path, end: int | None = None) -> int:
    """The CRC32C of a file's bytes, or of those before `end`. Raises OSError."""
    import google_crc32c

    value, left = 0, path.stat().st_size if end is None else end
    with path.open("rb", buffering=0) as file:
        while block := file.read(min(BLOCK, left)):
            value = google_crc32c.extend(value, block)
            left -= len(block)
    return int(value)


def checksum(path: Path, crc_of: Callable[[Path], int] = file_checksum) -> str:
    """The checksum of a file, or of all files below a folder with their names and sizes. Raises OSError.

    crc_of: Returns the CRC32C of a file; called in parallel threads.
    """
    return checksum_of({"": path} if path.is_file() else files_below(path), crc_of)


def checksum_of(files: Mapping[str, Path], crc_of: Callable[[Path], int] = file_checksum) -> str:
    """The checksum of a folder with these files, given by their paths in that folder, wherever they are now."""
    order = sorted(files.items(), key=lambda item: Path(item[0]))
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
        values = list(threads.map(crc_of, (file for _, file in order)))
    total = hashlib.sha256()
    for (name, file), value in zip(order, values, strict=True):
        total.update(f"{name}\0{file.stat().st_size}\0{value:08x}\n".encode(errors="surrogateescape"))
    return PREFIX + total.hexdigest()[:_DIGITS]


class ChecksumError(ValueError):
    """The content of a JSON object does not match its checksum."""


def with_checksum(text: str) -> str:
    """Add the CRC32C of its content to a JSON object (as text), as the last field, and indent it by one space."""
    content = json.loads(text)
    return json.dumps({**content, FIELD: _of_json(content)}, indent=1, ensure_ascii=False) + "\n"


def without_checksum(text: str | bytes) -> str | bytes:
    """Verify the checksum of a JSON object and remove it. Raises ChecksumError if it does not match.

    An object without a checksum, as earlier versions wrote it, and text that is not a JSON object are returned as is.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(content, dict) or FIELD not in content:
        return text
    expected = content.pop(FIELD)
    if _of_json(content) != expected:
        raise ChecksumError("its content does not match its checksum")
    return json.dumps(content)


def _of_json(content: dict[str, Any]) -> str:
    """The checksum of an object, whatever the white space and the order of its fields."""
    import google_crc32c

    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{PREFIX}{google_crc32c.value(text.encode()):08x}"


def files_below(folder: Path) -> dict[str, Path]:
    """All files at any depth, by their paths relative to the folder."""
    return {str(each.relative_to(folder)): each for each in folder.rglob("*") if each.is_file()}


def file_sizes(folder: Path) -> dict[str, int]:
    """The size in bytes of each of `files_below`."""
    return {name: file.stat().st_size for name, file in files_below(folder).items()}


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two files have the same size and checksum. Raises OSError."""
    return one.stat().st_size == other.stat().st_size and file_checksum(one) == file_checksum(other)
