"""Errors for mistyped names that only Keras knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from headrace.configs.errors import TrainingError


def unknown(where: str, found: str, known: Iterable[str]) -> TrainingError:
    """An error that offers the names nearest to the one found, or all of them.

    where: the setting, such as `train.optimizer`.
    """
    names = sorted(known)
    nearest = difflib.get_close_matches(found.lower(), names, n=3)
    offer = f"Did you mean {' or '.join(nearest)}?" if nearest else f"There are {', '.join(names)}"
    return TrainingError(f"{where}: {found!r} is unknown to Keras. {offer}")
