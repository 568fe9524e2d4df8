"""`headrace tensorboard` and `follow-logs`: TensorBoard on local runs, and on runs in an object store."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from headrace.common.environment import prepare, quiet
from headrace.pipeline.verbs.options import GivenConfig, config_verb, reports_errors

MEGABYTE = 1_000_000


@config_verb()
@click.option("--run", "run_id", metavar="RUN", help="Show only the run with this id. The default is all runs.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="The port to serve on; 0 takes any free one. The default is 6006, or the next free one.",
)
@click.option("--google-charts", is_flag=True, help="Draw profiles with Google Charts, loaded from gstatic.com.")
def tensorboard(config: GivenConfig, run_id: str | None, port: int | None, google_charts: bool) -> None:
    """Serve TensorBoard with the trainings of CONFIG.

    It shows their curves and profiles, until Ctrl-C.
    """
    prepare()
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.tensorboard.server import trainings

    folders = Folders.of(config.load().config)
    names = list(trainings(folders, run_id))
    number = f"{len(names)} training{'s' * (len(names) > 1)}"
    with quiet():  # also while it serves: the profile plugin writes a line for each request
        from headrace.pipeline.tensorboard.server import serving

        with serving(lambda: trainings(folders, run_id), port, google_charts) as address:
            click.echo(f"{address}  {number}, the latest {names[-1]}; Ctrl-C ends it")
            threading.Event().wait()


@click.command("follow-logs")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--root", metavar="URI", help="The pipeline root that holds the runs, such as s3://bucket/root.")
@click.option(
    "--launcher",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Kubeflow's ConfigMap kfp-launcher as a folder, which supplies the root and its store if the options do not.",
)
@click.option("--endpoint", metavar="URL", help="The endpoint of an S3-compatible store.")
@click.option("--region", metavar="NAME", help="The region of the store.")
@click.option(
    "--every",
    type=click.FloatRange(0, min_open=True),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="The time between two checks of the store; more if a check takes long.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=4000,
    show_default=True,
    metavar="MB",
    help="The most megabytes to keep in FOLDER. The newest trainings stay.",
)
@click.option("--once", is_flag=True, help="Copy the logs once, and end.")
@reports_errors
def follow_logs(
    folder: Path,
    root: str | None,
    launcher: Path | None,
    endpoint: str | None,
    region: str | None,
    every: float,
    limit: int,
    once: bool,
) -> None:
    """Copy run logs from an object store, for TensorBoard.

    The logs in FOLDER are kept up to date until Ctrl-C.

    Credentials come from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or Google's).
    """
    if root is None and launcher is None:
        raise click.UsageError("name the pipeline root with --root or --launcher")
    from headrace.pipeline.kubeflow.store import open_store
    from headrace.pipeline.kubeflow.store_settings import launcher_settings
    from headrace.pipeline.tensorboard.follow import Follower, describe, follow

    root, options = launcher_settings(launcher, root)
    options |= {name: given for name, given in (("endpoint", endpoint), ("region", region)) if given}
    follower = Follower(open_store(options), root, folder, limit * MEGABYTE)
    click.echo(f"following {root} in {folder}")
    if once:
        click.echo(describe(follower.scan()))
        return
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # by default, the first process of a container ignores both
        signal.signal(number, lambda *_: ended.set())
    follow(follower.scan, every, ended, click.echo)
    click.echo("ended")
