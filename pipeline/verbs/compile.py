"""`headrace compile`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, short, told


@click.command("compile")
@config_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it there, not to standard output.")
@click.option("--manifest", is_flag=True, help="Write what a repository holds that Argo CD or Flux watches.")
@click.option(
    "--endpoint",
    default="http://ml-pipeline.kubeflow:8888",
    show_default=True,
    metavar="URL",
    help="With --manifest: the API server of Kubeflow Pipelines as pods reach it.",
)
@told
def compile_(  # noqa: PLR0913, PLR0917 - one for each argument of the command
    config: Path, profile: str | None, overrides: tuple[str, ...], output: Path | None, manifest: bool, endpoint: str
) -> None:
    """Write the pipeline of CONFIG as YAML for Kubeflow Pipelines."""
    if manifest:
        text = _manifest(config, profile, overrides, endpoint)
    else:
        from headrace.pipeline.api import compile as compiled

        text = compiled(config, profile=profile, overrides=overrides)
    if output is None:
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    click.echo(short(output.absolute()))


def _manifest(config: Path, profile: str | None, overrides: tuple[str, ...], endpoint: str) -> str:
    prepare()
    loaded = load(config, profile, overrides, data=False, functions=True)
    with quiet():
        from headrace.pipeline.kubeflow.compiler.manifest import manifest

        return manifest(loaded.config, endpoint)
