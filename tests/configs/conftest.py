"""The config that profiles and `--set` are laid over."""

from __future__ import annotations

from pathlib import Path

import pytest
from overlaid import BASE


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "taxi.yaml"
    file.write_text(BASE, encoding="utf-8")
    return file
