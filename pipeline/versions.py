"""The versions of Python and of the installed packages, as recorded with each run."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

FILE_NAME = "versions.json"
"""The file in a run's folder with everything that was installed when the run began."""
_SHOWN = (
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
    """The versions of Python and of every installed package, without those that setuptools holds in a folder of its
    own, which it puts on the path once something imports it.

    They come from the names of the `.dist-info` folders: reading the metadata of some hundred packages would take a
    third of a second.
    """
    versions: dict[str, str] = {}
    for folder in map(Path, sys.path):
        if folder.name == "_vendor":
            continue
        for path in folder.glob("*.dist-info"):
            name, _, version = path.name.removesuffix(".dist-info").partition("-")
            versions.setdefault(name.replace("_", "-").lower(), version)
    return {"python": platform.python_version(), **dict(sorted(versions.items()))}


def write_versions(run_dir: Path) -> None:
    """Record what is installed now in a run's folder."""
    (run_dir / FILE_NAME).write_text(json.dumps(installed(), indent=1), encoding="utf-8")


def recorded(run_dir: Path) -> dict[str, str]:
    """Everything that was installed when the run began; empty if it was not recorded."""
    try:
        read = json.loads((run_dir / FILE_NAME).read_text(encoding="utf-8"))
        return {str(name): str(version) for name, version in read.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def read_versions(run_dir: Path) -> dict[str, str]:
    """The versions that decide what a run computes: the run's own, or those installed now if it recorded none."""
    versions = recorded(run_dir) or installed()
    return {name: versions[name] for name in _SHOWN if name in versions}
