"""The folder for what can be made again, such as parsed code."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "XDG_CACHE_HOME"


def cache_folder() -> Path:
    """Raises RuntimeError if the user has no home folder."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".cache") / "headrace"
