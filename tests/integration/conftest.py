"""Empty directories for the stories that the tests here tell: few runs, many assertions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import processes_in, wait_until


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Makes empty directories; at the end no process may be left in any."""
    made: list[Path] = []

    def make(name: str) -> Path:
        made.append(tmp_path_factory.mktemp(name))
        return made[-1]

    yield make
    for folder in made:
        assert wait_until(lambda at=folder: processes_in(at) == [], 60)
