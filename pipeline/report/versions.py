"""The versions at work."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

FILE_NAME = "versions.json"
"""In a run's folder: all that was installed when it began."""
_DECIDE = (
    "python",
    "headrace",
    "tfx",
    "tensorflow",
    "keras",
    "tensorflow-transform",
    "tensorflow-data-validation",
    "tensorflow-model-analysis",
    "apache-beam",
    "pyarrow",
)


def installed() -> dict[str, str]:
    """Python and every installed package, by the names of their metadata's folders: reading the metadata of some
    hundred packages would take a third of a second.
    """
    versions: dict[str, str] = {}
    for folder in map(Path, sys.path):
        for found in folder.glob("*.dist-info"):
            name, _, version = found.name.removesuffix(".dist-info").partition("-")
            versions.setdefault(name.replace("_", "-").lower(), version)
    return {"python": platform.python_version(), **dict(sorted(versions.items()))}


def write_versions(run_dir: Path) -> None:
    """Keep what is installed now with a run."""
    (run_dir / FILE_NAME).write_text(json.dumps(installed(), indent=1), encoding="utf-8")


def locked(run_dir: Path) -> dict[str, str]:
    """All that was installed when the run began; empty where it was not kept."""
    try:
        read = json.loads((run_dir / FILE_NAME).read_text(encoding="utf-8"))
        return {str(name): str(version) for name, version in read.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def read_versions(run_dir: Path) -> dict[str, str]:
    """Of Python and the packages that decide what a run computes: the run's, else as installed now."""
    versions = locked(run_dir) or installed()
    return {name: versions[name] for name in _DECIDE if name in versions}
