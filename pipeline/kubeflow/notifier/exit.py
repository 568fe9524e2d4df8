"""The end of the one run whose exit handler this is, told before the server knows that the run has ended.

notice = tell_exit(session, store, run_id)

The run is still RUNNING then, because the exit handler is part of it. What it will end as is known from the group that
the exit handler waits for: Argo takes the state of the run from the group alone. The tasks' states are Argo's too, and
so those of killed pods are right; what Kubeflow's launcher reports to an exit handler is not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import kfp_server_api as api

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.notifier.sweep import Notice, start_sweep
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.tasks import ENDED, GROUP, exit_group, workflow_nodes
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.deliver import Outside

REPORT_SECONDS, REPORT_WAIT = 60.0, 2.0
"""How long to wait until the cluster has reported the end of the group, and between looks."""


class LeftError(RunError):
    """An end that a sweep has to tell, with the reason."""


def tell_exit(
    session: Session, store: Store, run_id: str, outside: Outside | None = None, now: Callable[[], float] = time.time
) -> Notice | None:
    """Tell the receivers of the run; None if they know.

    Raises LeftError if a sweep has to tell them, LockedError if one is in progress for too long, and otherwise what
    `sweep` raises.
    """
    run = _ending_run(session, run_id)
    with start_sweep(session, store, outside, now) as work:
        notice = work.tell(run, metrics=work.is_newest(run), reread=False)
        work.forget_old(now())
        return notice


def _ending_run(session: Session, run_id: str) -> Any:
    """The run as it will be when it has ended."""
    waited = 0.0
    while True:
        run = runs.find_by_id(session.server, run_id)
        if run is None:
            raise LeftError(f"the server does not know the run {run_id}")
        if run.state in ENDED:
            return run
        if run.state == runs.CANCELING:
            raise LeftError("the run is being cancelled")
        group = exit_group(run)
        if group is not None and group.state in ENDED:
            break
        if waited >= REPORT_SECONDS:
            raise LeftError(f"the server has not reported within {REPORT_SECONDS:.0f} s that the components ended")
        session.server.wait(REPORT_WAIT)
        waited += REPORT_WAIT
    if _may_be_repeated(session, run_id):
        raise LeftError("a pod was lost and not started again, after which Argo may start the whole run again")
    run.state, run.finished_at = group.state, group.end_time
    run.state_history = [*(run.state_history or ()), api.V2beta1RuntimeStatus(state=group.state)]
    return run


def _may_be_repeated(session: Session, run_id: str) -> bool:
    """Whether the last group ended as Argo's Error, which Kubeflow's configuration retries at each level."""
    found = [node for node in workflow_nodes(session.server, run_id) if node.get("displayName") == GROUP]
    last = max(found, key=lambda node: str(node.get("startedAt", "")), default={})
    return last.get("phase") == "Error"
