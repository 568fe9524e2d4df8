"""One run at a time in a pipeline's folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from configs.lock import held


def locked(home: Path) -> AbstractContextManager[None]:
    """Hold the folder's lock. RunError at once if another process has it; a process that dies gives it up."""
    return held(
        home / ".lock",
        f"another run of this pipeline is going on in {home}.\n"
        "  Wait for it, or give this one another `pipeline.name` or `pipeline.root`.",
    )
