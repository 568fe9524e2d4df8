"""`headrace schedule`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, told


@click.command()
@config_options
@click.option("--compiled", type=click.Path(path_type=Path), help="Upload this file of `headrace compile` as it is.")
@told
def schedule(config: Path, profile: str | None, overrides: tuple[str, ...], compiled: Path | None) -> None:
    """Bring Kubeflow's schedule of CONFIG's pipeline to what CONFIG says under `schedule:`."""
    prepare()
    from headrace.configs.errors import ConfigError, Problem

    loaded = load(config, profile, overrides, data=False, functions=compiled is None)
    text = None if compiled is None else compiled.read_text(encoding="utf-8")
    wanted = loaded.config.schedule
    if wanted is None:
        raise ConfigError(Problem("schedule", 'say when: `schedule: {cron: "30 4 * * *"}`'))
    with quiet():
        from headrace.pipeline.kubeflow.server.schedules import submit_schedule as bring
        from headrace.pipeline.kubeflow.server.session import Session
    session = Session.of(loaded.config)
    with quiet():
        version, made, outcome = bring(session, wanted, text)
    click.echo(f"version   {version.name}{' (new)' if version.uploaded else ''}")
    when = made.trigger.cron_schedule.cron if wanted.cron else f"every {wanted.every}"
    zone = f" {loaded.config.kubeflow.server.time_zone}" if wanted.cron else ""
    click.echo(f"schedule  {made.display_name}  {when}{zone}{' (paused)' if wanted.paused else ''}  {outcome}")
