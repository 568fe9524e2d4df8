"""Follow a run on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.configs.errors import ServerError
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.faults import unclear
from headrace.pipeline.kubeflow.server.record import record
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.local.record import RunRecord
from headrace.pipeline.terminal import Display

SECONDS = 5.0
"""Between two looks at a run that is going on."""
PATIENCE = 600.0
"""Seconds without an answer until nobody waits any longer: an API server that is started anew is back by then."""


@dataclass(frozen=True)
class Timing:
    """How one waits, and knows for how long."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


TIMING = Timing()


def show(session: Session, run: Any, display: Display) -> RunRecord:
    """The run as it stands."""
    shown = record(run, session.tasks(run), session.pipeline)
    display.update(shown)
    return shown


def follow(
    session: Session, run: Any, display: Display, tell: Callable[[str], None], timing: Timing = TIMING
) -> tuple[RunRecord, Any]:
    """Until the run has ended or is lost; how it then stands, and the run itself.

    Raises RunError if it is deleted, ServerError if the server refuses or is gone for long.

    tell: is told once when the server is gone, and when it is back.
    """
    tasks, last, gone = session.tasks(run), timing.clock(), False
    while True:
        shown = record(run, tasks, session.pipeline)
        display.update(shown)
        if shown.status.ended:
            return shown, run
        timing.sleep(SECONDS)
        try:
            run = runs.get_run(session.server, run.run_id)
        except ServerError as error:
            if not unclear(error) or timing.clock() - last >= PATIENCE:
                raise ServerError(f"{error}\n  {_goes_on(run)}", error.status, slow=error.slow) from None
            if not gone:
                tell(f"{error}\n  The run goes on; asking again for {PATIENCE / 60:.0f} minutes.")
            gone = True
        else:
            if gone:
                tell("The server answers again.")
            last, gone = timing.clock(), False


def _goes_on(run: Any) -> str:
    return f"The run {run.display_name} goes on without this command; `headrace status --watch` follows it again."
