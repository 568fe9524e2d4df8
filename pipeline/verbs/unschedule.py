"""`headrace unschedule`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.verbs.options import config_options, session_of, told


@click.command()
@config_options
@told
def unschedule(config: Path, profile: str | None, overrides: tuple[str, ...]) -> None:
    """Delete Kubeflow's schedule of CONFIG's pipeline. Runs that it made stay."""
    session = session_of(config, profile, overrides)
    from pipeline.kubeflow.server import schedules

    experiment_id = session.experiment_id()
    called = [] if experiment_id is None else schedules.called(session.server, experiment_id, session.pipeline)
    found = [one for one in called if schedules.is_ours(one)]
    schedules.delete(session.server, found)
    click.echo(f"schedule  {session.pipeline}  {'deleted' if found else 'was not there'}")
    for one in called:
        if one not in found:
            click.echo(f"recurring run {one.recurring_run_id} of that name was not made by headrace, and stays")
