"""The current directory of each test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"{row}.5,x,{row % 5},{row % 2}\n" for row in range(80))  # enough for each split to get some
    (tmp_path / "trips.csv").write_text("fare,Pick Up,hour,tip\n" + rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path
