"""`headrace tfdata-service`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.environment import prepare
from headrace.pipeline.verbs.options import told
from headrace.trainer.service.roles import EVERYWHERE, LOOPBACK, UNGUARDED

LOCAL = {"localhost", LOOPBACK, "::1", "[::1]"}
"""Names of this machine that only it takes for itself."""


@click.command("tfdata-service")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the dispatcher (0: a free one), or worker.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Worker processes.")
@click.option("--work-dir", type=click.Path(path_type=Path), default=Path("runs/tfdata-service"), show_default=True,
              help="For the dispatcher's journal and the logs.")  # fmt: skip
@click.option("--role", type=click.Choice(["dispatcher", "worker"]), help="Be one process alone, as in a pod.")
@click.option("--dispatcher", metavar="HOST:PORT", help="For --role worker: where the dispatcher is.")
@click.option("--host", default="localhost", show_default=True, help="The name by which trainers reach a worker.")
@click.option("--listen", type=click.Choice([LOOPBACK, EVERYWHERE]), default=LOOPBACK, show_default=True,
              help=f"{LOOPBACK}: only programs on this machine can connect. {EVERYWHERE}: whoever reaches the port, and"
              " without authentication they can then read and change all files that this user can.")  # fmt: skip
@told
def tfdata_service(  # noqa: PLR0913, PLR0917 - one for each option
    port: int, workers: int, work_dir: Path, role: str | None, dispatcher: str | None, host: str, listen: str
) -> None:
    """Run a tf.data service for `train.input.service`, until Ctrl-C: a dispatcher and workers, or one of them.

    Only programs on this machine can connect, unless --listen 0.0.0.0 lets others in: TensorFlow's service
    has no authentication.
    """
    prepare()
    if listen == EVERYWHERE:
        click.echo(f"warning: {UNGUARDED}", err=True)
    elif host not in LOCAL:
        raise click.UsageError(
            f"nobody reaches a worker at --host {host} that listens at {listen}: add --listen {EVERYWHERE}"
        )
    if role == "worker":
        if dispatcher is None:
            raise click.UsageError("a worker needs --dispatcher HOST:PORT")
        from headrace.trainer.service.roles import work

        work(dispatcher.removeprefix("grpc://"), port, host, listen)
    elif role == "dispatcher":
        from headrace.trainer.service.roles import dispatch

        dispatch(port, work_dir, listen)
    else:
        _serve(port, workers, work_dir, host, listen)


def _serve(port: int, workers: int, work_dir: Path, host: str, listen: str) -> None:
    from headrace.pipeline.local.signals import stoppable, undisturbed
    from headrace.trainer.service.local import LocalService

    service = LocalService(port, workers, work_dir, host=host, listen=listen)
    with stoppable():
        try:
            with service:
                service.wait_until_ready(120)
                many = "one worker" if workers == 1 else f"{workers} workers"
                click.echo(f"{service.address}\n{many}; logs and journal in {work_dir}; Ctrl-C ends it")
                service.watch(click.echo)
        except KeyboardInterrupt:
            with undisturbed():
                click.echo("ended")
