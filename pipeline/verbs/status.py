"""`headrace status`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.verbs.options import config_options, session_of, told

if TYPE_CHECKING:
    from pipeline.kubeflow.server.session import Session
    from pipeline.local.record import RunRecord


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
    from pipeline.kubeflow.server.watch import show
    from pipeline.terminal import open_display

    with open_display() as display:
        shown = show(session, found, display)
    sys.exit(last_words(shown, "being cancelled" if found.state == "CANCELING" else None))


def watch_to_the_end(session: Session, run: Any) -> int:
    """Follow the run; the status to exit with."""
    from pipeline.kubeflow.server.watch import follow
    from pipeline.terminal import open_display

    try:
        with open_display() as display:
            shown = follow(session, run, display, lambda note: click.echo(note, err=True))
    except KeyboardInterrupt:
        click.echo(f"The run {run.display_name} goes on; `headrace cancel` ends it.", err=True)
        raise
    return last_words(shown)


def _early(shown: RunRecord) -> str:
    """What to look at where a run ended early, as a success."""
    from pipeline.local.record import Status

    ran = [node.id for node in shown.nodes if node.status in (Status.DONE, Status.CACHED)]
    if shown.status is not Status.DONE or not any(node.status is Status.SKIPPED for node in shown.nodes):
        return ""
    return f", early: the log of {'Drift' if 'Drift' in ran else 'Spans'} says why"


def last_words(shown: RunRecord, word: str | None = None) -> int:
    """How the run stands, in a word; 1 where it failed or was cancelled. word: a better one than its status."""
    from pipeline.local.record import Status

    failed = [node.id for node in shown.nodes if node.status is Status.FAILED]
    what = f": {', '.join(failed)}" if failed else _early(shown)
    click.echo(f"run       {shown.run_id}  {word or shown.status}{what}")
    if shown.error:
        click.echo(shown.error, err=True)
    return int(shown.status in (Status.FAILED, Status.INTERRUPTED))
