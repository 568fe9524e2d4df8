"""The versions at work."""

from __future__ import annotations

import platform
from importlib import metadata

_PACKAGES = (
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


def read_versions() -> dict[str, str]:
    """Of Python and the packages that decide what a run computes, as installed now."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
