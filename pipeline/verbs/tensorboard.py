"""`headrace tensorboard`."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, told


@click.command()
@config_options
@click.option("--run", "run_id", metavar="RUN", help="Only this run, by its id; else all trainings.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Of this machine; 0: any. If left out, 6006 or the next free."
)
@click.option("--google-charts", is_flag=True, help="Draw profiles with Google Charts, from gstatic.com.")
@told
def tensorboard(  # noqa: PLR0913, PLR0917
    config: Path,
    profile: str | None,
    overrides: tuple[str, ...],
    run_id: str | None,
    port: int | None,
    google_charts: bool,
) -> None:
    """Open TensorBoard on the trainings of CONFIG, with their curves and profiles, until Ctrl-C."""
    prepare()
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.tensorboard.view import trainings

    folders = Folders.of(load(config, profile, overrides, data=False).config)
    names = list(trainings(folders, run_id))
    number = f"{len(names)} training{'s' * (len(names) > 1)}"
    with quiet():  # also while it serves: the profile plugin writes a line for each request
        from headrace.pipeline.tensorboard.server import serving

        with serving(lambda: trainings(folders, run_id), port, google_charts) as address:
            click.echo(f"{address}  {number}, the latest {names[-1]}; Ctrl-C ends it")
            threading.Event().wait()
