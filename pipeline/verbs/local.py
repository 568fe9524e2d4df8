"""`headrace validate`, `run` and `report`: check a config, run its pipeline on this machine, and look at the result."""

from __future__ import annotations

import functools
import itertools
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.common.environment import prepare
from headrace.common.figures import plural
from headrace.common.names import join_names
from headrace.pipeline.interrupts import BROKEN_PIPE, CTRL_C
from headrace.pipeline.verbs.options import (
    GivenConfig,
    config_verb,
    overlay_options,
    param_option,
    reports_errors,
    short,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from headrace.configs.config import PipelineConfig
    from headrace.configs.loading.loader import LoadedConfig
    from headrace.pipeline.api import EndedRun
    from headrace.pipeline.local.server_process import EarlyProcess

MANY_ALIKE = 6
"""As many features in a row with the same settings are shown as one line."""
MOST_LEFT_OUT = 20
"""Columns that `auto` leaves out, of which the reason is shown."""


@click.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@overlay_options
@click.option("--schema", is_flag=True, help="Print the JSON Schema of configs, for editors, and check nothing.")
@reports_errors
def validate(config: Path | None, profile: str | None, overrides: tuple[str, ...], schema: bool) -> None:
    """Check CONFIG and the data that it names.

    Every mistake is listed with its file and line.
    """
    if schema:
        import json

        from headrace.configs.json_schema import editor_schema

        click.echo(json.dumps(editor_schema(), indent=2))
        return
    if config is None:
        raise click.UsageError("name a config, such as configs/taxi.yaml, or use --schema")
    loaded = GivenConfig(config, profile, overrides).load(data=True, components=True)
    from headrace.pipeline.validate import check_machine

    for problem in check_machine(loaded):
        click.echo(f"note: `headrace run` would stop on this machine: {problem}", err=True)
    for name, variable in _unset_variables(loaded.config):
        click.echo(f"note: notify.{name} would not be told: {variable} is not set in the environment", err=True)
    for name, variable in _unset_tokens(loaded.config):
        where = f"deploy.registry.{name}"
        click.echo(f"note: {where} would get no versions: {variable} is not set in the environment", err=True)
    count, function = len(loaded.config.declared_features), loaded.config.preprocessing
    features = f"features by {function.function}" if function else plural(count, "feature")
    columns = loaded.config.label.columns
    labels = f"label{'s' * (len(columns) > 1)} {', '.join(columns)}"
    click.echo(f"{config}: the config is valid and fits the data ({features}, {labels})")
    _show_rows(loaded)
    _show_model(loaded.config)
    _show_selection(loaded)


def _unset_variables(config: PipelineConfig) -> list[tuple[str, str]]:
    """The receivers that name environment variables which are not set, with those."""
    import os

    from headrace.configs.schema.notify import variables

    named = [(name, variable) for name, receiver in config.notify.items() for variable in variables(receiver)]
    return [(name, variable) for name, variable in named if not os.environ.get(variable)]


def _unset_tokens(config: PipelineConfig) -> list[tuple[str, str]]:
    """The model registries whose token is in an environment variable that is not set, with that."""
    import os

    named = config.deploy.registry.named if config.deploy.registry else ()
    variables = [(name, server.authorization_env) for name, server in named]
    return [(name, variable) for name, variable in variables if variable and not os.environ.get(variable)]


def _show_rows(loaded: LoadedConfig) -> None:
    """Print how much of the data was looked at."""
    seen = loaded.rows_seen
    if not seen.by_split:
        click.echo(f"rows: not looked at before a run, which checks them{seen.why and f'; {seen.why}'}")
        return
    counts = join_names(
        f"{_count(rows, whole=split in seen.whole)}{f' of {split}' if split else ''}"
        for split, rows in seen.by_split.items()
    )
    newest = f" of {seen.span}, the newest of {seen.spans} spans" if seen.spans > 1 else ""
    rest = "" if seen.whole >= {*seen.splits} and seen.spans == 1 else "; a run checks the others"
    click.echo(f"rows: looked at {counts}{newest}{rest}")


def _count(rows: int, *, whole: bool) -> str:
    if whole and rows == 1:
        return "the only row"
    return f"{'all' if whole else 'the first'} {plural(rows, 'row')}"


def _show_model(config: PipelineConfig) -> None:
    """Print what the default kind of model stands for."""
    from headrace.configs.schema.table_model import TableModel

    if isinstance(config.model, TableModel) and not config.only_predicts:
        click.echo(f"model: {config.model.description(config.declared_features, config.train)}")


def _show_selection(loaded: LoadedConfig) -> None:
    """Print what `auto` and patterns stand for, as YAML."""
    from headrace.configs.loading.editing import to_flow

    if (found := loaded.selection) is None:
        return
    if found.pinned:
        click.echo(f"pinned in {short(found.file.absolute())}; delete it to choose by the present data again")
    if found.selected.label is not None:
        key = {"key": loaded.config.label.key} if loaded.config.label.key else {}
        click.echo(f"label: {to_flow({**key, **found.selected.label})}")
    if found.selected.types:
        click.echo(f"data.types: {to_flow(found.selected.types)}")
    if found.selected.columns is not None:
        click.echo(f"data.columns: {found.selected.columns}")
    if found.takes_model and found.selected.model is not None:
        click.echo(f"model: {to_flow(found.selected.model)}")
    for name, features in found.selected.features.items():
        click.echo(f'"{name}": {plural(len(features), "feature")}')
        for settings, alike in itertools.groupby(features.items(), lambda item: to_flow(item[1])):
            names = [to_flow(feature) for feature, _ in alike]
            shown = names if len(names) < MANY_ALIKE else [f"{names[0]} to {names[-1]}, {len(names)} features"]
            for name_or_range in shown:
                click.echo(f"  {name_or_range}: {settings}")
    _show_left_out(found.selected.left_out)


def _show_left_out(columns: Mapping[str, str]) -> None:
    """Print which columns `auto` did not take, and why."""
    for name, why in [*columns.items()][:MOST_LEFT_OUT]:
        click.echo(f"left out: {name}: {why}")
    if len(columns) > MOST_LEFT_OUT:
        click.echo(f"left out: {len(columns) - MOST_LEFT_OUT:,} more columns")


@config_verb()
@param_option
@click.option("--fresh", is_flag=True, help="Run every component, even if an earlier run could be reused.")
def run(config: GivenConfig, parameters: tuple[str, ...], fresh: bool) -> None:
    """Run the pipeline of CONFIG on this machine.

    Components whose inputs, settings and code are unchanged since an earlier run are reused.
    """
    prepare()
    from headrace.pipeline.local.server_process import EarlyProcess

    with EarlyProcess(fresh=fresh) as early:
        early.start_if_new(config.path, [config.profile or "", *config.overrides, *parameters])
        _run(config, parameters, early, fresh=fresh)


def _run(config: GivenConfig, parameters: tuple[str, ...], early: EarlyProcess, *, fresh: bool) -> None:
    from headrace.pipeline.api import run_to_the_end
    from headrace.pipeline.results.record import Status
    from headrace.pipeline.run_parameters import parameter_overrides
    from headrace.pipeline.terminal import StandardOutput, open_display

    given, obey_retrain = parameter_overrides(parameters)
    console = StandardOutput()
    _say_what_comes(console, config)
    ended = run_to_the_end(
        config.path,
        config.profile,
        (*config.overrides, *given),
        open_display(console),
        early,
        fresh=fresh,
        obey_retrain=obey_retrain,
        on_end=functools.partial(_show_end, console, _options(config)),
    )
    for outcome in ended.registered:
        if outcome.added:
            console.print(f"registry  {outcome}", soft_wrap=True, highlight=False)
    if console.reader_gone:
        sys.exit(BROKEN_PIPE)
    if ended.run.status is not Status.DONE:
        sys.exit(CTRL_C if ended.run.status is Status.INTERRUPTED else 1)
    if ended.serving is not None and ended.serving.error is not None:
        sys.exit(1)


def _say_what_comes(console: Console, config: GivenConfig) -> None:
    """Print a line at once: the check of the data and the start of TFX may take many seconds on a busy machine."""
    import time

    if not config.path.exists():
        return  # the error comes as soon
    what = f"{time.strftime('%H:%M:%S')} checking {config} and the data, and starting the pipeline"
    console.print(what, style="dim", soft_wrap=True, highlight=False, markup=False)


def _options(config: GivenConfig) -> str:
    """The options that another command needs to find the models of this run, each after a space."""
    found = [] if config.profile is None else ["--profile", config.profile]
    for override in config.overrides:
        if override.startswith(("pipeline.", "deploy.")):
            found += ["--set", override]
    return "".join(f" {shlex.quote(word)}" for word in found)


def _show_end(console: Console, options: str, ended: EndedRun) -> None:
    """Print the summary, and what became of the server. options: for the command that promotes the model."""
    from headrace.pipeline.results.run_folder import RunFolder
    from headrace.pipeline.verbs.local_runs import show_summary

    show_summary(console, RunFolder(ended.run.path, ended.run.record), short(ended.report), options)
    if ended.serving is not None and ended.serving.words:
        style = None if ended.serving.error is None else "bold red"
        console.print(f"serving   {ended.serving.words}", style=style, soft_wrap=True, highlight=False, markup=False)


@config_verb()
@click.option("--run", "run_id", metavar="RUN", help="The id of the run. The default is the latest.")
def report(config: GivenConfig, run_id: str | None) -> None:
    """Write the HTML report of a run of CONFIG.

    The report is one page that opens from disk. Its path is printed.
    """
    from headrace.common.errors import RunError
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.report import write_report
    from headrace.pipeline.verbs.local_runs import find_run

    run_dir = find_run(Folders.of(config.load().config), str(config), run_id)
    try:
        click.echo(short(write_report(run_dir)))
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{run_dir / 'run.json'} is damaged, or of another version ({error}); remove {run_dir}"
        ) from error
