"""`headrace submit`, `backfill`, `schedule` and `unschedule`: start runs on Kubeflow, now or by schedule."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.common.environment import imports_alone, prepare, quiet
from headrace.pipeline.verbs.options import GivenConfig, config_verb, param_option

if TYPE_CHECKING:
    from headrace.configs.rules.rule import Rule
    from headrace.pipeline.kubeflow.server.session import Session
    from headrace.pipeline.kubeflow.server.submit import SubmittedRun


def _rules(*, compiled: bool = False) -> Sequence[Rule]:
    """What the config must say to be compiled, unless it is, and to reach a server."""
    from headrace.configs.rules import on_kubeflow
    from headrace.pipeline.kubeflow.server import access

    return access.RULES if compiled else (*on_kubeflow.RULES, *access.RULES)


@config_verb()
@param_option
@click.option("--name", metavar="NAME", help="The name of the run. The default is derived from the pipeline's content.")
@click.option("--again", is_flag=True, help="Make another run, even if one of the same content or name exists.")
@click.option("--cache/--no-cache", default=True, help="Whether Kubeflow may reuse the outputs of earlier runs.")
@click.option("--watch", is_flag=True, help="Follow the run until it has ended.")
def submit(config: GivenConfig, watch: bool, **chosen: Any) -> None:
    """Run the pipeline of CONFIG on Kubeflow.

    Repeating the command starts no second run.
    """
    prepare()
    loaded = config.load(functions=True, rules=_rules())
    with quiet(), imports_alone():
        from headrace.pipeline.kubeflow.server.session import Session
        from headrace.pipeline.kubeflow.server.submit import run_values
        from headrace.pipeline.kubeflow.server.submit import submit as submit_run
    root = run_values(loaded.config, chosen["parameters"]).root
    session = Session.of(loaded.config, config.path.parent)
    _note_root(session, root)
    try:
        with quiet():
            version, submitted = submit_run(session, **chosen)
    except KeyboardInterrupt:
        click.echo("If the run was already made, the same command finds it and makes no second one.", err=True)
        raise
    click.echo(f"version   {version.name}{' (new)' if version.uploaded else ''}")
    _print_submitted(session, submitted)
    if watch:
        from headrace.pipeline.verbs.runs import watch_to_the_end

        sys.exit(watch_to_the_end(session, submitted.run))


def _note_root(session: Session, root: str | None = None) -> None:
    note = session.root_note(root)
    if note is not None:
        click.echo(note, err=True)


def _print_submitted(session: Session, submitted: SubmittedRun) -> None:
    run = submitted.run
    click.echo(f"run       {run.display_name}  {run.run_id}")
    click.echo(f"see       {session.link(run)}")
    if not submitted.made:
        more = "; `headrace retry` resumes from what failed" if run.state in ("FAILED", "CANCELED") else ""
        session.mark_lost([run])
        click.echo(f"This run exists already ({_state(run)}){more}; --again makes another.")


def _state(run: Any) -> str:
    from headrace.pipeline.kubeflow.server.runs import state_word

    return state_word(run, dt.datetime.now(dt.UTC))


@config_verb()
@click.option("--from", "first", required=True, metavar="SPAN", help="The first span, a number or a date.")
@click.option("--to", "last", required=True, metavar="SPAN", help="The last span, inclusive.")
def backfill(config: GivenConfig, first: str, last: str) -> None:
    """Run the pipeline of CONFIG on Kubeflow for a range of spans.

    Each span of the range that has no run yet gets one.
    """
    prepare()
    loaded = config.load(functions=True, rules=_rules())
    with quiet(), imports_alone():
        from headrace.pipeline.kubeflow.server.backfill import backfill as submit_missing
        from headrace.pipeline.kubeflow.server.backfill import spans
        from headrace.pipeline.kubeflow.server.session import Session
    wanted = spans(loaded.config, first, last)
    session = Session.of(loaded.config, config.path.parent)
    _note_root(session)
    made = 0
    for one in submit_missing(session, wanted):
        made += one.made
        how = "submitted" if one.made else f"exists already ({_state(one.run)})"
        click.echo(f"span {one.span}  {one.run.display_name}  {how}")
    click.echo(f"{made} of {len(wanted)} spans submitted")


@config_verb()
@click.option(
    "--compiled",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Upload this output of `headrace compile` as it is.",
)
def schedule(config: GivenConfig, compiled: Path | None) -> None:
    """Create or update the schedule of CONFIG on Kubeflow.

    CONFIG describes it under `schedule:`.
    """
    prepare()
    from headrace.configs.rules.on_kubeflow import schedule_is_set

    rules = [schedule_is_set, *_rules(compiled=compiled is not None)]
    loaded = config.load(functions=compiled is None, rules=rules)
    text = None if compiled is None else compiled.read_text(encoding="utf-8")
    wanted = loaded.config.schedule
    assert wanted is not None  # noqa: S101 - a rule
    with quiet(), imports_alone():
        from headrace.pipeline.kubeflow.server.schedules import submit_schedule as apply_schedule
        from headrace.pipeline.kubeflow.server.session import Session
    session = Session.of(loaded.config, config.path.parent)
    _note_root(session)
    with quiet():
        version, made, outcome = apply_schedule(session, wanted, text)
    click.echo(f"version   {version.name}{' (new)' if version.uploaded else ''}")
    when = made.trigger.cron_schedule.cron if wanted.cron else f"every {wanted.every}"
    zone = f" {loaded.config.kubeflow.server.time_zone}" if wanted.cron else ""
    click.echo(f"schedule  {made.display_name}  {when}{zone}{' (paused)' if wanted.paused else ''}  {outcome}")


@config_verb()
def unschedule(config: GivenConfig) -> None:
    """Delete the schedule of CONFIG on Kubeflow. Its runs stay."""
    session = config.session()
    from headrace.pipeline.kubeflow.server import schedules

    experiment_id = session.experiment_id()
    of_that_name = (
        [] if experiment_id is None else schedules.named_schedules(session.server, experiment_id, session.pipeline)
    )
    found = [one for one in of_that_name if schedules.is_ours(one)]
    left = schedules.remove(session.server, found)
    outcome = "paused" if left else "deleted" if found else "did not exist"
    click.echo(f"schedule  {session.pipeline}  {outcome}")
    for one in left:
        running = ", ".join(run.display_name for run in schedules.unfinished(session.server, one))
        click.echo(
            f"This release of Kubeflow would end {running} with the schedule, so the schedule is only paused;"
            " run the same command again after it has finished."
        )
    for one in of_that_name:
        if one not in found:
            click.echo(f"recurring run {one.recurring_run_id} of that name was not made by Headrace, and stays")
