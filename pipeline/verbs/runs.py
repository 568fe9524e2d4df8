"""`headrace runs`, `status`, `logs`, `cancel` and `retry`: follow and control runs on Kubeflow.

The first three show runs on this machine with --local, or if the config names no server of Kubeflow.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from headrace.pipeline.verbs.options import GivenConfig, config_verb, note

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig
    from headrace.pipeline.kubeflow.server.session import Session
    from headrace.pipeline.results.record import RunRecord

P = ParamSpec("P")
FAILED, CANCELLED = 1, 3
"""Exit codes for a run that failed, and for one that was cancelled or is lost."""
LOST = (
    "its workflow is gone from the cluster, so nothing of it runs and the server will never learn how it ended;"
    " `headrace submit --again` makes another run"
)


def _local_option(verb: Callable[P, None]) -> Callable[P, None]:
    help_text = "Show runs on this machine, as without a `kubeflow.server.endpoint` in CONFIG."
    return click.option("--local", is_flag=True, help=help_text)(verb)


def _local_config(config: GivenConfig, local: bool) -> PipelineConfig | None:
    """The config if runs on this machine are meant, else None."""
    loaded = config.load().config
    return loaded if local or loaded.kubeflow.server.endpoint is None else None


@config_verb()
@_local_option
@click.option(
    "--limit",
    type=click.IntRange(1, 200),
    default=20,
    show_default=True,
    metavar="N",
    help="List at most this many runs.",
)
def runs(config: GivenConfig, limit: int, local: bool) -> None:
    """List the runs of CONFIG, newest first."""
    if (here := _local_config(config, local)) is not None:
        from headrace.pipeline.verbs.local_runs import list_runs

        list_runs(here, limit)
    else:
        _list_server_runs(config.session(), limit)


def _list_server_runs(session: Session, limit: int) -> None:
    found = session.settled(session.runs(limit), note)
    width = max((len(run.display_name) for run in found), default=0)
    for run in found:
        click.echo(_run_line(run, width))
    if not found:
        click.echo("no runs yet")


def _run_line(run: Any, width: int) -> str:
    from headrace.pipeline.kubeflow.server.runs import state_word

    state = state_word(run, dt.datetime.now(dt.UTC))
    return f"{run.created_at:%Y-%m-%d %H:%M:%S}Z  {state:<10}  {run.display_name:<{width}}  {run.run_id}"


@config_verb()
@_local_option
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Follow the run until it has ended.")
def status(config: GivenConfig, run: str | None, watch: bool, local: bool) -> None:
    """Show the state of a run of CONFIG.

    RUN is its name or id, by default the newest.
    """
    if (here := _local_config(config, local)) is not None:
        from headrace.pipeline.verbs.local_runs import show_run

        sys.exit(show_run(here, str(config), run, watch=watch))
    session = config.session()
    found = session.run(run, note)
    if watch:
        sys.exit(watch_to_the_end(session, found))
    from headrace.pipeline.kubeflow.server.status import show
    from headrace.pipeline.terminal import open_display

    with open_display() as display:
        shown = show(session, found, display)
    code = _print_state(shown, found)
    _print_causes(session, shown, found)
    _print_refusal(session, shown, found)
    sys.exit(code)


def watch_to_the_end(session: Session, run: Any) -> int:
    """Follow the run until it has ended; returns the exit code."""
    from headrace.pipeline.kubeflow.server.status import follow
    from headrace.pipeline.terminal import open_display

    try:
        with open_display() as display:
            shown, run = follow(session, run, display, note)
    except KeyboardInterrupt:
        click.echo(f"The run {run.display_name} continues; `headrace cancel` ends it.", err=True)
        raise
    code = _print_state(shown, run)
    _print_causes(session, shown, run)
    _print_refusal(session, shown, run)
    return code


def _print_state(shown: RunRecord, run: Any) -> int:
    """Print the state of the run in a line; returns the exit code."""
    from headrace.pipeline.kubeflow.server.runs import state_word
    from headrace.pipeline.results.record import Status

    word = state_word(run, dt.datetime.now(dt.UTC))
    state = {"cancelling": "being cancelled", "lost": f"lost: {LOST}"}.get(word, word)
    failed = [node.id for node in shown.nodes if node.status is Status.FAILED]
    detail = f": {', '.join(failed)}" if failed and shown.status is Status.FAILED else _ended_early(shown)
    click.echo(f"run       {shown.run_id}  {state}{detail}")
    if shown.error and shown.status is Status.FAILED:
        click.echo(shown.error, err=True)
    return {Status.FAILED: FAILED, Status.INTERRUPTED: CANCELLED}.get(shown.status, 0)


def _ended_early(shown: RunRecord) -> str:
    """Name the log that says why a run ended early, as a success; "" for any other run."""
    from headrace.pipeline.results.record import Status

    ran = [node.id for node in shown.nodes if node.status in (Status.DONE, Status.CACHED)]
    if shown.status is not Status.DONE or not any(node.status is Status.SKIPPED for node in shown.nodes):
        return ""
    return f", early: the log of {'Drift' if 'Drift' in ran else 'Spans'} says why"


def _print_causes(session: Session, shown: RunRecord, run: Any) -> None:
    """Print why the components of a failed run failed: their own words, or that they were killed for lack of memory."""
    from headrace.pipeline.kubeflow.server.status import causes, killed_for_memory
    from headrace.pipeline.results.record import Status, on_one_line

    if shown.status is not Status.FAILED:
        return
    killed = killed_for_memory(session, run)
    for component, cause in causes(session, shown, run).items():
        if component not in killed:
            first, *more = cause.splitlines() or [f"`headrace logs CONFIG {component} {shown.run_id}` says why"]
            start = f"{component} failed: "
            if more and more[-1] == f"{start}{first}":  # as the last line of a log
                more.pop()
            for line in (f"{'' if first.startswith(start) else start}{first}", *more):
                click.echo(on_one_line(line), err=True)
    for line in killed.values():
        click.echo(line, err=True)


def _print_refusal(session: Session, shown: RunRecord, run: Any) -> None:
    """Print which gates refused the model of a run that has ended, and why."""
    from headrace.common.errors import HeadraceError
    from headrace.pipeline.kubeflow.notifier.ended import home_of_run, read_judgement
    from headrace.pipeline.kubeflow.results_store import naming_store, open_results
    from headrace.pipeline.results.record import Status, on_one_line

    judged = any(node.id == "Evaluator" and node.status in (Status.DONE, Status.CACHED) for node in shown.nodes)
    if not shown.status.ended or not judged:
        return
    log = f"`headrace logs CONFIG Evaluator {shown.run_id}`"
    try:
        with naming_store(home_of_run(session, run)):
            verdict = read_judgement(session, run, shown, open_results(session.config).promptly())
    except HeadraceError as error:
        reason = on_one_line(str(error).splitlines()[0])
        note(f"note: {reason}\n  So whether the model was blessed is not known here; {log} says it.")
        return
    if verdict.blessed is False:
        gates, reasons = verdict.refused_by, list(verdict.reasons) or [f"{log} says why"]
        if len(gates) == 1:  # which is said once
            reasons = [reason.removeprefix(f"{gates[0].lower()}: ") for reason in reasons]
        first, *others = reasons
        click.echo(on_one_line(f"blessing  not blessed{' by ' if gates else ''}{', '.join(gates)}: {first}"))
        for reason in others:
            click.echo(on_one_line(f"          {reason}"))


@config_verb()
@_local_option
@click.argument("component")
@click.argument("run", required=False)
@click.option("--follow", is_flag=True, help="Keep printing until the component has ended.")
def logs(config: GivenConfig, component: str, run: str | None, follow: bool, local: bool) -> None:
    """Print the log of a component of a run of CONFIG.

    COMPONENT is its name in the report. RUN is the name or id of the run, by default the newest.
    """
    if (here := _local_config(config, local)) is not None:
        from headrace.pipeline.verbs.local_runs import print_log

        print_log(here, str(config), component, run, follow=follow)
    else:
        _print_server_log(config.session(), component, run, follow=follow)


def _print_server_log(session: Session, component: str, run: str | None, *, follow: bool) -> None:
    from headrace.common.errors import RunError
    from headrace.common.names import did_you_mean_or_list
    from headrace.pipeline.kubeflow.server import logs as server_logs
    from headrace.pipeline.kubeflow.server.runs import read_again
    from headrace.pipeline.kubeflow.server.status import LossWatch, killed_for_memory, run_record

    found = session.run(run, note)
    graph = session.tasks(found)
    tasks = {task.get("taskInfo", {}).get("name", name): (name, task) for name, task in graph.items()}
    if component not in tasks:
        raise RunError(
            f"the run {found.display_name} has no {component}{did_you_mean_or_list(component, tasks, 'it has')}"
        )
    launcher_logs, loss = server_logs.LauncherLogs.of(session.config, found), LossWatch(session)

    def read() -> str:
        return server_logs.read_log(session.server, found, *tasks[component], launcher_logs)

    def ended() -> bool:
        nonlocal found
        found = read_again(session.server, found)
        loss.mark(found)
        return run_record(found, graph, session.pipeline).node(component).status.ended

    try:
        if follow:
            server_logs.follow(read, ended, lambda text: click.echo(text, nl=False))
        else:
            click.echo(read(), nl=False)
    finally:  # also if the log cannot be read
        if found.state in ("FAILED", "RUNNING") and (why := killed_for_memory(session, found).get(component)):
            click.echo(why, err=True)


@config_verb()
@click.argument("run")
def cancel(config: GivenConfig, run: str) -> None:
    """Cancel a run of CONFIG on Kubeflow.

    RUN is its name or id.
    """
    session = config.session()
    from headrace.pipeline.kubeflow.server.runs import cancel as cancel_run
    from headrace.pipeline.kubeflow.server.runs import state_word

    found = session.run(run, note)
    outcome = cancel_run(session.server, found)
    if outcome == "asked":
        click.echo(f"run       {found.display_name}  is being cancelled")
    elif outcome == "ended":
        click.echo(f"run       {found.display_name}  had ended: {state_word(found, dt.datetime.now(dt.UTC))}")
    else:
        click.echo(f"run       {found.display_name}  lost: {LOST}")


@config_verb()
@click.argument("run")
def retry(config: GivenConfig, run: str) -> None:
    """Resume a run of CONFIG on Kubeflow from what failed.

    RUN is its name or id. Tasks that succeeded are not repeated.
    """
    session = config.session()
    from headrace.pipeline.kubeflow.server.runs import retry as retry_run

    found = session.run(run, note)
    retry_run(session.server, found)
    click.echo(f"run       {found.display_name}  resumes from what failed")
