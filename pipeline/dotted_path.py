"""Whether a function exists at a dotted path, found out without running any of the user's code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TypeGuard

from headrace.configs.suggest import did_you_mean, listed, meant
from headrace.pipeline.modules import find_below


def why_not_importable(path: str) -> str | None:
    """What stands in the way of importing `my_package.my_module.my_function`, in plain words; None if nothing seems to.

    Modules are looked for where a run looks (pipeline/modules.py).
    """
    *modules, name = path.split(".")
    spec: ModuleSpec | None = None
    for number, module in enumerate(modules):
        above, so_far = spec, ".".join(modules[: number + 1])
        spec = find_below(so_far, above)
        if spec is None:
            searched = f"the package {above.name}" if above else f"{Path.cwd()} nor among the installed packages"
            near = did_you_mean(module, _modules_in(above))
            return f'"{path}": no module {so_far} in {searched}{near}{_hidden(modules[0])}'
    why = _why_not_in(spec, name, path) if spec else None
    return why and why + _hidden(modules[0])


def _hidden(module: str) -> str:
    """A hint where a module of the current directory is not the one that is found."""
    own = PathFinder.find_spec(module, [str(Path.cwd())])
    found = find_below(module, None)
    if own is None or found is None or _places(own)[0] in _places(found):
        return ""
    return f"; it hides {_places(own)[0]} in the current directory, which is looked in last: give that another name"


def _places(spec: ModuleSpec) -> list[str]:
    """A package's folders, or a module's file."""
    return list(spec.submodule_search_locations or ()) or [spec.origin or spec.name]


def _modules_in(above: ModuleSpec | None) -> list[str]:
    """The modules beside the one that was looked for."""
    folders = [str(Path.cwd())] if above is None else list(above.submodule_search_locations or ())
    found = [path for folder in folders if Path(folder).is_dir() for path in Path(folder).iterdir()]
    names = [path.stem for path in found if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier())]
    return [name for name in names if not name.startswith("__")]


def _why_not_in(spec: ModuleSpec, name: str, path: str) -> str | None:
    """Reads the source, where there is one; one that makes names when imported gets the benefit of doubt."""
    if spec.origin is None:
        inside = f"; it holds: {listed(_modules_in(spec))}"
        return f'"{path}": {spec.name} is a folder, which defines nothing; name a module in it{inside}'
    file = Path(spec.origin)
    if file.suffix != ".py" or not file.is_file():
        return None
    try:
        names = list(dict.fromkeys(_defined(ast.parse(file.read_bytes()).body)))
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
            yield from (node.id for node in ast.walk(statement) if _binds(node))
            for block in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(statement, block, []))
            for handler in getattr(statement, "handlers", []):
                yield from _defined(handler.body)


def _binds(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
