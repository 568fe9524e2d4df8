"""What the Tuner's trials came to."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.trainer.tuning.trials import Search

FILE_NAME = "best_hyperparameters.txt"


def read_search(directory: Path | None) -> Search | None:
    """The search in a HyperParameters artifact; None if there is none that can be read."""
    if directory is None:
        return None
    try:
        told = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
        return Search.from_plain(told["headrace"]["search"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
