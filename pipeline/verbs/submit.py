"""`headrace submit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, param_option, told

if TYPE_CHECKING:
    from headrace.pipeline.kubeflow.server.session import Session
    from headrace.pipeline.kubeflow.server.submit import SubmittedRun


@click.command()
@config_options
@param_option
@click.option("--name", metavar="NAME", help="The run's name; by default one made of the pipeline's content.")
@click.option("--again", is_flag=True, help="Make another run where there is one of the same content or name.")
@click.option("--cache/--no-cache", default=True, help="Whether Kubeflow may reuse what earlier runs made.")
@click.option("--watch", is_flag=True, help="Stay until the run has ended.")
@told
def submit(config: Path, profile: str | None, overrides: tuple[str, ...], watch: bool, **chosen: Any) -> None:
    """Run the pipeline of CONFIG on Kubeflow. The same command never makes a second run."""
    prepare()
    loaded = load(config, profile, overrides, data=False, functions=True)
    with quiet():
        from headrace.pipeline.kubeflow.server.session import Session
        from headrace.pipeline.kubeflow.server.submit import submit as send
    session = Session.of(loaded.config)
    try:
        with quiet():
            version, done = send(session, **chosen)
    except KeyboardInterrupt:
        click.echo("If the run was made already, the same command finds it, and makes no second one.", err=True)
        raise
    click.echo(f"version   {version.name}{' (new)' if version.uploaded else ''}")
    _tell(session, done)
    if watch:
        from headrace.pipeline.verbs.status import watch_to_the_end

        sys.exit(watch_to_the_end(session, done.run))


def _tell(session: Session, done: SubmittedRun) -> None:
    run = done.run
    click.echo(f"run       {run.display_name}  {run.run_id}")
    click.echo(f"see       {session.link(run)}")
    if not done.made:
        more = "; `headrace retry` goes on from what failed" if run.state in ("FAILED", "CANCELED") else ""
        click.echo(f"This run was there already ({str(run.state).lower()}){more}; --again makes another.")
