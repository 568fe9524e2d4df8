"""`headrace run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.pipeline.environment import prepare
from headrace.pipeline.unread import EXIT_CODE
from headrace.pipeline.verbs.options import INTERRUPTED, config_options, load, param_option, short, told

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.pipeline.finished import Run


@click.command()
@config_options
@param_option
@click.option("--fresh", is_flag=True, help="Run every component anew, whatever was computed before.")
@told
def run(
    config: Path, profile: str | None, overrides: tuple[str, ...], parameters: tuple[str, ...], fresh: bool
) -> None:
    """Run the pipeline of CONFIG on this machine; only what changed since the last run runs again."""
    prepare()
    from headrace.pipeline.api import carry_out
    from headrace.pipeline.local.record import Status
    from headrace.pipeline.local.signals import undisturbed
    from headrace.pipeline.run_parameters import overrides as of_parameters
    from headrace.pipeline.terminal import Output, open_display

    given, heed = of_parameters(parameters)
    loaded = load(config, profile, (*overrides, *given), data=True)
    console = Output()
    with open_display(console) as display:
        done = carry_out(loaded, str(config), display, fresh=fresh, heed=heed)
    with undisturbed():
        _last_words(console, done)
    if console.unread:
        sys.exit(EXIT_CODE)
    if done.status is not Status.DONE:
        sys.exit(INTERRUPTED if done.status is Status.INTERRUPTED else 1)


def _last_words(console: Console, done: Run) -> None:
    """Write the report and print the summary."""
    from dataclasses import replace

    from headrace.pipeline.report import write_report
    from headrace.pipeline.report.anomalies import anomalies_in_words
    from headrace.pipeline.report.run_folder import RunFolder
    from headrace.pipeline.report.training import read_training
    from headrace.pipeline.report.verdict import read_verdict
    from headrace.pipeline.terminal import print_summary

    report_file = short(write_report(done.path))
    run = RunFolder(done.path, done.record)
    verdict, training = read_verdict(run), read_training(run.directory("Trainer", "model_run"))
    if verdict.pushed is not None:
        verdict = replace(verdict, pushed=str(short(Path(verdict.pushed))))
    remarks = {"data": anomalies_in_words(run), "training": training.remarks if training else ()}
    print_summary(console, done.record, verdict, report_file, remarks)
