"""What the selections of a config stand for, and the file of its pipeline in which that is stored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headrace.common.checksums import with_checksum
from headrace.common.durable import write_text
from headrace.common.errors import DataError
from headrace.common.records import parse_record

FILE_NAME = "features.json"
"""In the pipeline's folder: what the patterns stand for."""


class Selected(BaseModel, extra="forbid", frozen=True):
    """What the entries stand for, as `Resolved` describes it. for_config: identifies what was written."""

    for_config: str
    features: dict[str, dict[str, dict[str, Any]]]
    label: dict[str, Any] | None = None
    model: dict[str, Any] | None = None
    types: dict[str, str] = {}
    left_out: dict[str, str] = {}
    columns: str | None = None


@dataclass(frozen=True)
class PinnedSelection:
    """What was selected, and the file in which it is stored. pinned: whether it was read from there; takes_model:
    whether the config leaves the model to the selection.
    """

    file: Path
    selected: Selected
    pinned: bool
    takes_model: bool

    def pin(self) -> None:
        """Store it, for later runs."""
        if not self.pinned:
            write_text(self.file, with_checksum(self.selected.model_dump_json()))


def stored_selection(file: Path) -> Selected | None:
    """What the file has; None if there is none. Raises DataError if it is damaged."""
    try:
        return parse_record(Selected, file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        hint = "Restore the file; or delete it, and the features are chosen by the present data"
        raise DataError(f"the stored features cannot be read: {error}", file=str(file), hint=hint) from None
