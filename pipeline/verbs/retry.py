"""`headrace retry`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.verbs.options import config_options, session_of, told


@click.command()
@config_options
@click.argument("run")
@told
def retry(config: Path, profile: str | None, overrides: tuple[str, ...], run: str) -> None:
    """Go on with RUN (a name or id) of CONFIG's pipeline on Kubeflow, from the tasks that failed."""
    session = session_of(config, profile, overrides)
    from headrace.pipeline.kubeflow.server.runs import retry as go_on

    found = session.run(run)
    go_on(session.server, found)
    click.echo(f"run       {found.display_name}  goes on from what failed")
