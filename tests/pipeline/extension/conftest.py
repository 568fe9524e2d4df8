"""The folder of a user with extensions of theirs, in which each test runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from extensions import write_extensions


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests, because Python imports the modules of a folder once."""
    made = tmp_path_factory.mktemp("own_parts")
    write_extensions(made)
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
