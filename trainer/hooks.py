"""Names in the config that resolve to code: the user's own functions by dotted path, and mistyped names of Keras'."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.common.errors import TrainingError

_END = object()
KERAS_REPEATS = ("Exception encountered when calling", "Could not automatically infer the output shape")
"""Starts of the messages in which Keras repeats the one of an error."""


def resolve(path: str, where: str) -> Callable[..., Any]:
    """Return the function at a dotted path such as `mine.features.trip_speed`.

    Modules are searched as in any import, and last in the current directory. Raises TrainingError if the module does
    not exist or cannot be imported, or has no such function.

    where: the setting that names the function, such as `model.kind`, for the message.
    """
    module_name, _, attribute = path.rpartition(".")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module_name), attribute, None)
    except ImportError as error:
        raise TrainingError(
            f"{where}: cannot import {module_name!r} for {path!r}: {error}. Modules are searched for in the installed"
            f" packages and in {Path.cwd()}"
        ) from error
    except Exception as error:
        spec = importlib.util.find_spec(module_name)
        raise TrainingError(
            f"{where}: importing {module_name!r} for {path!r} raised {type(error).__name__}: {error}"
            f"{_location(spec.origin if spec else None, error)}"
        ) from error
    if not callable(function):
        raise TrainingError(f"{where}: {path!r} is not a function: {module_name!r} has no callable {attribute!r}")
    return _explain_errors(function, path, where)


def iterate(path: str, where: str) -> Generator[Any]:
    """Yield what the function at a dotted path yields or returns. Its errors become TrainingErrors, as of `resolve`.

    Closing the generator closes the function's.
    """
    function = resolve(path, where)
    found = function()
    if isinstance(found, Mapping | str | bytes) or not isinstance(found, Iterable):
        raise TrainingError(
            f"{where}: {path} returned {type(found).__name__}; it must yield rows, or return an iterator"
        )
    items = iter(found)
    step = _explain_errors(functools.update_wrapper(lambda: next(items, _END), function), path, where)
    try:
        while (item := step()) is not _END:
            yield item
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def innermost(error: Exception) -> Exception:
    """The error that a layer raised, without those in which Keras repeats it: with the arguments of the layer and
    escape codes for bold, or as a failure to infer the shape of its output.
    """
    inside = error.__context__
    if isinstance(inside, Exception) and str(error).startswith(KERAS_REPEATS) and str(inside) in str(error):
        return innermost(inside)
    return error


def unknown_name(where: str, found: str, known: Iterable[str]) -> TrainingError:
    """Return an error for a name that Keras does not know, with the closest names or all of them.

    where: the setting, such as `train.optimizer`.
    """
    names = sorted(known)
    nearest = difflib.get_close_matches(found.lower(), names, n=3)
    offer = f"Did you mean {' or '.join(nearest)}?" if nearest else f"Known are {', '.join(names)}"
    return TrainingError(f"{where}: {found!r} is unknown to Keras. {offer}")


def _explain_errors(function: Callable[..., Any], path: str, where: str) -> Callable[..., Any]:
    """Wrap the function so that its errors become TrainingErrors naming the setting, the function and the line."""

    @functools.wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            return function(*args, **settings)
        except TrainingError:
            raise
        except Exception as error:
            inner = innermost(error)
            raise TrainingError(
                f"{where}: {path} raised {type(inner).__name__}: {inner}{_location(file, error)}"
            ) from inner

    code = getattr(inspect.unwrap(function), "__code__", None)
    file = getattr(code, "co_filename", None)
    return call


def _location(file: str | None, error: Exception) -> str:
    """Where in the user's own file the error occurred: ` (mine/features.py:12)`."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file}:{lines[-1]})" if file and lines else ""
