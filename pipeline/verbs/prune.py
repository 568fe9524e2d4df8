"""`headrace prune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.verbs.options import config_options, load, short, told

if TYPE_CHECKING:
    from pipeline.local.prune import Plan

DAY = 86_400


@click.command()
@config_options
@click.option("--keep", type=click.IntRange(min=1), default=10, show_default=True, help="Runs that made a model.")
@click.option(
    "--older-than", "days", type=click.IntRange(min=0), default=0, metavar="DAYS", help="Keep younger runs too."
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@told
def prune(  # noqa: PLR0913, PLR0917
    config: Path, profile: str | None, overrides: tuple[str, ...], keep: int, days: int, dry_run: bool
) -> None:
    """Remove what old runs of CONFIG left on this machine: all but the newest runs, and what those need.

    What a kept run reused, the newest blessed models, and the spans that kept runs learned from stay, whichever run
    made them. Pushed models are not looked at.
    """
    import time

    from configs.errors import RunError
    from pipeline.folders import Folders
    from pipeline.local import prune as old
    from pipeline.local.lock import locked

    folders = Folders.of(load(config, profile, overrides, data=False).config)
    if not folders.runs.is_dir():
        raise RunError(f"no run yet in {folders.runs}; start one with `headrace run {config}`")
    with locked(folders.home):
        found = old.plan(folders, keep, time.time() - days * DAY)
        total = _total(found, dry_run)
        if dry_run:
            for path in found.folders:
                click.echo(f"would remove {short(path)}")
        else:
            old.remove(folders, found)
        click.echo(total)


def _total(found: Plan, dry_run: bool) -> str:
    from components.example_gen.span_store import SHARDS
    from pipeline.report.figures import size

    if not found.folders:
        made = sum(run.made_a_model for run in found.kept)
        return f"nothing to remove: {_count(len(found.kept), 'run')}, {made} of which made a model, and all are kept"
    names = [folder.name for folder in found.runs]
    which = f" ({names[0]} to {names[-1]})" if len(names) > 1 else f" ({names[0]})" if names else ""
    counts = [
        f"{len(names)} of {_count(len(names) + len(found.kept), 'run')}{which}",
        _count(len(found.artifacts), "artifact"),
        _count(sum((path / SHARDS).exists() for path in found.spans), "kept span"),
        _count(len(found.checkpoints), "checkpoint"),
    ]
    return f"{', '.join(counts)}: {'would free' if dry_run else 'freed'} {size(found.freed)}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
