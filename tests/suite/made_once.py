"""Files that take long to make, made by the first process of the tests that needs them.

folder = copied(tmp_path_factory, "binary", make)  # make(folder) writes them
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.common.locks import wait_and_hold


def copied(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder of this process's own with what `make` writes into an empty one.

    Processes that need the same `name` wait for the one that makes it. If that one fails or is killed, the next tries.
    """
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # below it each worker has a folder
    whole, part = shared / f"once-{name}", shared / f"once-{name}.part"
    with wait_and_hold(shared / f"once-{name}.lock"):
        if not whole.exists():
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.rename(whole)
    own = factory.mktemp(name) / name
    shutil.copytree(whole, own)
    return own
