"""Which source files a component uses, and a digest of what they say.

An edit to code that a component uses must run it again; an edit to a comment, a docstring or the layout must not. The
files are found by following import statements from module to module, through this project's packages and through
the user's own modules, without importing anything; installed packages count by their version instead.
"""

from __future__ import annotations

import hashlib
import platform
import site
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path

from headrace.configs.errors import RunError
from headrace.configs.installed import version
from headrace.pipeline.modules import find_below, search_path
from headrace.pipeline.parsed import Parsed

PROJECT = "headrace"
STACK = (
    "apache-beam",
    "isal",
    "keras",
    "numpy",
    "pyarrow",
    "tensorflow",
    "tensorflow-data-validation",
    "tensorflow-transform",
    "tfx",
    "tfx-bsl",
    "zlib-ng",
)
PACKAGES = {name.replace("-", "_"): name for name in STACK}
"""What each is imported as; their versions count for every component."""
LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""Names of folders that installed packages lie in, in this environment and in those that it is made upon."""

_MADE: dict[str, dict[str, str]] = {}
_ASKED: dict[str, tuple[str, ...]] = {}


def sources_digest(module: str, *others: str) -> str:
    """Of the meaning of these modules and of all they import, directly or not.

    Raises RunError where one of them is not there: a digest without its code would never change.
    """
    meanings = {name: meaning for name, (_, meaning) in sorted(_followed((module, *others)).items())}
    parts = [f"{name}={meaning}" for name, meaning in meanings.items()]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    _MADE[digest] = meanings
    _ASKED.setdefault(digest, tuple(dict.fromkeys((module, *others))))
    return digest


def sources_of(digest: str) -> dict[str, str]:
    """What a digest that this process made is of: module to a digest of its meaning. Empty for any other text."""
    return _MADE.get(digest, {})


def asked_for() -> dict[str, tuple[str, ...]]:
    """Each digest that this process made, with the modules that it was asked for."""
    return dict(_ASKED)


@cache
def stack_versions() -> dict[str, str]:
    """The installed versions of the libraries that decide what components compute."""
    return {"python": platform.python_version(), **{name: version(name) for name in STACK}}


def closure(*modules: str) -> dict[str, Path]:
    """Module name to file, for these and all they import within the project and the user's code."""
    return {name: Path(file) for name, (file, _) in _followed(modules).items() if file}


def _followed(modules: tuple[str, ...]) -> Mapping[str, tuple[str, str]]:
    """Module to its file and its meaning; an installed package that counts by its version has no file."""
    return _follow(tuple(sorted({*modules})), tuple(search_path()))


@cache
def _follow(modules: tuple[str, ...], searched: tuple[str, ...]) -> Mapping[str, tuple[str, str]]:
    """As found once in a process, so that all that it makes is of the same code. searched: what it depends on."""
    imports = _Imports(modules)
    imports.follow()
    if missing := [name for name in modules if name not in imports.found]:
        raise RunError(
            f"no module {', '.join(missing)}, whose code decides what a component computes; modules are looked for in"
            f" PYTHONPATH, among the installed packages, and in {searched[-1]}"
        )
    return imports.found


class _Imports:
    """The way from some modules to all that they import. `found`: as `_followed` has it."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self._modules = modules
        self._asked = {_head(name) for name in modules} - PACKAGES.keys() - sys.stdlib_module_names
        self._specs: dict[str, ModuleSpec | None] = {}
        self._parsed = _parsed()

    def follow(self) -> None:
        """Find all of them."""
        waiting = list(self._modules)
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if self._is_followed(_head(name)):
                waiting += self._read(name)
            elif name in self._modules and self._spec(name):
                self.found[name] = "", _release(_head(name))
        self._parsed.keep()

    def _read(self, name: str) -> list[str]:
        """Take a module, and give what it imports of the project's and the user's; of packages, take the versions."""
        spec = self._spec(name)
        source = self._parsed.source(spec) if spec else None
        if spec is None or source is None:
            return []
        self.found[name] = str(spec.origin), source.meaning
        if _head(name) == PROJECT:  # whose own modules use nothing of headrace/__init__.py, which names half of them
            return [each for each in source.imported if each != PROJECT]
        for head in {*map(_head, source.imported)} - PACKAGES.keys() - sys.stdlib_module_names:
            if not self._is_followed(head) and self._spec(head):
                self.found[head] = "", _release(head)
        return list(source.imported)

    def _is_followed(self, head: str) -> bool:
        """Whether a package's files count: the project's, the user's, and those of a package that holds the user's
        function, wherever it lies.
        """
        if head == PROJECT or head in self._asked:
            return True
        spec = None if head in sys.stdlib_module_names else self._spec(head)
        return spec is not None and not _installed(spec)

    def _spec(self, name: str) -> ModuleSpec | None:
        if name not in self._specs:
            above, _, _ = name.rpartition(".")
            package = self._spec(above) if above else None
            missing = above and (package is None or package.submodule_search_locations is None)
            self._specs[name] = None if missing else find_below(name, package)
        return self._specs[name]


@cache
def _parsed() -> Parsed:
    return Parsed()


def _head(name: str) -> str:
    return name.partition(".")[0]


@cache
def _release(head: str) -> str:
    """The version of the distribution that an installed package is of; of all that share a namespace."""
    if head in sys.stdlib_module_names:
        return f"python {platform.python_version()}"
    try:
        return f"{head} {version(PACKAGES.get(head, head))}"
    except metadata.PackageNotFoundError:
        found = sorted({*metadata.packages_distributions().get(head, ())})
        return " ".join(f"{name} {version(name)}" for name in found) or "of no distribution"


def _installed(spec: ModuleSpec) -> bool:
    """Whether a package lies where Python's own or installed ones do."""
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location and spec.origin else [])]
    if not places:
        return True  # built into Python
    place = Path(next(iter(places)))
    resolved = place.resolve()
    inside = LIBRARIES.intersection(place.parts) or LIBRARIES.intersection(resolved.parts)
    return bool(inside) or any(resolved.is_relative_to(library) for library in _libraries())


@cache
def _libraries() -> tuple[Path, ...]:
    """Where Python's own modules and installed packages lie."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(name) for name in names] + site.getsitepackages() + [site.getusersitepackages()]
    return tuple({Path(path).resolve() for path in found if path})
