"""Whether a function exists at a dotted path, found out without running any of the user's code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from configs.suggest import did_you_mean, listed, meant


def why_not_importable(path: str) -> str | None:
    """What stands in the way of importing `my_package.my_module.my_function`, in plain words; None if nothing seems to.

    Modules are looked for where a run looks: in the current directory and in the installed packages.
    """
    *modules, name = path.split(".")
    spec: ModuleSpec | None = None
    for number, module in enumerate(modules):
        above, so_far = spec, ".".join(modules[: number + 1])
        spec = _find(so_far, above)
        if spec is None:
            searched = f"the package {above.name}" if above else f"{Path.cwd()} nor among the installed packages"
            return f'"{path}": no module {so_far} in {searched}{did_you_mean(module, _modules_in(above))}'
    return _why_not_in(spec, name, path) if spec else None


def _find(module: str, above: ModuleSpec | None) -> ModuleSpec | None:
    if above is None:
        here = PathFinder.find_spec(module, [str(Path.cwd()), *sys.path])
        return here or (find_spec(module) if module != "__main__" else None)
    return PathFinder.find_spec(module, list(above.submodule_search_locations or ()))


def _modules_in(above: ModuleSpec | None) -> list[str]:
    """The modules beside the one that was looked for."""
    folders = [str(Path.cwd())] if above is None else list(above.submodule_search_locations or ())
    found = [path for folder in folders if Path(folder).is_dir() for path in Path(folder).iterdir()]
    return [path.stem for path in found if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier())]


def _why_not_in(spec: ModuleSpec, name: str, path: str) -> str | None:
    """Reads the source, where there is one; one that makes names when imported gets the benefit of doubt."""
    if spec.origin is None:
        inside = f"; it holds: {listed(_modules_in(spec))}"
        return f'"{path}": {spec.name} is a folder, which defines nothing; name a module in it{inside}'
    file = Path(spec.origin)
    if file.suffix != ".py" or not file.is_file():
        return None
    try:
        names = list(_defined(ast.parse(file.read_bytes()).body))
    except SyntaxError as error:
        return f'"{path}": {file}:{error.lineno} is not Python: {error.msg}'
    if name in names or "*" in names or "__getattr__" in names:
        return None
    return f'"{path}": {file} defines no {name}{meant(name, names, "it defines")}'


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """The names that a module's statements bind, those in `if` and `try` too."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
            for block in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(statement, block, []))
            for handler in getattr(statement, "handlers", []):
                yield from _defined(handler.body)
