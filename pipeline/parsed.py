"""What a file of code says: a digest of its meaning, and the modules that it may import.

To parse all of this project takes two seconds, so what was found is kept in the user's cache folder, by the content of
the file: an entry that is there is right, whichever file it is looked up for. Without a folder that can be written to,
each process parses anew.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import platform
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "XDG_CACHE_HOME"
MOST = 5_000
"""Entries that are kept; with more of them, those that the last process did not need are dropped."""
LOADERS = frozenset({"import_module", "__import__", "resolve_name", "run_module"})
"""Functions of Python's that import a module whose name is a text."""
MODULE = re.compile(r"(\.*)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::[\w.]+)?")
"""A text that may be the name of a module: dots where it is relative to a package, and what it is asked for."""


class Source(NamedTuple):
    """What counts of a file of code."""

    meaning: str
    """A digest of the program without comments, layout and docstrings; of its bytes, where it is not Python's text."""
    imported: tuple[str, ...]
    """Names of the modules that it may import, wherever in it the import stands, and its own parent packages."""


class Parsed:
    """The files that were parsed, in this process and before.

    parsed = Parsed(); source = parsed.source(spec); parsed.keep()
    """

    def __init__(self) -> None:
        self._known = _kept()
        self._used: dict[str, Source] = {}

    def source(self, spec: ModuleSpec) -> Source | None:
        """Of a module; None of a folder without code. Raises OSError where the file cannot be read."""
        content = _content(spec)
        if content is None:
            return None
        is_package = spec.submodule_search_locations is not None
        head = f"{_version()} {spec.name} {is_package} {spec.origin and Path(spec.origin).suffix}\n"
        key = hashlib.sha256(head.encode() + content).hexdigest()
        found = self._used.get(key) or self._known.get(key) or _parse(spec, content, is_package=is_package)
        self._used[key] = found
        return found

    def keep(self) -> None:
        """For the processes to come, where something was parsed anew."""
        if self._used.keys() <= self._known.keys():
            return
        together = {**self._known, **self._used}
        self._known = together if len(together) <= MOST else dict(self._used)
        with contextlib.suppress(OSError, RuntimeError):
            _write(_file(), json.dumps(self._known))


@cache
def _version() -> str:
    """Of what decides how a meaning is found: this file and Python's grammar."""
    return f"{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()} {platform.python_version()}"


def _file() -> Path:
    """Raises RuntimeError where the user has no home."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".cache") / "headrace" / "sources.json"


def _kept() -> dict[str, Source]:
    """Nothing, where the file is not there or is damaged."""
    try:
        read: dict[str, Any] = json.loads(_file().read_text(encoding="utf-8"))
        return {key: Source(str(meaning), tuple(map(str, imported))) for key, (meaning, imported) in read.items()}
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError):
        return {}


def _write(file: Path, text: str) -> None:
    """At once, so that no other process reads half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=file.parent, prefix=".sources-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(partial).replace(file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _content(spec: ModuleSpec) -> bytes | None:
    """The bytes of the file, also of one in a zip archive."""
    if spec.origin is None or not spec.has_location:
        return None
    if Path(spec.origin).is_file():
        return Path(spec.origin).read_bytes()
    get_data = getattr(spec.loader, "get_data", None)
    content: bytes | None = get_data(spec.origin) if get_data else None
    return content


def _parse(spec: ModuleSpec, content: bytes, *, is_package: bool) -> Source:
    parts = spec.name.split(".")
    parents = [".".join(parts[:end]) for end in range(1, len(parts))]
    if not str(spec.origin).endswith(".py"):
        return Source(hashlib.sha256(content).hexdigest(), tuple(parents))
    try:
        tree = ast.parse(content)
        imported = tuple(dict.fromkeys([*parents, *_imported(parts if is_package else parts[:-1], tree)]))
        return Source(_meaning(tree), imported)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # to import it fails as well, and says where
        return Source(hashlib.sha256(content).hexdigest(), tuple(parents))


def _meaning(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_text(item)]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _imported(package: list[str], tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
    if any(_loads_by_name(node) for node in ast.walk(tree)):
        yield from _named(package, tree)


def _loads_by_name(node: ast.AST) -> bool:
    """Whether it mentions a function that imports a module by its name, under that or another one."""
    mentioned = (
        node.attr if isinstance(node, ast.Attribute)
        else node.id if isinstance(node, ast.Name)
        else node.name if isinstance(node, ast.alias)
        else None
    )  # fmt: skip
    return mentioned in LOADERS


def _named(package: list[str], tree: ast.Module) -> Iterator[str]:
    """Every text that may be a module's name, since it may reach such a function in any way.

    With one too many a component runs again that need not; with one too few, one does not run again that must.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := MODULE.fullmatch(node.value)):
            dots, name = named.groups()
            yield ".".join([*(package[: len(package) - len(dots) + 1] if dots else []), name])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
