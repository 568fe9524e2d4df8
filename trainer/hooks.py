"""The user's own functions, found by the dotted path that the config gives."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.configs.errors import TrainingError


def resolve(path: str, where: str) -> Callable[..., Any]:
    """The function at a dotted path such as `mine.features.trip_speed`.

    where: the setting that names it, such as `model.kind`, for the message. Modules are looked for as Python does, and
    last in the current directory. Raises TrainingError if there is no such module, if it cannot be imported, or if
    there is nothing to call in it.
    """
    module_name, _, attribute = path.rpartition(".")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module_name), attribute, None)
    except ImportError as error:
        raise TrainingError(
            f"{where}: cannot import {module_name!r} for {path!r}: {error}. Modules are looked for in the installed"
            f" packages and in {Path.cwd()}"
        ) from error
    except Exception as error:
        spec = importlib.util.find_spec(module_name)
        raise TrainingError(
            f"{where}: importing {module_name!r} for {path!r} raised {type(error).__name__}: {error}"
            f"{_line(spec.origin if spec else None, error)}"
        ) from error
    if not callable(function):
        raise TrainingError(f"{where}: {path!r} is no function: {module_name!r} has no callable {attribute!r}")
    return _named(function, path, where)


def _named(function: Callable[..., Any], path: str, where: str) -> Callable[..., Any]:
    """The function, whose own errors become TrainingErrors that name the setting, the function and the line."""

    @functools.wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            return function(*args, **settings)
        except TrainingError:
            raise
        except Exception as error:
            raise TrainingError(
                f"{where}: {path} raised {type(error).__name__}: {error}{_line(file, error)}"
            ) from error

    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    return call


def _line(file: str | None, error: Exception) -> str:
    """Where in the user's own file the error came up: ` (mine/features.py:12)`."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file}:{lines[-1]})" if file and lines else ""
