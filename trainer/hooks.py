"""The user's own functions, found by the dotted path that the config gives."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configs.errors import TrainingError


def resolve(path: str, where: str) -> Callable[..., Any]:
    """The function at a dotted path such as `mine.features.trip_speed`.

    where: the setting that names it, such as `model.kind`, for the message. Modules are looked for as Python does, and
    in the current directory. Raises TrainingError if there is no such module, or nothing to call in it.
    """
    module_name, _, attribute = path.rpartition(".")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module_name), attribute, None)
    except ImportError as error:
        raise TrainingError(
            f"{where}: cannot import {module_name!r} for {path!r}: {error}. Modules are looked for in the installed"
            f" packages and in {Path.cwd()}"
        ) from error
    if not callable(function):
        raise TrainingError(f"{where}: {path!r} is no function: {module_name!r} has no callable {attribute!r}")
    return function
