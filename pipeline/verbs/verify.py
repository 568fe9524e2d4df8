"""`headrace verify`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, told


@click.command()
@config_options
@click.option("--keep", type=click.Path(path_type=Path), help="An empty folder for both runs, kept afterwards.")
@told
def verify(config: Path, profile: str | None, overrides: tuple[str, ...], keep: Path | None) -> None:
    """Run the compiled pipeline of CONFIG here, as Kubeflow would, and compare it with a local run."""
    prepare()
    import tempfile

    from headrace.configs.errors import RunError
    from headrace.pipeline.terminal import open_display

    loaded = load(config, profile, overrides, data=True)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise RunError(f"{keep} is not empty; name a folder that is empty, or not there yet")
    with quiet():
        from headrace.pipeline.kubeflow.verify import verify as compare_runs
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder, open_display() as display:
        verdict = compare_runs(loaded.config, keep.absolute() if keep else Path(folder), display, click.echo)
    for line in verdict.lines:
        click.echo(str(line))
    if not verdict.same:
        sys.exit(1)
