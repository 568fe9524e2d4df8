"""`headrace explain-cache`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, told

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig
    from headrace.pipeline.cache.explain import Explanation


@click.command("explain-cache")
@config_options
@click.argument("run", required=False)
@click.option("--next", "ahead", is_flag=True, help="Tell what the next run would reuse, without running it.")
@click.option("--kubeflow", is_flag=True, help="RUN is one on Kubeflow, by its name or id.")
@click.option("--json", "machine", is_flag=True, help="Print JSON.")
@told
def explain_cache(  # noqa: PLR0913, PLR0917
    config: Path,
    profile: str | None,
    overrides: tuple[str, ...],
    run: str | None,
    ahead: bool,
    kubeflow: bool,
    machine: bool,
) -> None:
    """Say for each component of RUN (by default the newest) which inputs decided whether it was reused or ran."""
    if ahead and (run or kubeflow):
        raise click.UsageError("--next is of the next local run: it takes no RUN and no --kubeflow")
    prepare()
    loaded = load(config, profile, overrides, data=False, functions=ahead)
    explanation = _explained(loaded.config, run, ahead=ahead, kubeflow=kubeflow)
    from headrace.pipeline.cache.show import as_json, show
    from headrace.pipeline.terminal import Output

    if machine:
        click.echo(as_json(explanation))
    else:
        show(explanation, Output())


def _explained(config: PipelineConfig, run: str | None, *, ahead: bool, kubeflow: bool) -> Explanation:
    if ahead:
        with quiet():
            from headrace.pipeline.cache.foresee import foresee

            return foresee(config)
    if kubeflow:
        with quiet():
            from headrace.pipeline.kubeflow.server.cache import explain as explain_there
            from headrace.pipeline.kubeflow.server.session import Session
        return explain_there(Session.of(config), run)
    from headrace.pipeline.cache.explain import explain
    from headrace.pipeline.folders import Folders

    return explain(Folders.of(config), run)
