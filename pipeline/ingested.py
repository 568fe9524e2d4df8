"""What ExampleGen said of the data beside its rows: records that it left out, and lines that a user should see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.pipeline.local.record import RunRecord, Status


@dataclass(frozen=True)
class Ingested:
    """`skipped`: the number of records left out, of `records`; `places`: what is told of the first ones; `notes`: lines
    on spans that are not there, columns that lose digits and, if the data was read in this run, files that are not as
    they were; `plan`: one line about the spans and shards.
    """

    skipped: int = 0
    records: int = 0
    places: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plan: str = ""

    @property
    def skipped_share(self) -> float:
        """Of all records, from 0 to 1."""
        return self.skipped / self.records if self.records else 0.0


def ingested(record: RunRecord) -> Ingested:
    """What is known of a run; empty where it did not come so far."""
    for node in record.nodes:
        if node.id == "ExampleGen" and node.status in (Status.DONE, Status.CACHED) and "examples" in node.outputs:
            return _read(node.outputs["examples"].properties, now=node.status is Status.DONE)
    return Ingested()


def _read(properties: Mapping[str, str | int | float], *, now: bool) -> Ingested:
    """`now`: whether this run wrote it; else what was true of that other run alone is left out."""
    skipped = json.loads(str(properties.get("skipped", "{}")))
    count = int(skipped.get("count", 0))
    rows = sum(json.loads(str(properties.get("rows", "{}"))).values())
    listed, lines = (("gaps", "rounded", "notes"), ("plan", "read")) if now else (("gaps", "rounded"), ("plan",))
    notes = [line for name in listed for line in json.loads(str(properties.get(name, "[]")))]
    plan = "; ".join(str(properties[name]) for name in lines if name in properties)
    told = tuple(map(on_one_line, skipped.get("told", ())))
    return Ingested(count, rows + count, told, tuple(map(on_one_line, notes)), on_one_line(plan))


def on_one_line(line: str) -> str:
    """On one line, without what would steer a terminal: names of files and values come from the data."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
