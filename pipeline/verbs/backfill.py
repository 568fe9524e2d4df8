"""`headrace backfill`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, told


@click.command()
@config_options
@click.option("--from", "first", required=True, metavar="SPAN", help="The first span, a number or a date.")
@click.option("--to", "last", required=True, metavar="SPAN", help="The last span; it is among them.")
@told
def backfill(config: Path, profile: str | None, overrides: tuple[str, ...], first: str, last: str) -> None:
    """Run the pipeline of CONFIG on Kubeflow once for each span of a range that has no run yet."""
    prepare()
    loaded = load(config, profile, overrides, data=False, functions=True)
    with quiet():
        from headrace.pipeline.kubeflow.server import backfill as server
        from headrace.pipeline.kubeflow.server.backfill import spans
        from headrace.pipeline.kubeflow.server.session import Session
    wanted = spans(loaded.config, first, last)
    session = Session.of(loaded.config)
    made = 0
    for one in server.backfill(session, wanted):
        made += one.made
        how = "submitted" if one.made else f"was there ({str(one.run.state).lower()})"
        click.echo(f"span {one.span}  {one.run.display_name}  {how}")
    click.echo(f"{made} of {len(wanted)} spans submitted")
