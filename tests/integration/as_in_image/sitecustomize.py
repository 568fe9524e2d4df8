"""On PYTHONPATH, this takes from a component's process what the image leaves out: it can no longer be imported.

Other processes, such as the compiler of a pipeline, are left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

IMAGE = Path(__file__).parents[3] / "image"


def _listed(name: str) -> list[str]:
    lines = (IMAGE / name).read_text(encoding="utf-8").splitlines()
    return [word for word in (line.partition("#")[0].strip() for line in lines) if word]


class LeftOut:
    """A finder that stands before all others."""

    def __init__(self) -> None:
        files = [file for name in _listed("left-out-packages.txt") for file in metadata.distribution(name).files or ()]
        self._files = {str(file.locate()) for file in files}
        self._site = Path(str(metadata.distribution("numpy").locate_file(""))).resolve()
        self._patterns = [pattern.split("/") for pattern in _listed("left-out-files.txt")]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None where the module may be looked for by the others."""
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.origin and self._is_left_out(found.origin):
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
        return None

    def _is_left_out(self, origin: str) -> bool:
        if origin in self._files:
            return True
        if not origin.startswith(f"{self._site}/"):
            return False
        parts = origin[len(str(self._site)) + 1 :].split("/")
        return any(len(parts) > len(one) and all(map(fnmatch, parts, one)) for one in self._patterns)


if "headrace.pipeline.kubeflow.entrypoint" in sys.orig_argv:
    sys.meta_path.insert(0, LeftOut())
