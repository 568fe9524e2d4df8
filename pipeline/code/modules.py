"""Find the modules that a run would import, and check the functions that a config names, without importing anything.

The digests of code and the checks of a config share this search. A run searches PYTHONPATH, then the installed packages
(editable ones may be found by import hooks rather than folders), and finally the current directory.

spec = find("mine.features")            # None if there is no such module
spec.origin                             # its file; None for a folder without __init__.py
why_not_importable("mine.features.age") # None if nothing seems to be wrong
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TypeGuard

from headrace.common.names import did_you_mean, did_you_mean_or_list, join_names


def find(name: str) -> ModuleSpec | None:
    """Find a module by its full name; None if there is none."""
    found: ModuleSpec | None = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        found = find_below(".".join(parts[:end]), found)
        if found is None:
            return None
    return found


def find_below(name: str, package: ModuleSpec | None) -> ModuleSpec | None:
    """Find a module by its full name, given the spec of its package; None for a top-level module."""
    if package is None and name == "__main__":
        return None
    folders = search_path() if package is None else list(package.submodule_search_locations or ())
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        try:
            if finder is PathFinder:
                found = _in_folders(name, folders)
            else:
                found = find_spec and find_spec(name, None if package is None else folders)
        except ImportError:  # raised by finders for modules that must not be imported
            return None
        if found is not None:
            return found
    return None


def search_path() -> list[str]:
    """The folders that a run searches, in order (pipeline/local/fork_server.py)."""
    here, scripts = str(Path.cwd()), _scripts()
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return [*given, *(entry for entry in sys.path if entry not in ("", here, scripts)), here]


@cache
def _scripts() -> str:
    """The folder of installed commands, which `sysconfig` composes in 0.2 ms."""
    return sysconfig.get_path("scripts")


def why_not_importable(path: str) -> str | None:
    """Explain why `my_package.my_module.my_function` cannot be imported; None if nothing seems to be wrong."""
    *modules, name = path.split(".")
    spec: ModuleSpec | None = None
    for number, module in enumerate(modules):
        package, so_far = spec, ".".join(modules[: number + 1])
        spec = find_below(so_far, package)
        if spec is None:
            searched = f"the package {package.name}" if package else f"{Path.cwd()} or among the installed packages"
            near = did_you_mean(module, _modules_in(package))
            return f'"{path}": there is no module {so_far} in {searched}{near}{_shadowed(modules[0])}'
    why = _why_not_defined(spec, name, path) if spec else None
    return why and why + _shadowed(modules[0])


def why_not_callable(path: str, argument: str, *optional: str, caller: str = "TFX") -> str | None:
    """Explain why a function cannot be called with one argument, or with further ones by name if it has them.

    None if nothing seems to be wrong, or if the source does not say: it may be decorated, imported or computed.
    """
    module, _, name = path.rpartition(".")
    spec = find(module)
    file = Path(spec.origin) if spec and spec.origin else None
    if file is None or file.suffix != ".py" or not file.is_file():
        return None
    defined = [node for node in ast.parse(file.read_bytes()).body if getattr(node, "name", None) == name]
    function = defined[-1] if defined else None
    if isinstance(function, ast.ClassDef):
        return f'"{path}": {file}:{function.lineno} defines a class; a function {name}({argument}) is needed'
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return None
    given = function.args
    positional = [each.arg for each in (*given.posonlyargs, *given.args)]
    required = positional[: len(positional) - len(given.defaults)]
    required += [each.arg for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if not default]
    if (positional or given.vararg) and {*required[1:]} <= {*optional}:
        return None
    found = f"{name}({ast.unparse(given)})"
    return f'"{path}": {file}:{function.lineno} defines {found}; {caller} calls it as {name}({argument})'


def _in_folders(name: str, folders: list[str]) -> ModuleSpec | None:
    """Find a module as PathFinder does, by its last name alone.

    Given the full name of a folder without __init__.py, PathFinder looks its package up in sys.modules; here no package
    is imported.
    """
    found = PathFinder.find_spec(name.rpartition(".")[2], folders)
    if found is not None:
        found.name = name
        if found.submodule_search_locations is not None:
            found.submodule_search_locations = list(found.submodule_search_locations)
    return found


def _shadowed(module: str) -> str:
    """A hint if a module of the current directory is shadowed by another one of the same name."""
    own = PathFinder.find_spec(module, [str(Path.cwd())])
    found = find_below(module, None)
    if own is None or found is None or _locations(own)[0] in _locations(found):
        return ""
    return f"; it shadows {_locations(own)[0]}, as the current directory is searched last: rename that one"


def _locations(spec: ModuleSpec) -> list[str]:
    """The folders of a package, or the file of a module."""
    return list(spec.submodule_search_locations or ()) or [spec.origin or spec.name]


def _modules_in(package: ModuleSpec | None) -> list[str]:
    """The modules of a package, or of the current directory."""
    folders = [str(Path.cwd())] if package is None else list(package.submodule_search_locations or ())
    found = [path for folder in folders if Path(folder).is_dir() for path in Path(folder).iterdir()]
    names = [path.stem for path in found if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier())]
    return [name for name in names if not name.startswith("__")]


def _why_not_defined(spec: ModuleSpec, name: str, path: str) -> str | None:
    """Look the name up in the module's source; a module that may define names while it is imported passes."""
    if spec.origin is None:
        inside = f"; it holds: {join_names(_modules_in(spec))}"
        return f'"{path}": {spec.name} is a folder, which defines nothing; name a module in it{inside}'
    file = Path(spec.origin)
    if file.suffix != ".py" or not file.is_file():
        return None
    try:
        names = list(dict.fromkeys(_defined(ast.parse(file.read_bytes()).body)))
    except SyntaxError as error:
        return f'"{path}": {file}:{error.lineno} is not valid Python: {error.msg}'
    if name in names or "*" in names or "__getattr__" in names:
        return None
    return f'"{path}": {file} does not define {name}{did_you_mean_or_list(name, names, "it defines")}'


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements bind, including those nested in `if` and `try`."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            yield from (node.id for node in ast.walk(statement) if _binds(node))
            for block in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(statement, block, []))
            for handler in getattr(statement, "handlers", []):
                yield from _defined(handler.body)


def _binds(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
