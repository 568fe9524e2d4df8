"""`headrace unschedule`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.verbs.options import config_options, session_of, told


@click.command()
@config_options
@told
def unschedule(config: Path, profile: str | None, overrides: tuple[str, ...]) -> None:
    """Delete Kubeflow's schedule of CONFIG's pipeline. Runs that it made stay."""
    session = session_of(config, profile, overrides)
    from headrace.pipeline.kubeflow.server import schedules

    experiment_id = session.experiment_id()
    called = [] if experiment_id is None else schedules.named_schedules(session.server, experiment_id, session.pipeline)
    found = [one for one in called if schedules.is_ours(one)]
    left = schedules.remove(session.server, found)
    outcome = "paused" if left else "deleted" if found else "was not there"
    click.echo(f"schedule  {session.pipeline}  {outcome}")
    for one in left:
        running = ", ".join(run.display_name for run in schedules.unfinished(session.server, one))
        click.echo(
            f"This release of Kubeflow would end {running} with the schedule, so the schedule is only paused;"
            " run the same command again when it has finished."
        )
    for one in called:
        if one not in found:
            click.echo(f"recurring run {one.recurring_run_id} of that name was not made by headrace, and stays")
