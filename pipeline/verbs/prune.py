"""`headrace prune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.pipeline.verbs.options import config_options, load, short, told

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig
    from headrace.pipeline.local.prune import Plan

DAY = 86_400


@click.command()
@config_options
@click.option("--keep", type=click.IntRange(min=1), default=10, show_default=True, help="Runs that made a model.")
@click.option(
    "--older-than", "days", type=click.IntRange(min=0), default=0, metavar="DAYS", help="Keep younger runs too."
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option(
    "--root", metavar="URI", help="Pipeline root in an object store: remove what runs on Kubeflow kept of spans there."
)
@told
def prune(  # noqa: PLR0913, PLR0917
    config: Path, profile: str | None, overrides: tuple[str, ...], keep: int, days: int, dry_run: bool, root: str | None
) -> None:
    """Remove what old runs of CONFIG left on this machine: all but the newest runs, and what those need.

    What a kept run reused, the newest blessed models, and the spans that kept runs learned from stay, whichever run
    made them. Pushed models are not looked at.

    With --root, what runs on Kubeflow kept of spans goes, but for what the newest runs used, or was written within the
    last day. Nothing else in the object store is looked at.
    """
    import time

    from headrace.configs.errors import RunError
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.local import prune as old
    from headrace.pipeline.local.lock import locked

    loaded = load(config, profile, overrides, data=False).config
    if root is not None:
        _prune_root(loaded, root, keep, time.time() - days * DAY, dry_run=dry_run)
        return
    folders = Folders.of(loaded)
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


def _prune_root(config: PipelineConfig, root: str, keep: int, older_than: float, *, dry_run: bool) -> None:
    import time

    from headrace.configs.errors import RunError
    from headrace.configs.passwords import hidden
    from headrace.pipeline.kubeflow import prune_spans
    from headrace.pipeline.kubeflow.pod.paths import SCHEMES
    from headrace.pipeline.kubeflow.store import open_store
    from headrace.pipeline.kubeflow.store_settings import store_options
    from headrace.pipeline.report.figures import size

    if not root.startswith(tuple(SCHEMES)):
        raise RunError(f"--root {hidden(root)}: not in an object store; write {', '.join(SCHEMES)} and bucket/path")
    store, uri = open_store(store_options(config.kubeflow)), f"{root.rstrip('/')}/{config.pipeline.name}/spans"
    try:
        found = prune_spans.plan(store, uri, keep, older_than, time.time())
        if dry_run:
            for key in found.spans:
                click.echo(f"would remove {uri}/{key}")
        else:
            prune_spans.remove(store, found)
    except RunError:
        raise
    except OSError as error:
        raise RunError(f"{uri}: the object store failed: {error}") from None
    if not found.spans and not found.notes:
        click.echo(f"nothing to remove: {_count(found.runs, 'run')} used spans in {uri}, and all they used is kept")
        return
    what = f"what {_count(len(found.kept_runs), 'run')} of {found.runs:,} used stays; {_count(len(found.spans), 'key')}"
    click.echo(f"{what} of spans: {'would free' if dry_run else 'freed'} {size(found.freed)}")


def _total(found: Plan, dry_run: bool) -> str:
    from headrace.components.example_gen.span_store import SHARDS
    from headrace.pipeline.report.figures import size

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
