"""`headrace follow-logs`."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from headrace.pipeline.verbs.options import told

MEGABYTE = 1_000_000


@click.command("follow-logs")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--root", metavar="URI", help="Where the runs are, such as s3://bucket/root.")
@click.option(
    "--launcher",
    type=click.Path(path_type=Path, file_okay=False),
    help="Kubeflow's ConfigMap kfp-launcher as a folder: names the root and its store where the options do not.",
)
@click.option("--endpoint", metavar="URL", help="Of an S3-compatible store.")
@click.option("--region", metavar="NAME", help="Of the store.")
@click.option("--every", type=click.FloatRange(0, min_open=True), default=30, show_default=True,
              help="Seconds between two looks; longer where a look takes long.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), default=4000, show_default=True,
              help="Megabytes in FOLDER; the newest trainings stay.")  # fmt: skip
@click.option("--once", is_flag=True, help="Look once, and end.")
@told
def follow_logs(  # noqa: PLR0913, PLR0917 - one for each option
    folder: Path,
    root: str | None,
    launcher: Path | None,
    endpoint: str | None,
    region: str | None,
    every: float,
    limit: int,
    once: bool,
) -> None:
    """Make FOLDER hold the run logs of an object store, for TensorBoard, and follow them until Ctrl-C.

    Keys come from the environment, as everywhere (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or Google's).
    """
    if root is None and launcher is None:
        raise click.UsageError("say where the runs are, with --root or --launcher")
    from headrace.pipeline.kubeflow.store import open_store
    from headrace.pipeline.kubeflow.store_settings import launcher_settings
    from headrace.pipeline.tensorboard.follow import Follower, follow, report

    root, options = launcher_settings(launcher, root)
    options |= {name: given for name, given in (("endpoint", endpoint), ("region", region)) if given}
    follower = Follower(open_store(options), root, folder, limit * MEGABYTE)
    click.echo(f"{root} is followed in {folder}")
    if once:
        click.echo(report(follower.look()))
        return
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # the first process of a container dies of neither by itself
        signal.signal(number, lambda *_: ended.set())
    follow(follower.look, every, ended, click.echo)
    click.echo("ended")
