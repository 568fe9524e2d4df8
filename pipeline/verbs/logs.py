"""`headrace logs`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.verbs.options import config_options, session_of, told


@click.command()
@config_options
@click.argument("component")
@click.argument("run", required=False)
@told
def logs(config: Path, profile: str | None, overrides: tuple[str, ...], component: str, run: str | None) -> None:
    """Print what COMPONENT wrote in RUN (a name or id; by default the newest) of CONFIG's pipeline on Kubeflow."""
    session = session_of(config, profile, overrides)
    from configs.errors import RunError
    from configs.suggest import meant
    from pipeline.kubeflow.server.logs import Kept, log

    found = session.run(run)
    tasks = {task.get("taskInfo", {}).get("name", name): (name, task) for name, task in session.tasks(found).items()}
    if component not in tasks:
        raise RunError(f"the run {found.display_name} has no {component}{meant(component, tasks, 'it has')}")
    text = log(session.server, found, *tasks[component], Kept.of(session.config, found))
    click.echo(text, nl=False)
