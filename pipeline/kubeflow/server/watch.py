"""Follow a run on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pipeline.kubeflow.server import runs
from pipeline.kubeflow.server.record import record
from pipeline.kubeflow.server.session import Session
from pipeline.local.record import RunRecord
from pipeline.terminal import Display

SECONDS = 5.0
"""Between two looks at a run that is going on."""


def show(session: Session, run: Any, display: Display) -> RunRecord:
    """The run as it stands."""
    shown = record(run, session.tasks(run), session.pipeline)
    display.update(shown)
    return shown


def follow(session: Session, run: Any, display: Display, sleep: Callable[[float], None] = time.sleep) -> RunRecord:
    """Until the run has ended. Raises RunError if it is deleted, ServerError if the server is gone for long."""
    tasks = session.tasks(run)
    while True:
        shown = record(run, tasks, session.pipeline)
        display.update(shown)
        if run.state in runs.ENDED:
            return shown
        sleep(SECONDS)
        run = runs.get_run(session.server, run.run_id)
