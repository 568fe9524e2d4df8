"""`headrace compare`: runs or versions of a pipeline side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.common.durable import write_output
from headrace.common.storage.paths import local_output
from headrace.pipeline.verbs.models import NONE, print_table
from headrace.pipeline.verbs.options import GivenConfig, config_verb, short

if TYPE_CHECKING:
    from headrace.components.evaluation.result import Interval
    from headrace.pipeline.models.comparison import Comparison

NOTHING = {"METRICS": "none recorded", "SETTINGS": "no difference", "DATA": "none recorded", "CODE": "no difference"}
"""What stands behind the heading of an empty section."""
WIDEST = 60
"""Characters shown of a value; `--json` prints all."""


@config_verb()
@click.argument("names", nargs=-1, metavar="RUN|VERSION RUN|VERSION ...")
@click.option("--kubeflow", is_flag=True, help="Compare runs on Kubeflow, from the object store.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write an HTML page instead of printing a table.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(config: GivenConfig, names: tuple[str, ...], kubeflow: bool, output: Path | None, as_json: bool) -> None:
    """Compare runs or pushed versions of CONFIG.

    A version stands for the run that trained its model. All metrics and facts about the data are shown, and the
    settings, modules and packages that differ.
    """
    if output and as_json:
        raise click.UsageError("--output writes a page, and --json prints JSON; choose one of them")
    if output and output.suffix != ".html":
        raise click.UsageError(f"--output writes an HTML page, so {output} must end in .html")
    output = output and local_output(output)
    from headrace.pipeline import api

    found = api.compare(config.path, *names, kubeflow=kubeflow, **config.options)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=1))
    elif output:
        from headrace.pipeline.models.comparison_page import comparison_page

        write_output(output, comparison_page(found))
        click.echo(short(output.absolute()))
    else:
        print_table(list(_table(found)))


def _table(found: Comparison) -> Iterator[tuple[str, ...]]:
    yield "", *found.names
    if found.names != found.runs:
        yield "run", *found.runs
    none = (None,) * len(found.names)
    scores = {
        name: tuple(map(_score, values, found.intervals.get(name, none))) for name, values in found.metrics.items()
    }
    yield from _section("METRICS", scores, found.names)
    yield from _section("SETTINGS", found.settings, found.names)
    yield from _section("DATA", found.data, found.names)
    yield from _section("CODE", found.code, found.names)


def _score(value: float | None, ends: Interval | None) -> str:
    from headrace.pipeline.report.formatting import interval, score

    return f"{score(value)} ({interval(ends)})" if ends else score(value)


def _section(
    heading: str, values: Mapping[str, tuple[str | None, ...]], names: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    yield heading if values else f"{heading}: {NOTHING[heading]}", *("" for _ in names)
    for name, each in values.items():
        yield f"  {_cell(name)}", *map(_cell, each)


def _cell(text: str | None) -> str:
    from headrace.pipeline.results.record import on_one_line

    line = on_one_line(text or "") or NONE
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"
