"""One run at a time in a pipeline's folder, and nothing left at work of the one before.

Two files tell: a command holds the first while it lives. The second is held by the processes that it has started (see
pipeline/local/client.py), which outlive a command that was killed by a moment, in which they still write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from headrace.configs.errors import RunError
from headrace.configs.lock import free, held

PATIENCE_SECONDS = 60.0
"""Processes of a command that is gone end within milliseconds; on a machine that is very busy, within seconds."""


def at_work(home: Path) -> Path:
    """What the processes of a run hold."""
    return home / ".at-work"


@contextlib.contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the folder's lock, once the processes of a killed command are gone.

    RunError at once if another command has it; a process that dies gives it up.
    """
    refusal = (
        f"another run of this pipeline is going on in {home}.\n"
        "  Wait for it, or give this one another `pipeline.name` or `pipeline.root`."
    )
    with held(home / ".lock", refusal):
        if not free(at_work(home), PATIENCE_SECONDS):
            raise RunError(
                f"processes of a run that was killed are still at work in {home}.\n"
                f"  Wait for them, or end them: `fuser {at_work(home)}` tells which they are."
            )
        yield
