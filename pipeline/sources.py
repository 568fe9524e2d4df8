"""Which source files a component uses, and a digest of what they say.

An edit to code that a component uses must run it again; an edit to a comment, a docstring or the layout must not. The
files are found by following import statements from module to module, through this project's packages and through
the user's own modules, without importing anything; installed packages count by their version instead.
"""

from __future__ import annotations

import ast
import hashlib
import platform
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from configs.installed import version

PROJECT = ("configs", "trainer", "components", "pipeline")
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

_MADE: dict[str, dict[str, str]] = {}


class Source(NamedTuple):
    """What counts of a source file."""

    meaning: str
    """A digest of the program without comments, layout and docstrings."""
    imported: tuple[str, ...]
    """Names of the modules that it may import, wherever in it the import stands, and its own parent packages."""


def sources_digest(*modules: str) -> str:
    """Of the meaning of these modules and of all they import, directly or not."""
    meanings = {name: _read(name, path).meaning for name, path in sorted(closure(*modules).items())}
    parts = [f"{name}={meaning}" for name, meaning in meanings.items()]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    _MADE[digest] = meanings
    return digest


def sources_of(digest: str) -> dict[str, str]:
    """What a digest that this process made is of: module to a digest of its meaning. Empty for any other text."""
    return _MADE.get(digest, {})


@cache
def stack_versions() -> dict[str, str]:
    """The installed versions of the libraries that decide what components compute."""
    return {"python": platform.python_version(), **{name: version(name) for name in STACK}}


def closure(*modules: str) -> dict[str, Path]:
    """Module name to file, for these and all they import within the project and the user's code."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = None if name in found else _locate(name, tuple(sys.path))
        if path is not None:
            found[name] = path
            waiting += _read(name, path).imported
    return found


@cache
def _locate(name: str, search: tuple[str, ...]) -> Path | None:
    """The source file of a module that is the project's or the user's own; None for any other."""
    head, *rest = name.split(".")
    for entry in search:
        base = Path(entry or ".", head, *rest)
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                return path if head in PROJECT or not _installed(path) else None
    return None


def _installed(path: Path) -> bool:
    resolved = path.resolve()
    return any(resolved.is_relative_to(library) for library in _libraries())


@cache
def _libraries() -> tuple[Path, ...]:
    """Where Python's own modules and installed packages lie."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(name) for name in names] + site.getsitepackages() + [site.getusersitepackages()]
    return tuple({Path(path).resolve() for path in found if path})


@cache
def _read(name: str, path: Path) -> Source:
    tree = ast.parse(path.read_bytes(), str(path))
    imported = tuple(dict.fromkeys(_imported(name, path, tree)))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_text(item)]  # type: ignore[attr-defined]
    return Source(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imported)


def _imported(name: str, path: Path, tree: ast.Module) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:end]) for end in range(1, len(parts)))
    package = parts if path.name == "__init__.py" else parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
