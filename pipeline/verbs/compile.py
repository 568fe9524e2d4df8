"""`headrace compile` and `verify`: the pipeline as Kubeflow runs it, written to a file or tried on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.common.durable import write_output
from headrace.common.environment import imports_alone, prepare, quiet
from headrace.pipeline.verbs.options import GivenConfig, config_verb, endpoint_option, short

if TYPE_CHECKING:
    from headrace.configs.rules.rule import Rule


@config_verb("compile")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write. The default is standard output.",
)
@click.option(
    "--manifest", is_flag=True, help="Write Kubernetes manifests for a repository that Argo CD or Flux watches."
)
@endpoint_option
def compile_(config: GivenConfig, output: Path | None, manifest: bool, endpoint: str) -> None:
    """Compile the pipeline of CONFIG to YAML for Kubeflow."""
    if manifest:
        text = _manifest(config, endpoint)
        if output is not None:
            write_output(output, text)
    else:
        from headrace.pipeline.api import compile as compile_pipeline

        with imports_alone():  # which take nearly all of its time
            text = compile_pipeline(config.path, output, **config.options)
    if output is None:
        click.echo(text, nl=False)
    else:
        click.echo(short(output.absolute()))


def _manifest(config: GivenConfig, endpoint: str) -> str:
    from headrace.common.errors import RunError
    from headrace.configs.rules import on_kubeflow

    prepare()
    rules: list[Rule] = [*on_kubeflow.RULES, on_kubeflow.name_fits_a_job, on_kubeflow.name_fits_a_cron_job]
    loaded = config.load(functions=True, rules=rules)
    if loaded.config.only_predicts:
        raise RunError("--manifest is for the pipeline that trains; apply `predict.only` with `headrace schedule`")
    with quiet(), imports_alone():
        from headrace.pipeline.kubeflow.compiler.manifest import manifest
    return manifest(loaded.config, endpoint, folder=config.path.parent)


@config_verb()
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Run in this folder, which must be empty, and keep it. The default is a temporary one.",
)
def verify(config: GivenConfig, keep: Path | None) -> None:
    """Run the compiled pipeline of CONFIG here, as Kubeflow would.

    Its artifacts are compared with those of a local run.
    """
    prepare()
    import tempfile

    from headrace.common.errors import RunError
    from headrace.configs.rules import on_kubeflow
    from headrace.pipeline.terminal import open_display

    loaded = config.load(data=True, rules=on_kubeflow.RULES_OF_PODS)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise RunError(f"{keep} is not empty; name a folder that is empty or does not exist yet")
    with quiet(), imports_alone():
        from headrace.pipeline.kubeflow.verify import verify as compare_runs
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder, open_display() as display:
        verdict = compare_runs(loaded.config, keep.absolute() if keep else Path(folder), display, click.echo)
    for line in verdict.lines:
        click.echo(str(line))
    if not verdict.same:
        sys.exit(1)
