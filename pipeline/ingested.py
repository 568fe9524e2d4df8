"""What ExampleGen said of the data beside its rows: records that it left out, and lines that a user should see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipeline.local.record import RunRecord, Status


@dataclass(frozen=True)
class Ingested:
    """`skipped`: the number of records left out, of `records`; `places`: what is told of the first ones; `notes`: only
    if the data was read in this run.
    """

    skipped: int = 0
    records: int = 0
    places: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def skipped_share(self) -> float:
        """Of all records, from 0 to 1."""
        return self.skipped / self.records if self.records else 0.0


def ingested(record: RunRecord) -> Ingested:
    """What is known of a run; empty where it did not come so far."""
    for node in record.nodes:
        if node.id == "ExampleGen" and node.status in (Status.DONE, Status.CACHED) and "examples" in node.outputs:
            found = _read(node.outputs["examples"].properties)
            return found if node.status is Status.DONE else replace(found, notes=())
    return Ingested()


def _read(properties: Mapping[str, str | int | float]) -> Ingested:
    skipped = json.loads(str(properties.get("skipped", "{}")))
    count = int(skipped.get("count", 0))
    rows = sum(json.loads(str(properties.get("rows", "{}"))).values())
    notes = json.loads(str(properties.get("notes", "[]")))
    return Ingested(count, rows + count, tuple(map(_shown, skipped.get("told", ()))), tuple(map(_shown, notes)))


def _shown(line: str) -> str:
    """On one line, without what would steer a terminal: names of files and values come from the data."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
