"""What `headrace validate` reports of a config in the current directory, and notes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trips_folder import CONFIG

from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline.api import load_checked
from headrace.pipeline.validate import check_data

ROWS = range(60)
"""As many as the tests of the first rows write."""


def rows(*lines: str, header: str = "fare,tip") -> None:
    """Write these lines into `trips.csv`."""
    Path("trips.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def reported(text: str) -> list[str]:
    Path("c.yaml").write_text(text, encoding="utf-8")
    return [str(problem) for problem in check_data(load_with_locations("c.yaml"))]


def noted(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The notes and warnings on a config that is valid."""
    Path("c.yaml").write_text(text, encoding="utf-8")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="headrace"):
        load_checked("c.yaml", None, (), data=True)
    return list(caplog.messages)


def source(kind: str, fares: list[object], **data: object) -> str:
    """A config over a file of that kind with these fares, and after them enough others for each split to get some."""
    others = range(len(fares), 40)
    fares = [*fares, *(f"{fare}.5" if isinstance(fares[0], str) else fare + 0.5 for fare in others)]
    path = Path(f"fares.{kind}")
    if kind == "csv":
        path.write_text("fare,tip\n" + "".join(f"{fare},{at % 2}\n" for at, fare in enumerate(fares)), encoding="utf-8")
    elif kind == "json":
        path.write_text(
            json.dumps([{"fare": fare, "tip": at % 2} for at, fare in enumerate(fares)], indent=1), encoding="utf-8"
        )
    elif kind == "jsonl":
        lines = (json.dumps({"fare": fare, "tip": at % 2}) + "\n" for at, fare in enumerate(fares))
        path.write_text("".join(lines), encoding="utf-8")
    else:
        pq.write_table(pa.table({"fare": fares, "tip": [at % 2 for at in range(len(fares))]}), path)
    settings = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in data.items())
    found = CONFIG.replace("{kind: csv, path: trips.csv}", f"{{kind: {kind}, path: {path}}}")
    return found.replace("label:", f"{settings}label:")
