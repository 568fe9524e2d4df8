"""`headrace unschedule`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.environment import prepare, quiet
from pipeline.verbs.options import config_options, load, told


@click.command()
@config_options
@told
def unschedule(config: Path, profile: str | None, overrides: tuple[str, ...]) -> None:
    """Delete Kubeflow's schedule of CONFIG's pipeline. Runs that it made stay."""
    prepare()
    loaded = load(config, profile, overrides, data=False)
    with quiet():
        from pipeline.kubeflow.server import schedules
        from pipeline.kubeflow.server.session import Session
    session = Session.of(loaded.config)
    experiment_id = session.experiment_id()
    found = [] if experiment_id is None else schedules.find(session.server, experiment_id, session.pipeline)
    schedules.delete(session.server, found)
    click.echo(f"schedule  {session.pipeline}  {'deleted' if found else 'was not there'}")
