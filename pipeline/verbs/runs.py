"""`headrace runs`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import click

from headrace.pipeline.verbs.options import config_options, session_of, told


@click.command()
@config_options
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many.")
@told
def runs(config: Path, profile: str | None, overrides: tuple[str, ...], limit: int) -> None:
    """List the runs of CONFIG's pipeline on Kubeflow, the newest first."""
    found = session_of(config, profile, overrides).runs(limit)
    width = max((len(run.display_name) for run in found), default=0)
    for run in found:
        click.echo(_line(run, width))
    if not found:
        click.echo("no runs yet")


def _line(run: Any, width: int) -> str:
    from headrace.pipeline.kubeflow.server.runs import state_word

    state = state_word(run, dt.datetime.now(dt.UTC))
    return f"{run.created_at:%Y-%m-%d %H:%M:%S}Z  {state:<10}  {run.display_name:<{width}}  {run.run_id}"
