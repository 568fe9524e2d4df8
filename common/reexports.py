"""Packages that import whole libraries only to re-export names of them: their `__init__` waits until it is needed.

postpone_reexports("tfx.components", "tensorflow_model_analysis", together=True)
from tfx.components.trainer.component import Trainer       # none of the other components is imported
tfx.components.Evaluator                                   # imports them all

postpone_reexports("tensorflow._api.v2.*")                 # each package below it, when a name of it is used

Python runs a package's `__init__` before any of its submodules. TFX's imports every component, and with InfraValidator
the client of Kubernetes, of which a run uses nothing. Here the `__init__` runs when a name is used that the package
does not have yet, unless that is the name of a submodule. A package with a `__getattr__` of its own (PEP 562) does the
same, so whoever uses the package, reloads it or pickles what is in it sees no difference. A module that is not a
package can wait as well.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

BELOW = ".*"


@dataclass(frozen=True)
class _LeftOut:
    """Packages whose `__init__` has not run, and what runs it. The lock is their own, since an `__init__` imports
    modules that another thread may be importing, which may need another package.
    """

    packages: list[tuple[ModuleType, Loader]] = field(default_factory=list)
    lock: AbstractContextManager[bool | None] = field(default_factory=threading.RLock)

    def run(self) -> None:
        """Run all of them, once, whichever thread is the first to need it; the others wait."""
        with self.lock:
            while self.packages:
                module, loader = self.packages.pop()
                loader.exec_module(module)
                module.__class__ = ModuleType


_LEFT_OUT: dict[str, _LeftOut] = {}
"""By the names of the packages that were imported."""


def postpone_reexports(*packages: str, together: bool = False) -> None:
    """From now on, leave out the `__init__` of these packages when they are imported, until it is needed.

    packages: a name that ends in `.*` stands for all below a package; together: the first use of a name in any of them
    runs every `__init__` that was left out, since they patch each other, as `tfx.components` does with TFMA.
    """
    sys.meta_path.insert(0, _Finder(packages, _LeftOut() if together else None))


class _Finder(MetaPathFinder):
    def __init__(self, packages: Iterable[str], shared: _LeftOut | None) -> None:
        self._names = {name for name in packages if not name.endswith(BELOW)}
        self._above = tuple(name.removesuffix("*") for name in packages if name.endswith(BELOW))
        self._shared = shared

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        named = fullname in self._names or fullname.startswith(self._above)
        if not named or target is not None:  # target: a module that is reloaded
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Postponing(spec.loader, self._shared or _LeftOut())
        return spec


class _Postponing(Loader):
    """Leaves everything but the run of the code to a package's own loader."""

    def __init__(self, loader: Loader, left_out: _LeftOut) -> None:
        self._loader, self._left_out = loader, left_out

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader  # so that it reloads as any other
        module.__class__ = _Package
        self._left_out.packages.append((module, self._loader))
        _LEFT_OUT[module.__name__] = self._left_out


class _Package(ModuleType):
    """A package whose `__init__` has not run."""

    def __getattr__(self, name: str) -> Any:
        """Called for names that the package does not have yet."""
        submodule = f"{self.__name__}.{name}"
        if "__path__" in vars(self):
            try:
                return importlib.import_module(submodule)
            except ModuleNotFoundError as error:
                if error.name != submodule:
                    raise
        _LEFT_OUT[self.__name__].run()
        return object.__getattribute__(self, name)

    def __dir__(self) -> Iterable[str]:
        _LEFT_OUT[self.__name__].run()
        return ModuleType.__dir__(self)  # it is no longer a _Package
