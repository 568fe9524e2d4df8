"""The size of the image, layer by layer, computed from the packages that are installed here.

Sizes are bytes of uncompressed files, as `docker images` shows them. Packages that only the image has (tensorflow-cpu,
CUDA's libraries) were measured once, for the locked version: image/measured.json.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

PYTHON_BYTES = 165_000_000
"""Size of the base image (Debian 13 and Python without its tests) with the compiled standard library."""
COMPILED = 1.17
"""Bytes of compiled modules per byte of source, measured over all packages."""
TARGET = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.13",
    "python_version": "3.11",
    "sys_platform": "linux",
}
"""The environment for which the markers of the lock are evaluated."""
EXTRAS = ("sql", "tfds")


@dataclass(frozen=True)
class ImageLayer:
    """A layer of the image, with its parts and their sizes."""

    name: str
    size: int
    parts: Mapping[str, int]


def layers(context: Path, variant: str) -> tuple[list[ImageLayer], list[str]]:
    """The layers of the image for a build context, and the packages whose size is unknown."""
    measured = json.loads((context / "image" / "measured.json").read_text(encoding="utf-8"))
    patterns = listed(context / "image" / "left-out-files.txt")
    sizes: dict[str, int] = {}
    unknown: list[str] = []
    for name, version in sorted(packages(context, variant).items()):
        size = measured.get(f"{name}=={version}") or _installed(name, version, patterns)
        if size is None:
            unknown.append(f"{name}=={version}")
        else:
            sizes[name] = size
    project = {name: _folder(context / name) for name in ("common", "configs", "trainer", "components", "pipeline")}
    code = {path.name: _folder(path) for path in (context / "image" / "code").iterdir() if path.name != "README.md"}
    contents = [
        ("Python", {"base image": PYTHON_BYTES}),
        ("packages", sizes),
        ("this project", project),
        ("code", code),
    ]
    return [ImageLayer(name, sum(parts.values()), parts) for name, parts in contents if parts], unknown


def packages(context: Path, variant: str) -> dict[str, str]:
    """Names and versions of the packages that the image installs, read from the lock as image/install.sh does."""
    left_out = {canonicalize_name(name) for name in listed(context / "image" / "left-out-packages.txt")}
    if variant == "cpu":
        left_out.add(canonicalize_name("tensorflow"))
    entries = tomllib.loads((context / "uv.lock").read_text(encoding="utf-8"))["package"]
    return {name: version for name, version in _resolved(entries, variant).items() if name not in left_out}


def listed(file: Path) -> list[str]:
    """The lines of a file that are not comments."""
    words = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [word for word in words if word]


def _resolved(entries: list[dict[str, Any]], variant: str) -> dict[str, str]:
    versions: dict[str, str] = {}
    project = next(entry for entry in entries if entry["name"] == "headrace")
    extras = [needed for extra in EXTRAS for needed in project["optional-dependencies"][extra]]
    waiting = [*project["dependencies"], *extras, *project["dev-dependencies"][f"image-{variant}"]]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        needed = waiting.pop()
        key = needed["name"], tuple(needed.get("extra", ()))
        if key in seen or not _applies(needed.get("marker")):
            continue
        seen.add(key)
        entry = _entry(entries, needed)
        versions[entry["name"]] = entry["version"]
        waiting += entry.get("dependencies", [])
        waiting += [more for extra in key[1] for more in entry.get("optional-dependencies", {}).get(extra, ())]
    return versions


def _entry(entries: Iterable[dict[str, Any]], needed: Mapping[str, Any]) -> dict[str, Any]:
    """The locked package; if there are several versions, the one for the image's Python."""
    named = [entry for entry in entries if entry["name"] == needed["name"]]
    named = [entry for entry in named if needed.get("version") in (None, entry["version"])]
    fitting = [entry for entry in named if any(map(_applies, entry.get("resolution-markers", [None])))]
    return (fitting or named)[0]


def _applies(marker: str | None) -> bool:
    return marker is None or Marker(marker).evaluate({**TARGET, "extra": ""})


def _installed(name: str, version: str, left_out: Iterable[str]) -> int | None:
    """Bytes that a package takes in the image; None if it or its version is not installed here."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    if distribution.version != version:
        return None
    paths = ((str(file), Path(str(distribution.locate_file(file)))) for file in distribution.files or ())
    return counted(((inside, path.stat().st_size) for inside, path in paths if path.is_file()), left_out)


def counted(files: Iterable[tuple[str, int]], left_out: Iterable[str]) -> int:
    """Bytes in the image of files, given by their paths in site-packages and their sizes."""
    return sum(
        _with_compiled(inside, size)
        for inside, size in files
        if not inside.endswith(".pyc") and not any(_below(inside, pattern) for pattern in left_out)
    )


def _below(path: str, pattern: str) -> bool:
    """Whether a file is in a folder that matches a shell pattern."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) > len(wanted) and all(map(fnmatch, parts, wanted))


def _with_compiled(name: str, size: int) -> int:
    return round(size * (1 + COMPILED)) if name.endswith(".py") else size


def _folder(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(_with_compiled(file.name, file.stat().st_size) for file in files)
