"""`headrace cancel`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.verbs.options import config_options, session_of, told


@click.command()
@config_options
@click.argument("run")
@told
def cancel(config: Path, profile: str | None, overrides: tuple[str, ...], run: str) -> None:
    """End RUN (a name or id) of CONFIG's pipeline on Kubeflow."""
    session = session_of(config, profile, overrides)
    from pipeline.kubeflow.server.runs import cancel as end

    found = session.run(run)
    if end(session.server, found):
        click.echo(f"run       {found.display_name}  is being cancelled")
    else:
        click.echo(f"run       {found.display_name}  had ended: {found.state.lower()}")
