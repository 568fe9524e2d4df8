"""Short names for contents: sha256, in hexadecimal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

CHUNK = 1 << 20


def digest_text(*texts: str) -> str:
    """Of several texts; ("ab", "c") and ("a", "bc") differ."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def digest_path(path: Path) -> str:
    """Of a file's bytes, or of all the files below a folder with their names."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return digest_text(*(f"{file.relative_to(path)}={digest_path(file)}" for file in files))
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            total.update(chunk)
    return total.hexdigest()
