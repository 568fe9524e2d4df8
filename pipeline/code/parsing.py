"""Parse a file of code into a digest of its meaning and the modules that it may import.

Parsing this whole project takes two seconds, so results are cached in the user's cache folder by the content of the
file. An entry can therefore never be stale, whichever file it is looked up for. If that folder is not writable, each
process parses for itself.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import platform
import re
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

from headrace.common.durable import write_text
from headrace.common.environment import cache_folder

MAX_ENTRIES = 5_000
"""Cached files. Beyond this, entries that the last process did not need are dropped."""
LOADERS = frozenset({"import_module", "__import__", "resolve_name", "run_module"})
"""Python's functions that import a module named by a string."""
MODULE = re.compile(r"(\.*)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::[\w.]+)?")
"""A string that may name a module: leading dots if it is relative to a package, and an optional attribute."""


class ParsedCode(NamedTuple):
    """The parts of a file that matter for a digest."""

    meaning: str
    """A digest of the program without comments, layout and docstrings; of the bytes if it is not Python source."""
    imported: tuple[str, ...]
    """The modules that it may import, wherever the import statement is, and its own parent packages."""


class ParseCache:
    """The files parsed by this process and earlier ones.

    cache = ParseCache(); parsed = cache.parse(spec); cache.save()
    """

    def __init__(self) -> None:
        self._known = _load()
        self._used: dict[str, ParsedCode] = {}

    def parse(self, spec: ModuleSpec) -> ParsedCode | None:
        """Parse a module; None for a folder without code. Raises OSError if the file cannot be read."""
        content = _content(spec)
        if content is None:
            return None
        is_package = spec.submodule_search_locations is not None
        head = f"{_version()} {spec.name} {is_package} {spec.origin and Path(spec.origin).suffix}\n"
        key = hashlib.sha256(head.encode() + content).hexdigest()
        found = self._used.get(key) or self._read(key) or _parse(spec, content, is_package=is_package)
        self._used[key] = found
        return found

    def _read(self, key: str) -> ParsedCode | None:
        """An entry of the disk; None if there is none, or it is damaged. A damaged one is then written again."""
        try:
            meaning, imported = self._known[key]
            return ParsedCode(str(meaning), tuple(map(str, imported)))
        except (KeyError, ValueError, TypeError):
            self._known.pop(key, None)
            return None

    def save(self) -> None:
        """Write new entries to disk, for later processes."""
        if self._used.keys() <= self._known.keys():
            return
        merged = {**self._known, **self._used}
        self._known = merged if len(merged) <= MAX_ENTRIES else dict(self._used)
        with contextlib.suppress(OSError, RuntimeError):
            write_text(_file(), json.dumps(self._known))


@cache
def _version() -> str:
    """Everything that decides how a meaning is computed: this file and Python's grammar."""
    return f"{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()} {platform.python_version()}"


def _file() -> Path:
    """Raises RuntimeError if the user has no home folder."""
    return cache_folder() / "sources.json"


def _load() -> dict[str, Any]:
    """The entries on disk; empty if the file is missing or damaged."""
    try:
        read = json.loads(_file().read_text(encoding="utf-8"))
        return read if isinstance(read, dict) else {}
    except (OSError, RuntimeError, ValueError):
        return {}


def _content(spec: ModuleSpec) -> bytes | None:
    """The bytes of the module's file, which may be in a zip archive."""
    if spec.origin is None or not spec.has_location:
        return None
    if Path(spec.origin).is_file():
        return Path(spec.origin).read_bytes()
    get_data = getattr(spec.loader, "get_data", None)
    content: bytes | None = get_data(spec.origin) if get_data else None
    return content


def _parse(spec: ModuleSpec, content: bytes, *, is_package: bool) -> ParsedCode:
    parts = spec.name.split(".")
    parents = [".".join(parts[:end]) for end in range(1, len(parts))]
    if not str(spec.origin).endswith(".py"):
        return ParsedCode(hashlib.sha256(content).hexdigest(), tuple(parents))
    try:
        tree = ast.parse(content)
        imported = tuple(dict.fromkeys([*parents, *_imported(parts if is_package else parts[:-1], tree)]))
        return ParsedCode(_meaning(tree), imported)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # importing it fails too, and reports the line
        return ParsedCode(hashlib.sha256(content).hexdigest(), tuple(parents))


def _meaning(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_string(item)]  # type: ignore[attr-defined]
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
    if any(_mentions_loader(node) for node in ast.walk(tree)):
        yield from _named_in_strings(package, tree)


def _mentions_loader(node: ast.AST) -> bool:
    """Whether the node mentions a function that imports a module by name, under its own or another name."""
    mentioned = (
        node.attr if isinstance(node, ast.Attribute)
        else node.id if isinstance(node, ast.Name)
        else node.name if isinstance(node, ast.alias)
        else None
    )  # fmt: skip
    return mentioned in LOADERS


def _named_in_strings(package: list[str], tree: ast.Module) -> Iterator[str]:
    """Every string that may be the name of a module, as it may reach a loader function in any way.

    One name too many runs a component again without need; one too few would reuse a result that is out of date.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := MODULE.fullmatch(node.value)):
            dots, name = named.groups()
            yield ".".join([*(package[: len(package) - len(dots) + 1] if dots else []), name])


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
