"""What is told of a model's weights beside them, in its serving directory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import ClassVar, Self

from pydantic import TypeAdapter


@dataclasses.dataclass(frozen=True)
class Beside:
    """A dataclass of plain data that travels with a model, as one JSON file."""

    FILE: ClassVar[str]
    """Where, in the model's serving directory."""

    def write(self, serving_dir: Path) -> None:
        """Beside the weights."""
        file = serving_dir / self.FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, serving_dir: Path) -> Self | None:
        """None where a model does not say, or not in the form that `write` gives it."""
        form: TypeAdapter[Self] = TypeAdapter(cls)
        try:
            return form.validate_json((serving_dir / cls.FILE).read_bytes(), strict=True)
        except (OSError, ValueError):
            return None
