"""`headrace report`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.verbs.options import config_options, load, short, told


@click.command()
@config_options
@click.option("--run", "run_id", metavar="RUN", help="Which run, by its id; the latest if left out.")
@told
def report(config: Path, profile: str | None, overrides: tuple[str, ...], run_id: str | None) -> None:
    """Write the report of a run of CONFIG: one HTML page that opens from disk. Prints its path."""
    from headrace.configs.errors import RunError
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.report import write_report

    folders = Folders.of(load(config, profile, overrides, data=False).config)
    runs = sorted(path.parent.name for path in folders.runs.glob("*/run.json"))
    if not runs:
        raise RunError(f"no run yet in {folders.runs}; start one with `headrace run {config}`")
    if run_id is not None and run_id not in runs:
        raise RunError(f"no run {run_id} in {folders.runs}; the latest are {', '.join(runs[-5:])}")
    run_dir = folders.runs / (run_id or runs[-1])
    try:
        click.echo(short(write_report(run_dir)))
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{run_dir / 'run.json'} is damaged, or of another version ({error}); remove {run_dir}"
        ) from error
