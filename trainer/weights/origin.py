"""Where a model's weights come from, written beside them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

FILE = "assets.extra/origin.json"
"""In a model's serving directory."""
_NOT_WORK = {"checkpoints"}


@dataclass(frozen=True)
class Origin:
    """Of one model."""

    work: str
    """Digest of the settings, code and transform graph that it was made with."""
    base: str | None
    """URI of the Model artifact whose weights its training began with."""

    def write(self, serving_dir: Path) -> None:
        """Beside the weights."""
        file = serving_dir / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @classmethod
    def read(cls, serving_dir: Path) -> Self | None:
        """None where the model does not say."""
        try:
            return cls(**json.loads((serving_dir / FILE).read_text()))
        except (OSError, ValueError, TypeError):
            return None


def piece_of_work(custom_config: Mapping[str, Any], transform_graph: str) -> str:
    """A digest of what a Trainer is given, but for the model that it begins with."""
    told = {name: value for name, value in custom_config.items() if name not in _NOT_WORK}
    return hashlib.sha256(json.dumps([told, transform_graph], sort_keys=True).encode()).hexdigest()
