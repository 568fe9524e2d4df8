"""What cache keys are made of: SHA-256 digests of texts and files, and the versions of installed libraries."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path


def digest_text(*texts: str) -> str:
    """A hexadecimal digest of a sequence of texts; ("ab", "c") and ("a", "bc") differ."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def digest_path(path: Path) -> str:
    """A hexadecimal digest of a file's bytes, or of all files below a folder with their names."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return digest_text(*(f"{file.relative_to(path)}={digest_path(file)}" for file in files))
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def installed_version(name: str) -> str:
    """The version of an installed distribution.

    tensorflow-cpu counts as tensorflow where only it is installed, as in the image: both hold the same code.
    """
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        if name != "tensorflow":
            raise
        return metadata.version("tensorflow-cpu")
