"""Sidecar files of a model's weights: plain data in JSON files of its serving directory, such as their origin."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from headrace.configs.schema.train import CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS


@dataclass(frozen=True)
class Sidecar:
    """A dataclass of plain data that is stored with a model as one JSON file."""

    FILE: ClassVar[str]
    """Path in the model's serving directory."""

    def write(self, serving_dir: Path) -> None:
        file = serving_dir / self.FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, serving_dir: Path) -> Self | None:
        """Read the file; None if it does not exist or has another format."""
        form: TypeAdapter[Self] = TypeAdapter(cls)
        try:
            return form.validate_json((serving_dir / cls.FILE).read_bytes(), strict=True)
        except (OSError, ValueError):
            return None


@dataclass(frozen=True)
class TrainingOrigin(Sidecar):
    """Where a model's weights come from."""

    FILE = "assets.extra/origin.json"

    work: str
    """Digest of the settings, code and transform graph with which the model was trained."""
    base: str | None
    """URI of the Model artifact whose weights its training started from."""


def work_digest(custom_config: Mapping[str, Any], transform_graph: str) -> str:
    """Return a digest of a Trainer's inputs, apart from the model that it starts from."""
    settings = {
        name: value for name, value in custom_config.items() if name not in {CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS}
    }
    return hashlib.sha256(json.dumps([settings, transform_graph], sort_keys=True).encode()).hexdigest()
