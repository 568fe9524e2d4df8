"""Which version of a library is installed."""

from __future__ import annotations

from importlib import metadata


def version(name: str) -> str:
    """Of a distribution; of tensorflow-cpu where it stands in for tensorflow, as in the image: the two are one code."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        if name != "tensorflow":
            raise
        return metadata.version("tensorflow-cpu")
