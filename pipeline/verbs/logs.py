"""`headrace logs`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.verbs.options import config_options, session_of, told


@click.command()
@config_options
@click.argument("component")
@click.argument("run", required=False)
@click.option("--follow", is_flag=True, help="Keep printing until the component has ended.")
@told
def logs(  # noqa: PLR0913, PLR0917 - one for each argument of the command
    config: Path, profile: str | None, overrides: tuple[str, ...], component: str, run: str | None, follow: bool
) -> None:
    """Print what COMPONENT wrote in RUN (a name or id; by default the newest) of CONFIG's pipeline on Kubeflow."""
    session = session_of(config, profile, overrides)
    from headrace.configs.errors import RunError
    from headrace.configs.suggest import meant
    from headrace.pipeline.kubeflow.server import logs as server_logs
    from headrace.pipeline.kubeflow.server.runs import get_run
    from headrace.pipeline.kubeflow.server.status import killed_for_memory, run_record

    found = session.run(run)
    graph = session.tasks(found)
    tasks = {task.get("taskInfo", {}).get("name", name): (name, task) for name, task in graph.items()}
    if component not in tasks:
        raise RunError(f"the run {found.display_name} has no {component}{meant(component, tasks, 'it has')}")
    kept = server_logs.LauncherLogs.of(session.config, found)

    def read() -> str:
        return server_logs.read_log(session.server, found, *tasks[component], kept)

    def ended() -> bool:
        nonlocal found
        found = get_run(session.server, found.run_id)
        return run_record(found, graph, session.pipeline).node(component).status.ended

    if follow:
        server_logs.follow(read, ended, lambda text: click.echo(text, nl=False))
    else:
        click.echo(read(), nl=False)
    why = killed_for_memory(session, found).get(component) if found.state in ("FAILED", "RUNNING") else None
    if why:
        click.echo(why, err=True)
