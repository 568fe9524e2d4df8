"""`headrace explain-cache`, `prune` and `doctor`: look after the files and the environment of runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.common.environment import prepare, quiet
from headrace.common.figures import plural
from headrace.pipeline.verbs.options import GivenConfig, config_verb, reports_errors, short

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig
    from headrace.pipeline.cache.explanation import RunExplanation
    from headrace.pipeline.local.prune import PrunePlan

DAY = 86_400


@config_verb("explain-cache")
@click.argument("run", required=False)
@click.option("--next", "ahead", is_flag=True, help="Predict what the next run would reuse, without running it.")
@click.option("--kubeflow", is_flag=True, help="Explain a run on Kubeflow, given by name or id.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain_cache(config: GivenConfig, run: str | None, ahead: bool, kubeflow: bool, as_json: bool) -> None:
    """Explain why each component of a run was reused or ran.

    RUN is the id of a run of CONFIG, by default the newest.
    """
    if ahead and (run or kubeflow):
        raise click.UsageError("--next predicts the next local run, so it takes no RUN and no --kubeflow")
    prepare()
    loaded = config.load(functions=ahead)
    found = _explanation(loaded.config, run, ahead=ahead, kubeflow=kubeflow)
    from headrace.pipeline.cache import explanation
    from headrace.pipeline.terminal import StandardOutput

    if as_json:
        click.echo(explanation.as_json(found))
    else:
        explanation.show(found, StandardOutput())


def _explanation(config: PipelineConfig, run: str | None, *, ahead: bool, kubeflow: bool) -> RunExplanation:
    if ahead:
        with quiet():
            from headrace.pipeline.cache.predict import predict

            return predict(config)
    if kubeflow:
        with quiet():
            from headrace.pipeline.kubeflow.server.cache import explain as explain_there
            from headrace.pipeline.kubeflow.server.session import Session
        return explain_there(Session.of(config), run)
    from headrace.pipeline.cache.explain import explain
    from headrace.pipeline.folders import Folders

    return explain(Folders.of(config), run)


@config_verb()
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Keep the newest N runs that made a model, and what they need.",
)
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(min=0),
    default=0,
    metavar="DAYS",
    help="Also keep every run younger than this many days.",
)
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option(
    "--root",
    metavar="URI",
    help="Prune a pipeline root in an object store instead: the spans that runs on Kubeflow store there.",
)
def prune(config: GivenConfig, keep: int, days: int, dry_run: bool, root: str | None) -> None:
    """Remove what old runs of CONFIG left on this machine.

    The newest runs stay with everything that they need: artifacts that they reused from older runs, and the spans that
    they were trained on. So do the newest blessed models, with the records that `headrace lineage` reads. Pushed models
    are never removed.

    With --root, the spans stored by runs on Kubeflow are removed, except those that the newest runs used and those
    written within the last day. Nothing else in the object store is removed.
    """
    from headrace.common.errors import RunError
    from headrace.pipeline.folders import Folders, locked
    from headrace.pipeline.local.prune import plan_prune, remove

    loaded = config.load().config
    older_than = time.time() - days * DAY
    if root is not None:
        _prune_object_store(loaded, root, keep, older_than, dry_run=dry_run)
        return
    folders = Folders.of(loaded)
    if not folders.runs.is_dir():
        raise RunError(f"there is no run in {folders.runs} yet; start one with `headrace run {config}`")
    with locked(folders.home, "`headrace prune`"):
        push = None if loaded.push_directory is None else folders.pushed(loaded.push_directory)
        plan = plan_prune(folders, keep, older_than, push)
        summary = _summary(plan, dry_run)
        if dry_run:
            for path in plan.folders:
                click.echo(f"would remove {short(path)}")
        else:
            remove(folders, plan)
        click.echo(summary)


def _prune_object_store(config: PipelineConfig, root: str, keep: int, older_than: float, *, dry_run: bool) -> None:
    from headrace.common.credentials import redact_urls
    from headrace.common.errors import RunError
    from headrace.pipeline.kubeflow import prune_spans
    from headrace.pipeline.kubeflow.pod.paths import SCHEMES
    from headrace.pipeline.kubeflow.results_store import naming_store
    from headrace.pipeline.kubeflow.store import open_store
    from headrace.pipeline.kubeflow.store_settings import store_options
    from headrace.pipeline.report.formatting import size

    if not root.startswith(tuple(SCHEMES)):
        allowed = ", ".join(SCHEMES)
        raise RunError(f"--root {redact_urls(root)} is not in an object store; write {allowed} followed by bucket/path")
    store, uri = open_store(store_options(config.kubeflow)), f"{root.rstrip('/')}/{config.pipeline.name}/spans"
    with naming_store(uri):
        found = prune_spans.plan(store, uri, keep, older_than, time.time())
        if dry_run:
            for key in found.spans:
                click.echo(f"would remove {uri}/{key}")
            for name in (name for objects in found.unlisted.values() for name in objects):
                click.echo(f"would remove {uri}/{name}, which no list names")
        else:
            prune_spans.remove(store, found)
    if not found.spans and not found.notes and not found.unlisted:
        click.echo(f"nothing to remove: {plural(found.runs, 'run')} used spans in {uri}, and all of those are kept")
        return
    freed = f"{'would free' if dry_run else 'freed'} {size(found.freed)}"
    kept = f"kept what {plural(len(found.kept_runs), 'run')} of {found.runs:,} used"
    left = sum(map(len, found.unlisted.values()))
    more = f" and {plural(left, 'unlisted object')}" if left else ""
    click.echo(f"{kept}; {plural(len(found.spans), 'key')} of spans{more}: {freed}")


def _summary(plan: PrunePlan, dry_run: bool) -> str:
    from headrace.components.example_gen.span_store import SHARDS_FILE
    from headrace.pipeline.report.formatting import size

    stay = [*plan.kept, *plan.records]
    if not plan.folders:
        made = sum(run.made_a_model for run in stay)
        several = f"all {len(stay):,} runs are kept, {made:,} of which made a model"
        return f"nothing to remove: {['there is no run', 'the only run is kept', several][min(len(stay), 2)]}"
    names = [folder.name for folder in plan.runs]
    which = f" ({names[0]} to {names[-1]})" if len(names) > 1 else f" ({names[0]})" if names else ""
    counts = [
        f"{len(names)} of {plural(len(names) + len(stay), 'run')}{which}",
        plural(len(plan.artifacts), "artifact"),
        plural(sum((path / SHARDS_FILE).exists() for path in plan.spans), "stored span"),
        plural(len(plan.checkpoints), "checkpoint"),
    ]
    return f"{', '.join(counts)}: {'would free' if dry_run else 'freed'} {size(plan.freed)}"


@click.command()
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    metavar="FOLDER",
    help="The pipeline root (`pipeline.root`) to check.",
)
@reports_errors
def doctor(root: Path) -> None:
    """Check the environment of this machine.

    Every problem is listed with a way to fix it.
    """
    from headrace.pipeline.doctor import main as examine

    sys.exit(examine(root))
