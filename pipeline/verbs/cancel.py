"""`headrace cancel`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from headrace.pipeline.verbs.options import config_options, session_of, told
from headrace.pipeline.verbs.status import LOST


@click.command()
@config_options
@click.argument("run")
@told
def cancel(config: Path, profile: str | None, overrides: tuple[str, ...], run: str) -> None:
    """End RUN (a name or id) of CONFIG's pipeline on Kubeflow."""
    session = session_of(config, profile, overrides)
    from headrace.pipeline.kubeflow.server.runs import cancel as end
    from headrace.pipeline.kubeflow.server.runs import state_word

    found = session.run(run)
    outcome = end(session.server, found)
    if outcome == "asked":
        click.echo(f"run       {found.display_name}  is being cancelled")
    elif outcome == "ended":
        click.echo(f"run       {found.display_name}  had ended: {state_word(found, dt.datetime.now(dt.UTC))}")
    else:
        click.echo(f"run       {found.display_name}  lost: {LOST}")
