"""Checksums of files: whether they are as they were written.

contents = checksum(Path("artifacts/Trainer/model/20261121-024752"))     # "crc32c:0f3a…"
write_text(path, with_checksum('{"models": []}'))                         # {"models": [], "checksum": "crc32c:…"}

CRC32C, which processors have an instruction for: 2 to 4 GB a second and core, reading included. It detects damage: bit
rot, a part that was never written, a file that was edited or replaced. It is no defence against an attacker.
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
"""Bytes read at once: what stays in a processor's cache is summed fastest."""
MARK = "crc32c:"
"""What every checksum of a folder begins with, so that a later kind can be told from it."""
_DIGITS = 32
FIELD = "checksum"
"""Name of the checksum in a JSON object that carries its own."""


def file_checksum(path: Path) -> int:
    """CRC32C of a file's bytes. Raises OSError."""
    import google_crc32c

    value = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            value = google_crc32c.extend(value, block)
    return int(value)


def checksum(path: Path, of_file: Callable[[Path], int] = file_checksum) -> str:
    """One text for a file, or for all files below a folder with their names and sizes.

    of_file: how a file's CRC32C is found; files are read in parallel. Raises OSError.
    """
    return checksum_of({"": path} if path.is_file() else files_below(path), of_file)


def checksum_of(files: Mapping[str, Path], of_file: Callable[[Path], int] = file_checksum) -> str:
    """The checksum that a folder with these files has, wherever they are now: by their paths in that folder."""
    order = sorted(files.items(), key=lambda item: Path(item[0]))
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
        values = list(threads.map(of_file, (file for _, file in order)))
    total = hashlib.sha256()
    for (name, file), value in zip(order, values, strict=True):
        total.update(f"{name}\0{file.stat().st_size}\0{value:08x}\n".encode(errors="surrogateescape"))
    return MARK + total.hexdigest()[:_DIGITS]


class ChecksumError(ValueError):
    """What a JSON object holds is not what its checksum was made of."""


def with_checksum(text: str) -> str:
    """A JSON object (as text) with the CRC32C of what it holds as its last field, indented by one space."""
    content = json.loads(text)
    return json.dumps({**content, FIELD: _of_json(content)}, indent=1, ensure_ascii=False) + "\n"


def without_checksum(text: str | bytes) -> str | bytes:
    """The JSON object without its checksum, which is compared. Raises ChecksumError if it differs.

    One without a checksum, as earlier versions wrote them, and text that is not a JSON object come back as they are.
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
    """Independent of spaces and of the order of the fields."""
    import google_crc32c

    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{MARK}{google_crc32c.value(text.encode()):08x}"


def files_below(folder: Path) -> dict[str, Path]:
    """The files at any depth, by their paths in the folder."""
    return {str(each.relative_to(folder)): each for each in folder.rglob("*") if each.is_file()}
