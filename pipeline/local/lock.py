"""One run at a time in a pipeline's folder."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from configs.errors import RunError


@contextlib.contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the folder's lock. RunError at once if another process has it; a process that dies gives it up."""
    with (home / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another run of this pipeline is going on in {home}.\n"
                "  Wait for it, or give this one another `pipeline.name` or `pipeline.root`."
            ) from None
        yield
