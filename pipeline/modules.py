"""Where the modules lie that a run imports: one search, for the checks of a config and for the digests of code.

A run looks in PYTHONPATH, among the installed packages (editable ones may be found by hooks, not by folders), and
last in the current directory. Nothing is imported here, not even the packages around a module.

spec = find("mine.features")            # None: there is no such module
spec.origin                             # its file; None for a folder without __init__.py
"""

from __future__ import annotations

import os
import sys
import sysconfig
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


def find(name: str) -> ModuleSpec | None:
    """The module of that full name; None where there is none."""
    found: ModuleSpec | None = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        found = find_below(".".join(parts[:end]), found)
        if found is None:
            return None
    return found


def find_below(name: str, package: ModuleSpec | None) -> ModuleSpec | None:
    """The module of that full name, whose package is known; None: it is at the top."""
    if package is None and name == "__main__":
        return None
    folders = search_path() if package is None else list(package.submodule_search_locations or ())
    for finder in sys.meta_path:
        look = getattr(finder, "find_spec", None)
        try:
            if finder is PathFinder:
                found = _in_folders(name, folders)
            else:
                found = look and look(name, None if package is None else folders)
        except ImportError:  # what a finder says of a module that must not be imported
            return None
        if found is not None:
            return found
    return None


def _in_folders(name: str, folders: list[str]) -> ModuleSpec | None:
    """As PathFinder finds it, which looks into sys.modules for the package around a folder without __init__.py: here no
    package is imported, so the module is looked for by its last name alone.
    """
    found = PathFinder.find_spec(name.rpartition(".")[2], folders)
    if found is not None:
        found.name = name
        if found.submodule_search_locations is not None:
            found.submodule_search_locations = list(found.submodule_search_locations)
    return found


def search_path() -> list[str]:
    """Folders, in the order in which a run looks through them (pipeline/local/warm.py)."""
    here, scripts = str(Path.cwd()), sysconfig.get_path("scripts")
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [*given, *(entry for entry in sys.path if entry not in ("", here, scripts)), here]
