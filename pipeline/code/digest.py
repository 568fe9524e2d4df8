"""Digest the source code that a component uses.

An edit to that code must run the component again; an edit to a comment, a docstring or the layout must not. The files
are found by following import statements from module to module, through this project and the user's own modules, without
importing anything. Installed packages count by their version instead.
"""

from __future__ import annotations

import hashlib
import importlib
import platform
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path

from headrace.common.digests import digest_text, installed_version
from headrace.common.errors import RunError
from headrace.pipeline.code.modules import find_below, search_path
from headrace.pipeline.code.parsing import ParseCache, ParsedCode

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
"""Import name to distribution name. Their versions count for every component."""
LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""Names of the folders that hold installed packages, in this environment and in those that it is based on."""

_MEANINGS: dict[str, dict[str, str]] = {}
_REQUESTS: dict[str, tuple[str, ...]] = {}


def sources_digest(module: str, *others: str) -> str:
    """The digest of these modules and of everything they import, directly or not.

    Raises RunError if one of them does not exist: a digest without its code would never change.
    """
    meanings = {name: meaning for name, (_, meaning) in sorted(_reachable((module, *others)).items())}
    parts = [f"{name}={meaning}" for name, meaning in meanings.items()]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    _MEANINGS[digest] = meanings
    _REQUESTS.setdefault(digest, tuple(dict.fromkeys((module, *others))))
    return digest


def sources_of(digest: str) -> dict[str, str]:
    """Module to the digest of its meaning, for a digest made by this process; empty for any other string."""
    return _MEANINGS.get(digest, {})


def code_digest(meanings: Iterable[tuple[str, str]]) -> str:
    """A digest of modules and the digests of their meanings, in any order and as often as they come."""
    return digest_text(*(f"{name}={meaning}" for name, meaning in sorted(dict(meanings).items())))


def requested_modules() -> dict[str, tuple[str, ...]]:
    """Each digest made by this process, with the modules that it was requested for."""
    return dict(_REQUESTS)


@cache
def stack_versions() -> dict[str, str]:
    """The installed versions of the libraries that decide what components compute."""
    return {"python": platform.python_version(), **{name: installed_version(name) for name in STACK}}


def read_again() -> None:
    """Forget the code and the versions read so far: a notebook outlives edits and installations."""
    for known in (_follow, _seen, stack_versions, _release):
        known.cache_clear()
    importlib.invalidate_caches()


def closure(*modules: str) -> dict[str, Path]:
    """Module name to file, for these modules and all they import within the project and the user's code."""
    return {name: Path(file) for name, (file, _) in _reachable(modules).items() if file}


def _reachable(modules: tuple[str, ...]) -> Mapping[str, tuple[str, str]]:
    """Module to its file and its meaning. Installed packages, which count by their version, have no file."""
    return _follow(tuple(sorted({*modules})), tuple(search_path()))


@cache
def _follow(modules: tuple[str, ...], searched: tuple[str, ...]) -> Mapping[str, tuple[str, str]]:
    """Cached, so that all digests of a process describe the same code. The result depends on `searched`."""
    imports = _ImportGraph(modules, _seen(searched))
    imports.follow()
    if missing := [name for name in modules if name not in imports.found]:
        raise RunError(
            f"there is no module {', '.join(missing)}, whose code decides what a component computes; PYTHONPATH,"
            f" the installed packages and {searched[-1]} were searched"
        )
    return imports.found


@dataclass(frozen=True)
class _ModuleCache:
    """Where modules were found, and what they hold, for all digests of a process.

    followed: whether the files of a top-level package count, unless it holds the user's function.
    """

    specs: dict[str, ModuleSpec | None] = field(default_factory=dict)
    followed: dict[str, bool] = field(default_factory=dict)
    parsed: dict[str, ParsedCode | None] = field(default_factory=dict)


@cache
def _seen(searched: tuple[str, ...]) -> _ModuleCache:  # noqa: ARG001 - where modules are found depends on it
    return _ModuleCache()


class _ImportGraph:
    """Follows imports from some modules. `found` maps modules as `_reachable` returns them."""

    def __init__(self, modules: tuple[str, ...], seen: _ModuleCache) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self._modules = modules
        self._requested = {_head(name) for name in modules} - PACKAGES.keys() - sys.stdlib_module_names
        self._seen = seen
        self._parse_cache = _parse_cache()

    def follow(self) -> None:
        """Find everything reachable."""
        waiting = list(self._modules)
        visited: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in visited:
                continue
            visited.add(name)
            if self._is_followed(_head(name)):
                waiting += self._read(name)
            elif name in self._modules and self._spec(name):
                self.found[name] = "", _release(_head(name))
        self._parse_cache.save()

    def _read(self, name: str) -> list[str]:
        """Add a module and the versions of the packages it uses; return the modules it imports."""
        spec = self._spec(name)
        if name not in self._seen.parsed:
            self._seen.parsed[name] = self._parse_cache.parse(spec) if spec else None
        parsed = self._seen.parsed[name]
        if spec is None or parsed is None:
            return []
        self.found[name] = str(spec.origin), parsed.meaning
        if _head(name) == PROJECT:  # headrace/__init__.py names half of the project, and its own modules do not use it
            return [each for each in parsed.imported if each != PROJECT]
        for head in {*map(_head, parsed.imported)} - PACKAGES.keys() - sys.stdlib_module_names:
            if not self._is_followed(head) and self._spec(head):
                self.found[head] = "", _release(head)
        return list(parsed.imported)

    def _is_followed(self, head: str) -> bool:
        """Whether the files of a top-level package count: the project's, the user's, and those of the package that
        holds the user's function, wherever it is installed.
        """
        if head == PROJECT or head in self._requested:
            return True
        if head not in self._seen.followed:
            spec = None if head in sys.stdlib_module_names else self._spec(head)
            self._seen.followed[head] = spec is not None and not _installed(spec)
        return self._seen.followed[head]

    def _spec(self, name: str) -> ModuleSpec | None:
        specs = self._seen.specs
        if name not in specs:
            above, _, _ = name.rpartition(".")
            package = self._spec(above) if above else None
            missing = above and (package is None or package.submodule_search_locations is None)
            specs[name] = None if missing else find_below(name, package)
        return specs[name]


@cache
def _parse_cache() -> ParseCache:
    return ParseCache()


def _head(name: str) -> str:
    return name.partition(".")[0]


@cache
def _release(head: str) -> str:
    """The version of the distribution that provides a package; of all of them for a namespace package."""
    if head in sys.stdlib_module_names:
        return f"python {platform.python_version()}"
    try:
        return f"{head} {installed_version(PACKAGES.get(head, head))}"
    except metadata.PackageNotFoundError:
        found = sorted({*metadata.packages_distributions().get(head, ())})
        return " ".join(f"{name} {installed_version(name)}" for name in found) or "of no distribution"


def _installed(spec: ModuleSpec) -> bool:
    """Whether a package is part of Python or was installed."""
    locations = [
        *(spec.submodule_search_locations or ()),
        *([spec.origin] if spec.has_location and spec.origin else []),
    ]
    if not locations:
        return True  # built into Python
    location = Path(next(iter(locations)))
    resolved = location.resolve()
    inside = LIBRARIES.intersection(location.parts) or LIBRARIES.intersection(resolved.parts)
    return bool(inside) or any(resolved.is_relative_to(library) for library in _libraries())


@cache
def _libraries() -> tuple[Path, ...]:
    """The folders of Python's own modules and of installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(name) for name in names] + site.getsitepackages() + [site.getusersitepackages()]
    return tuple({Path(path).resolve() for path in found if path})
