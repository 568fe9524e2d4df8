"""What an artifact's files were when its component ended, so that a later run trusts only what is still whole."""

from __future__ import annotations

from pathlib import Path

from pipeline.digest import digest_text


def listing(path: Path) -> str:
    """A digest of the names and sizes of the files at or below `path`; cheap, as no file is read."""
    if path.is_file():
        return digest_text(str(path.stat().st_size))
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return digest_text(*(f"{file.relative_to(path)}={file.stat().st_size}" for file in files))
