"""`headrace runs`, `status` and `logs` for runs on this machine, and the summary that ends `headrace run`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.common.names import latest
from headrace.pipeline.verbs.options import short, short_place

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.components.bulk_predictor.record import PublishedPredictions
    from headrace.configs.config import PipelineConfig
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.results.run_folder import RunFolder
    from headrace.pipeline.results.verdict import ModelVerdict

FAILED, STOPPED = 1, 3
"""Exit codes of `status` for a run that failed, and for one that was interrupted or killed."""
KILLED = "killed"
POLL_SECONDS = 0.5


def list_runs(config: PipelineConfig, limit: int) -> None:
    """Print a line for each run, newest first: start in UTC, state, id, and what became of its model."""
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.results.record import newest_first

    folders = Folders.of(config)
    for path in newest_first(folders.runs)[:limit]:
        click.echo(_line(path, folders))
    if not folders.runs.is_dir():
        click.echo("no runs yet")


def _line(path: Path, folders: Folders) -> str:
    from headrace.common.errors import RunError

    try:
        folder, state = _read(path, folders)
    except RunError:
        return f"{'':<20}  {'damaged':<11}  {path.name}"
    started = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(folder.record.started))
    return f"{started}  {state:<11}  {path.name}  {_outcome(folder)}".rstrip()


def _read(path: Path, folders: Folders) -> tuple[RunFolder, str]:
    """A run and its state: the status of the record, or `killed` if that says `running` and nothing runs."""
    from headrace.pipeline.folders import in_progress
    from headrace.pipeline.results.record import Status
    from headrace.pipeline.results.run_folder import RunFolder
    from headrace.pipeline.run import Run

    record = Run.read(path).record
    if record.status is Status.RUNNING and not in_progress(folders.home):
        record = Run.read(path).record  # the run may have ended since
        if record.status is Status.RUNNING:
            return RunFolder(path, record), KILLED
    return RunFolder(path, record), str(record.status)


def _outcome(folder: RunFolder) -> str:
    """What became of the model, or which components failed: a few words."""
    from headrace.pipeline.results.record import Status
    from headrace.pipeline.results.verdict import read_verdict

    record = folder.record
    if record.status is Status.FAILED:
        return ", ".join(node.id for node in record.nodes if node.status is Status.FAILED)
    if record.ended is not None:
        return "nothing to train for"
    verdict = read_verdict(folder)
    if verdict.pushed is not None:
        return f"pushed {short_place(verdict.pushed)}"
    if verdict.awaiting is not None:
        return "blessed, awaits approval"
    return {True: "blessed", False: f"not blessed by {', '.join(verdict.refused_by)}", None: ""}[verdict.blessed]


def show_run(config: PipelineConfig, given: str, run_id: str | None, *, watch: bool) -> int:
    """Show the components of a run and its summary, once or until it has ended; return the exit code.

    given: the config as the user named it. Raises RunError if there is no such run.
    """
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.report import FILE_NAME
    from headrace.pipeline.results.record import Status
    from headrace.pipeline.terminal import StandardOutput, open_display

    folders = Folders.of(config)
    path, console = find_run(folders, given, run_id), StandardOutput()
    folder, state = _read(path, folders)
    with open_display(console) as display:
        display.update(folder.record)
        while watch and state == Status.RUNNING:
            time.sleep(POLL_SECONDS)
            folder, state = _read(path, folders)
            display.update(folder.record)
    report = path / FILE_NAME
    if state in {Status.RUNNING, KILLED}:
        click.echo(f"\nrun       {path.name}  {state}")
    else:
        show_summary(console, folder, short(report) if report.is_file() else None)
    return {Status.FAILED: FAILED, Status.INTERRUPTED: STOPPED, KILLED: STOPPED}.get(state, 0)


def find_run(folders: Folders, given: str, run_id: str | None) -> Path:
    """The folder of a run, by default the newest. Raises RunError if there is none."""
    from headrace.common.errors import RunError
    from headrace.pipeline.results.record import newest_first

    runs = [path.name for path in newest_first(folders.runs)]
    if not runs:
        raise RunError(f"there is no run in {folders.runs} yet; start one with `headrace run {given}`")
    if run_id is not None and run_id not in runs:
        raise RunError(f"there is no run {run_id} in {folders.runs}; {latest(runs)}")
    return folders.runs / (run_id or runs[0])


def show_summary(console: Console, folder: RunFolder, report: Path | None, options: str = "") -> None:
    """Print what came of a run. options: for the command that promotes the model, each after a space."""
    from headrace.pipeline.report.data import anomalies_in_words, gates_in_words
    from headrace.pipeline.report.training import read_training
    from headrace.pipeline.results.verdict import read_verdict
    from headrace.pipeline.terminal import print_summary
    from headrace.pipeline.terminal.summary import PREDICTED

    training = read_training(folder.directory("Trainer", "model_run"))
    remarks = {
        "data": anomalies_in_words(folder),
        "gates": gates_in_words(folder),
        "training": training.remarks if training else (),
        "test": folder.evaluation.remarks if folder.evaluation else (),
        PREDICTED: _predicted(folder.predicted),
    }
    print_summary(console, folder.record, _with_short_places(read_verdict(folder), options), report, remarks)


def _with_short_places(verdict: ModelVerdict, options: str) -> ModelVerdict:
    from dataclasses import replace

    return replace(
        verdict,
        pushed=verdict.pushed and short_place(verdict.pushed),
        in_service=verdict.in_service and short_place(verdict.in_service),
        awaiting=verdict.awaiting and f"{verdict.awaiting}{options}",
    )


def _predicted(done: PublishedPredictions | None) -> list[str]:
    """The line about the predictions of new data."""
    if done is None:
        return []
    if done.output is None:
        return [done.words]
    return [f"{short(Path(done.output))}{'' if done.changed else ' (unchanged)'}: {done.words}"]


def print_log(config: PipelineConfig, given: str, component: str, run_id: str | None, *, follow: bool) -> None:
    """Print the log of a component, until it has ended if `follow`.

    given: the config as the user named it. Raises RunError if there is no such run, component or log.
    """
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.results.record import Status

    folders = Folders.of(config)
    path = find_run(folders, given, run_id)
    log, position = _log(path, component, folders), 0
    while True:
        folder, state = _read(path, folders)
        ended = folder.record.node(component).status.ended or state != Status.RUNNING
        for text in _texts_after(log, position):
            position += len(text)
            click.echo(text, nl=False)
        if ended or not follow:
            return
        time.sleep(POLL_SECONDS)


def _texts_after(log: Path, position: int) -> Iterator[bytes]:
    """What was written after so many bytes, in pieces of at most 1 MiB."""
    with log.open("rb") as file:
        file.seek(position)
        while text := file.read(1 << 20):
            yield text


def _log(path: Path, component: str, folders: Folders) -> Path:
    """The log of a component in the run of a folder. Raises RunError if there is none, with where to look instead."""
    from headrace.common.errors import RunError
    from headrace.common.names import did_you_mean_or_list
    from headrace.pipeline.results.record import Status

    nodes = {node.id: node for node in _read(path, folders)[0].record.nodes}
    if component not in nodes:
        raise RunError(f"run {path.name} has no {component}{did_you_mean_or_list(component, nodes, 'it has')}")
    node, log = nodes[component], path / "logs" / f"{component}.log"
    if log.is_file():
        return log
    if node.status is Status.CACHED:
        earlier = _earlier_log(path, component, folders)
        where = f"; see the log of run {earlier}" if earlier else ""
        raise RunError(f"{component} was reused in run {path.name}, so it logged nothing{where}")
    raise RunError(f"{component} logged nothing in run {path.name}: its status is {node.status}")


def _earlier_log(path: Path, component: str, folders: Folders) -> str | None:
    """The id of the newest run before the one of a folder in which a component logged something."""
    from headrace.pipeline.results.record import newest_first

    runs = [run.name for run in newest_first(folders.runs)]
    found = runs[runs.index(path.name) + 1 :]
    return next((run for run in found if (folders.runs / run / "logs" / f"{component}.log").is_file()), None)
