"""The current directory of each test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trips.csv").write_text("fare,Pick Up,hour,tip\n1.5,x,3,0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path
