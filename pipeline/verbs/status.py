"""`headrace status`."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.pipeline.verbs.options import config_options, session_of, told

if TYPE_CHECKING:
    from headrace.pipeline.kubeflow.server.session import Session
    from headrace.pipeline.local.record import RunRecord

FAILED, CANCELLED = 1, 3
"""Exit codes for a run that failed, and for one that was cancelled or is lost."""
LOST = (
    "its workflow is gone from the cluster, so nothing of it runs, and the server will never hear of its end;"
    " `headrace submit --again` makes another run"
)


@click.command()
@config_options
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Stay until the run has ended.")
@told
def status(config: Path, profile: str | None, overrides: tuple[str, ...], run: str | None, watch: bool) -> None:
    """Show where RUN (a name or id; by default the newest) of CONFIG's pipeline stands on Kubeflow."""
    session = session_of(config, profile, overrides)
    found = session.run(run)
    if watch:
        sys.exit(watch_to_the_end(session, found))
    from headrace.pipeline.kubeflow.server.status import show
    from headrace.pipeline.terminal import open_display

    with open_display() as display:
        shown = show(session, found, display)
    code = last_words(shown, found)
    tell_kills(session, shown, found)
    sys.exit(code)


def watch_to_the_end(session: Session, run: Any) -> int:
    """Follow the run; the status to exit with."""
    from headrace.pipeline.kubeflow.server.status import follow
    from headrace.pipeline.terminal import open_display

    try:
        with open_display() as display:
            shown, run = follow(session, run, display, lambda note: click.echo(note, err=True))
    except KeyboardInterrupt:
        click.echo(f"The run {run.display_name} goes on; `headrace cancel` ends it.", err=True)
        raise
    code = last_words(shown, run)
    tell_kills(session, shown, run)
    return code


def tell_kills(session: Session, shown: RunRecord, run: Any) -> None:
    """Say of a run that failed which components were killed for memory, and what to set."""
    from headrace.pipeline.kubeflow.server.status import killed_for_memory
    from headrace.pipeline.local.record import Status

    if shown.status is Status.FAILED:
        for line in killed_for_memory(session, run).values():
            click.echo(line, err=True)


def _early(shown: RunRecord) -> str:
    """What to look at where a run ended early, as a success."""
    from headrace.pipeline.local.record import Status

    ran = [node.id for node in shown.nodes if node.status in (Status.DONE, Status.CACHED)]
    if shown.status is not Status.DONE or not any(node.status is Status.SKIPPED for node in shown.nodes):
        return ""
    return f", early: the log of {'Drift' if 'Drift' in ran else 'Spans'} says why"


def last_words(shown: RunRecord, run: Any) -> int:
    """How the run stands, in a word; the status to exit with."""
    from headrace.pipeline.kubeflow.server.runs import state_word
    from headrace.pipeline.local.record import Status

    said = {"cancelled": "cancelled", "cancelling": "being cancelled", "lost": f"lost: {LOST}"}.get(
        state_word(run, dt.datetime.now(dt.UTC)), str(shown.status)
    )
    failed = [node.id for node in shown.nodes if node.status is Status.FAILED]
    what = f": {', '.join(failed)}" if failed and shown.status is Status.FAILED else _early(shown)
    click.echo(f"run       {shown.run_id}  {said}{what}")
    if shown.error and shown.status is Status.FAILED:
        click.echo(shown.error, err=True)
    return {Status.FAILED: FAILED, Status.INTERRUPTED: CANCELLED}.get(shown.status, 0)
