"""Where a model's weights come from, written beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.configs.checkpoint import KEPT_HOW, KEPT_IN
from headrace.trainer.weights.beside import Beside

_NOT_WORK = {KEPT_IN, KEPT_HOW}


@dataclass(frozen=True)
class Origin(Beside):
    """Of one model."""

    FILE = "assets.extra/origin.json"

    work: str
    """Digest of the settings, code and transform graph that it was made with."""
    base: str | None
    """URI of the Model artifact whose weights its training began with."""


def piece_of_work(custom_config: Mapping[str, Any], transform_graph: str) -> str:
    """A digest of what a Trainer is given, but for the model that it begins with."""
    told = {name: value for name, value in custom_config.items() if name not in _NOT_WORK}
    return hashlib.sha256(json.dumps([told, transform_graph], sort_keys=True).encode()).hexdigest()
