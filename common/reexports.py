"""Packages that import whole libraries only to re-export names of them: their `__init__` waits until it is needed.

postpone_reexports("tfx.components", "tensorflow_model_analysis")
from tfx.components.trainer.component import Trainer       # none of the other components is imported
tfx.components.Evaluator                                   # imports them all

Python runs a package's `__init__` before any of its submodules. TFX's imports every component, and with InfraValidator
the client of Kubernetes, of which a run uses nothing. Here the `__init__` runs when a name is used that the package
does not have yet, unless that is the name of a submodule. A package with a `__getattr__` of its own (PEP 562) does the
same, so whoever uses the package, reloads it or pickles what is in it sees no difference.

Packages patch each other, as `tfx.components` does with TFMA. So the first use of such a name in any of them runs every
`__init__` that was left out.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_LOCK = threading.RLock()
_POSTPONED: list[tuple[ModuleType, Loader]] = []
"""The packages whose `__init__` has not run, and what runs it. Those that were not imported at all are not in it."""


def postpone_reexports(*packages: str) -> None:
    """From now on, leave out the `__init__` of these packages when they are imported, until it is needed."""
    sys.meta_path.insert(0, _Finder(packages))


class _Finder(MetaPathFinder):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._packages or target is not None:  # target: a module that is reloaded
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Postponing(spec.loader)
        return spec


class _Postponing(Loader):
    """Leaves everything but the run of the code to a package's own loader."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader  # so that it reloads as any other
        module.__class__ = _Package
        _POSTPONED.append((module, self._loader))


class _Package(ModuleType):
    """A package whose `__init__` has not run."""

    def __getattr__(self, name: str) -> Any:
        """Called for names that the package does not have yet."""
        submodule = f"{self.__name__}.{name}"
        try:
            return importlib.import_module(submodule)
        except ModuleNotFoundError as error:
            if error.name != submodule:
                raise
        _run_postponed()
        return object.__getattribute__(self, name)


def _run_postponed() -> None:
    """Run what was left out, once, whichever thread is the first to need it; the others wait."""
    with _LOCK:
        while _POSTPONED:
            module, loader = _POSTPONED.pop()
            loader.exec_module(module)
            module.__class__ = ModuleType
