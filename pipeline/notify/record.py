"""Which receivers were told of a run: `notified.json` in its folder.

Its presence also shows that the command of the run got to its end: a run without it was killed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from headrace.common.durable import write_text

FILE_NAME = "notified.json"


@dataclass(frozen=True)
class Delivery:
    """A message to one receiver. id: of its event; at: the time; error: why it was not delivered, None if it was."""

    id: str
    at: str
    error: str | None = None


_ADAPTER = TypeAdapter(dict[str, Delivery])


def read_deliveries(run_dir: Path) -> dict[str, Delivery] | None:
    """The deliveries of a run by receiver; None if it has no record of them, or a damaged one."""
    with contextlib.suppress(OSError, ValidationError):
        return _ADAPTER.validate_json((run_dir / FILE_NAME).read_bytes())
    return None


def write_deliveries(run_dir: Path, deliveries: Mapping[str, Delivery]) -> None:
    """Write the record atomically. Raises OSError."""
    write_text(run_dir / FILE_NAME, json.dumps({name: asdict(one) for name, one in deliveries.items()}, indent=1))
