"""`headrace notify`: send a test message to the receivers of a config."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headrace.pipeline.verbs.options import config_options, load, reports_errors


@click.command()
@config_options
@reports_errors
def notify(config: Path, profile: str | None, overrides: tuple[str, ...]) -> None:
    """Send a test message to every receiver of CONFIG.

    A pushgateway and a prometheus_file get none, because it would replace the metrics of the last run; the environment
    variables that they name are looked for. The exit status is 1 if a receiver was not reached.
    """
    from headrace.common.errors import RunError
    from headrace.pipeline.notify.notify import send_test

    loaded = load(config, profile, overrides, data=False).config
    if not loaded.notify:
        raise RunError(f"{config} has no receivers; add some under `notify:` (docs/notify.md)")
    failed = False
    for outcome in send_test(loaded):
        receiver = f"notify.{outcome.receiver} ({loaded.notify[outcome.receiver].kind})"
        failed |= outcome.error is not None
        click.echo(f"{receiver}: {outcome.error or outcome.what}", err=outcome.error is not None)
    sys.exit(failed)
