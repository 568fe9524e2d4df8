"""A folder with a small config and its data, in which tests of the command line start commands.

from trips_folder import headrace, here

def test_it(here):                                  # a fixture: the folder
done = headrace(here, "validate", "trips.yaml")     # forked (forks.py)
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import forks
import pytest
from forks import HEADRACE
from installed import without_pythonpath

ROWS = "".join(f"{row}.5,{row // 2 % 2},{row % 2}\n" for row in range(100))
"""Enough for each split to get some."""
CONFIG = """\
pipeline: {name: trips}
data:
  source: {kind: csv, path: trips.csv}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
"""
"""Features, and then other sections, may be added at its end."""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "trips.csv").write_text("fare,hour,tip\n" + ROWS)
    (tmp_path / "trips.yaml").write_text(CONFIG)
    return tmp_path


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forks.run([str(HEADRACE), *arguments], cwd=folder, env=environment())


def environment() -> dict[str, str]:
    return {**without_pythonpath(), "COLUMNS": "100"}
