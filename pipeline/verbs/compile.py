"""`headrace compile`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.environment import prepare, quiet
from pipeline.verbs.options import config_options, load, short, told


@click.command("compile")
@config_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it there, not to standard output.")
@told
def compile_(config: Path, profile: str | None, overrides: tuple[str, ...], output: Path | None) -> None:
    """Write the pipeline of CONFIG as YAML for Kubeflow Pipelines."""
    prepare()
    loaded = load(config, profile, overrides, data=False, functions=True)
    with quiet():
        from pipeline.kubeflow.compile import compile_pipeline

        text = compile_pipeline(loaded.config)
    if output is None:
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    click.echo(short(output.absolute()))
