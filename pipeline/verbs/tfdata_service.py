"""`headrace tfdata-service`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.environment import prepare
from pipeline.verbs.options import told


@click.command("tfdata-service")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the dispatcher (0: a free one), or worker.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Worker processes.")
@click.option("--work-dir", type=click.Path(path_type=Path), default=Path("runs/tfdata-service"), show_default=True,
              help="For the dispatcher's journal and the logs.")  # fmt: skip
@click.option("--role", type=click.Choice(["dispatcher", "worker"]), help="Be one process alone, as in a pod.")
@click.option("--dispatcher", metavar="HOST:PORT", help="For --role worker: where the dispatcher is.")
@click.option("--host", default="localhost", show_default=True, help="The name by which trainers reach a worker.")
@told
def tfdata_service(  # noqa: PLR0913, PLR0917 - one for each option
    port: int, workers: int, work_dir: Path, role: str | None, dispatcher: str | None, host: str
) -> None:
    """Run a tf.data service for `train.input.service`, until Ctrl-C: a dispatcher and workers, or one of them."""
    prepare()
    if role == "worker":
        if dispatcher is None:
            raise click.UsageError("a worker needs --dispatcher HOST:PORT")
        from trainer.service.roles import work

        work(dispatcher.removeprefix("grpc://"), port, host)
    elif role == "dispatcher":
        from trainer.service.roles import dispatch

        dispatch(port, work_dir)
    else:
        _serve(port, workers, work_dir, host)


def _serve(port: int, workers: int, work_dir: Path, host: str) -> None:
    from pipeline.local.signals import stoppable, undisturbed
    from trainer.service.local import LocalService

    service = LocalService(port, workers, work_dir, host)
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
