"""`headrace tune-input` and `tfdata-service`: how fast training gets its input, and who reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.common.environment import prepare, quiet
from headrace.pipeline.verbs.options import GivenConfig, config_verb, reports_errors

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig
    from headrace.trainer.tune_input import InputTuning

LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only if the user asks for it
LOCAL = {"localhost", LOOPBACK, "::1", "[::1]"}
"""Names by which only this machine reaches itself."""


@config_verb("tune-input")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Measure for about this long.",
)
@click.option("--dry-run", is_flag=True, help="Print the fastest settings, and leave CONFIG as it is.")
def tune_input(config: GivenConfig, seconds: float, dry_run: bool) -> None:
    """Find the fastest `train.input`, and write it into CONFIG.

    Settings are measured on the data of the latest run of CONFIG.
    """
    prepare()
    loaded = config.load()
    graph, examples = transformed(loaded.config)
    with quiet():
        from headrace.trainer.sections import TrainerSections
        from headrace.trainer.tune_input import measure

        found = measure(TrainerSections.of(loaded.config), graph, examples, seconds)
    _print_trials(found)
    if not found.changes:
        click.echo("no other setting is clearly faster than the current ones")
    elif dry_run or config.profile or config.overrides:
        why = "" if dry_run else "; with --profile or --set, write it yourself where it belongs"
        click.echo(f"faster: {_as_text(found.changes)}{why}")
    else:
        write(config.path, found.changes)
        click.echo(f"{config}: train.input is now {_as_text(found.changes)}")


def transformed(config: PipelineConfig) -> tuple[Path, Path]:
    """The folders of the transform graph and the transformed examples of the latest run that made them."""
    from headrace.common.errors import RunError
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.results.record import newest_first
    from headrace.pipeline.results.run_folder import RunFolder

    for folder in newest_first(Folders.of(config).runs):
        run = RunFolder.read(folder)
        graph = run.directory("Transform", "transform_graph")
        examples = run.directory("Transform", "transformed_examples")
        if graph and examples and any(examples.glob("Split-train/*")):
            return graph, examples
    raise RunError("no run has transformed examples to measure with yet; `headrace run` makes them")


def write(path: Path, changes: dict[str, Any]) -> None:
    """Change `train.input` in the file. Raises ConfigError, and leaves the file as it was, if that is not possible."""
    from headrace.common.errors import ConfigError
    from headrace.configs.loading.editing import edit
    from headrace.configs.loading.loader import load as read

    before = read(path)
    wanted = before.train.model_copy(update={"input": before.train.input.model_copy(update=changes)})

    def as_wanted(new: Path) -> bool:
        try:
            return read(new) == before.model_copy(update={"train": wanted})
        except ConfigError:
            return False

    edit(path, ("train", "input"), changes, as_wanted)


def _print_trials(found: InputTuning) -> None:
    from rich.table import Table

    from headrace.pipeline.terminal import StandardOutput

    table = Table("setting", box=None, header_style="bold")
    for head in ("opened in s", "examples/s", "all epochs read in s"):
        table.add_column(head, justify="right")
    for trial in found.trials:
        mark = "  ← chosen" if trial is found.best else ""
        table.add_row(
            trial.setting, f"{trial.opened:.2f}", f"{trial.examples_per_second:,.0f}", f"{trial.reading:.2f}{mark}"
        )
    StandardOutput().print(table)


def _as_text(changes: dict[str, object]) -> str:
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in changes.items())


@click.command("tfdata-service")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    default=0,
    help="The port of the dispatcher, or of the worker with --role worker; 0 takes a free one.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    metavar="N",
    help="The number of worker processes.",
)
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path),
    default=Path("runs/tfdata-service"),
    show_default=True,
    metavar="FOLDER",
    help="The folder for the dispatcher's journal and the logs.",
)
@click.option("--role", type=click.Choice(["dispatcher", "worker"]), help="Run one process only, as in a pod.")
@click.option("--dispatcher", metavar="HOST:PORT", help="The address of the dispatcher, for --role worker.")
@click.option(
    "--host", default="localhost", show_default=True, metavar="HOST", help="The name by which trainers reach a worker."
)
@click.option(
    "--listen",
    type=click.Choice([LOOPBACK, EVERYWHERE]),
    default=LOOPBACK,
    show_default=True,
    help=f"The address to listen on. With {LOOPBACK}, only programs on this machine can connect. With {EVERYWHERE},"
    " anyone who reaches the port can, without authentication, read and change all files that this user can.",
)
@reports_errors
def tfdata_service(
    port: int, workers: int, work_dir: Path, role: str | None, dispatcher: str | None, host: str, listen: str
) -> None:
    """Run a tf.data service for `train.input.service`.

    A dispatcher and workers, or one of them with --role, run until Ctrl-C.

    Only programs on this machine can connect, unless --listen 0.0.0.0 admits others: TensorFlow's service has no
    authentication.
    """
    prepare()
    from headrace.common.logs import log_to_stdout
    from headrace.trainer.service import roles

    if listen == EVERYWHERE:
        click.echo(f"warning: {roles.UNPROTECTED}", err=True)
    elif host not in LOCAL:
        raise click.UsageError(
            f"a worker at --host {host} that listens on {listen} is unreachable; add --listen {EVERYWHERE}"
        )
    if role is not None:
        log_to_stdout()  # in a pod, or in the log of the service that started it
    if role == "worker":
        if dispatcher is None:
            raise click.UsageError("a worker needs --dispatcher HOST:PORT")
        roles.run_worker(dispatcher.removeprefix("grpc://"), port, host, listen)
    elif role == "dispatcher":
        roles.run_dispatcher(port, work_dir, listen)
    else:
        _serve(port, workers, work_dir, host, listen)


def _serve(port: int, workers: int, work_dir: Path, host: str, listen: str) -> None:
    from headrace.pipeline.interrupts import interrupted_once, uninterrupted
    from headrace.trainer.service.local import LocalService

    service = LocalService(port, workers, work_dir, host=host, listen=listen)
    with interrupted_once():
        try:
            with service:
                service.wait_until_ready(120)
                many = "one worker" if workers == 1 else f"{workers} workers"
                click.echo(f"{service.address}\n{many}; logs and journal in {work_dir}; Ctrl-C ends it")
                service.watch(click.echo)
        except KeyboardInterrupt:
            with uninterrupted():
                click.echo("ended")
