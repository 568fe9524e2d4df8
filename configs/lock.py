"""A file that one process at a time holds."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from configs.errors import RunError


@contextlib.contextmanager
def held(file: Path, refusal: str) -> Iterator[None]:
    """Hold it. RunError with `refusal` at once if another process does; a process that dies gives it up."""
    with file.open("a") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(refusal) from None
        yield
