"""`headrace notify`: send a test message to the receivers of a config, or tell them of runs on Kubeflow that ended."""

from __future__ import annotations

import sys

import click

from headrace.common.environment import prepare
from headrace.pipeline.verbs.options import GivenConfig, config_verb, endpoint_option


@config_verb()
@click.option("--kubeflow", is_flag=True, help="Send messages about runs on Kubeflow that have ended, and no test.")
@click.option(
    "--manifest", is_flag=True, help="Print a CronJob that runs --kubeflow regularly, for `kubectl apply -f -`."
)
@endpoint_option
def notify(config: GivenConfig, kubeflow: bool, manifest: bool, endpoint: str) -> None:
    """Send a test message to every receiver of CONFIG.

    Of `pushgateway` and `prometheus_file`, only the environment variables are checked, because a message would replace
    the metrics of the last run. The exit status is 1 if a receiver cannot be reached.

    With --kubeflow, the receivers get one message for each run on Kubeflow that has ended since the last such command.
    If a receiver cannot be reached, the next command tries again.
    """
    if kubeflow and manifest:
        raise click.UsageError("--kubeflow tells the receivers now, and --manifest writes the CronJob that does so")
    if manifest:
        _write_manifest(config, endpoint)
    elif kubeflow:
        sys.exit(_sweep(config))
    else:
        sys.exit(_send_test(config))


def _send_test(config: GivenConfig) -> bool:
    """Returns whether a receiver was not reached."""
    from headrace.pipeline.notify.notify import send_test

    loaded = config.load().config
    _need_receivers(config, loaded.notify)
    failed = False
    for outcome in send_test(loaded):
        receiver = f"notify.{outcome.receiver} ({loaded.notify[outcome.receiver].kind})"
        failed |= outcome.error is not None
        click.echo(f"{receiver}: {outcome.error or outcome.what}", err=outcome.error is not None)
    return failed


def _sweep(config: GivenConfig) -> bool:
    """Returns whether a receiver was not reached, or a run could not be told."""
    from headrace.pipeline.kubeflow.server import access

    prepare()
    loaded = config.load(rules=access.RULES).config
    _need_receivers(config, loaded.notify)
    from headrace.common.store_lock import LockedError
    from headrace.pipeline.kubeflow.notifier.sweep import sweep
    from headrace.pipeline.kubeflow.results_store import results_of
    from headrace.pipeline.kubeflow.server.session import Session

    failed, ended = False, 0
    try:
        with results_of(loaded) as store:
            for notice in sweep(Session.of(loaded), store):
                click.echo(str(notice), err=notice.error is not None)
                failed, ended = failed or notice.failed, ended + 1
    except LockedError as error:
        click.echo(f"another sweep is in progress and tells the receivers: {error}", err=True)
        return failed
    if not ended:
        click.echo("nothing to tell: no further run has ended")
    return failed


def _write_manifest(config: GivenConfig, endpoint: str) -> None:
    from headrace.common.errors import RunError
    from headrace.configs.rules import on_kubeflow

    rules = (on_kubeflow.image_is_named, on_kubeflow.receivers_are_told_by_a_notifier, on_kubeflow.name_fits_a_cron_job)
    loaded = config.load(rules=rules).config
    _need_receivers(config, loaded.notify)
    if loaded.kubeflow.notify is None or loaded.kubeflow.notify.cron is None:
        raise RunError("kubeflow.notify.cron is null, so there is no CronJob to write; set it, such as to */5 * * * *")
    from headrace.pipeline.kubeflow.compiler.notifier import notifier_manifest

    click.echo(notifier_manifest(loaded, endpoint), nl=False)


def _need_receivers(config: GivenConfig, receivers: object) -> None:
    from headrace.common.errors import RunError

    if not receivers:
        raise RunError(f"{config} has no receivers; add some under `notify:` (docs/notify.md)")
