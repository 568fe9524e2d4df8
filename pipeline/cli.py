"""The command line. Verbs are functions in `pipeline/verbs/` that import heavy modules inside, so `--help` is quick.

To add a verb, write its function and add a line to VERBS. An installed distribution adds one by an entry point
(docs/add_verb.md).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import traceback
from collections.abc import Iterator
from typing import Any

import click

from headrace.common import entry_points
from headrace.common.environment import collect_no_more, collect_rarely
from headrace.common.utf8 import use_utf8

VERBS = {
    "Local": {
        "init": "init:init",
        "validate": "local:validate",
        "run": "local:run",
        "report": "local:report",
        "explain-cache": "maintenance:explain_cache",
    },
    "Runs": {
        "runs": "runs:runs",
        "status": "runs:status",
        "logs": "runs:logs",
    },
    "Models": {
        "predict": "predict:predict",
        "serve": "serve:serve",
        "models": "models:models",
        "compare": "compare:compare",
        "lineage": "lineage:lineage",
        "promote": "models:promote",
        "rollback": "models:rollback",
    },
    "Training": {
        "tensorboard": "tensorboard:tensorboard",
        "follow-logs": "tensorboard:follow_logs",
        "share": "share:share",
        "tune-input": "training_input:tune_input",
        "tfdata-service": "training_input:tfdata_service",
    },
    "Kubeflow": {
        "image": "image:image",
        "compile": "compile:compile_",
        "verify": "compile:verify",
        "submit": "submit:submit",
        "backfill": "submit:backfill",
        "schedule": "submit:schedule",
        "unschedule": "submit:unschedule",
        "cancel": "runs:cancel",
        "retry": "runs:retry",
    },
    "Maintenance": {
        "notify": "notify:notify",
        "prune": "maintenance:prune",
        "doctor": "maintenance:doctor",
    },
}
"""Verbs by group, in the order of `--help`: name to the module in `pipeline/verbs/` and its function."""
LOCATIONS = {name: location for group in VERBS.values() for name, location in group.items()}

TRACEBACK = "HEADRACE_TRACEBACK"
"""The environment variable that shows the traceback of an installed verb."""
CONFIG_VALUES = ("--set", "--param", "--parameter")
"""Options whose values belong to the config, which is checked for credentials when it is loaded."""
SETTING = re.compile(r"\s*[\w.\s-]+=")
"""The start of such a value. The message for any other value repeats it."""


class _Verbs(click.Group):
    """Imports the module of a verb when the verb is used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reject arguments that hold a credential: messages would repeat it, and `ps` shows it."""
        for before, argument in zip(["", *args], args, strict=False):
            option, _, value = argument.partition("=")
            setting = argument if before in CONFIG_VALUES else value if option in CONFIG_VALUES else ""
            if not SETTING.match(setting):
                _reject_credential(argument)
        with _credentials_removed():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the verb's own arguments, and run it."""
        with _credentials_removed(), _installed_verb_named(ctx):
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb. Raises UsageError for an unknown one, with the closest that exists."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            from headrace.common.names import did_you_mean

            is_config = name.endswith((".yaml", ".yml"))
            ctx.fail(
                f'no such command "{name}"' + ("; did you mean `run`?" if is_config else did_you_mean(name, known))
            )
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - of Click
        return [*LOCATIONS, *(name for name in entry_points.additions(entry_points.VERBS) if name not in LOCATIONS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - of Click
        if cmd_name not in LOCATIONS:
            offered = entry_points.additions(entry_points.VERBS).get(cmd_name)
            return _installed(cmd_name, offered) if offered else None
        module, _, function = LOCATIONS[cmd_name].partition(":")
        verb = getattr(importlib.import_module(f"headrace.pipeline.verbs.{module}"), function, None)
        if not isinstance(verb, click.Command):
            line = f'the line "{cmd_name}": "{LOCATIONS[cmd_name]}" of VERBS in pipeline/cli.py'
            raise click.UsageError(f"{line} does not name a click.Command; correct the line")
        return verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs by group, with their whole first sentence, which click would cut short."""
        width = max(map(len, LOCATIONS))
        for group, names in VERBS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (f"{name:<{width}}", command.get_short_help_str(limit=1000)) for name, command in commands if command
            ]
            with formatter.section(group):
                formatter.write_dl(rows)
        if added := entry_points.additions(entry_points.VERBS):
            with formatter.section("Installed"):
                formatter.write_dl([(f"{name:<{width}}", _described(name, offered)) for name, offered in added.items()])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="headrace", prog_name="headrace")
def cli() -> None:
    """One YAML file takes raw data to a trained, evaluated and deployed model.

    CONFIG is the path of that file; `headrace init` writes the first one. `headrace COMMAND --help` describes a
    command and its options.
    """


def _installed(name: str, offered: list[entry_points.Addition]) -> click.Command:
    """The verb of an installed distribution. Raises UsageError, which names the distribution, if it cannot be used."""
    from headrace.common.errors import RunError

    if why := entry_points.why_not_added(name, offered, LOCATIONS):
        raise click.UsageError(why)
    try:
        verb = offered[0].load()
    except RunError as error:
        raise click.UsageError(str(error)) from error
    if not isinstance(verb, click.Command):
        raise click.UsageError(f"{offered[0]}: {offered[0].location} is not a click.Command")
    return verb


def _described(name: str, offered: list[entry_points.Addition]) -> str:
    """What an installed verb does, and who adds it; or why it cannot be used."""
    try:
        what = _installed(name, offered).get_short_help_str(limit=1000)
    except click.UsageError as error:
        return error.message
    return f"{what} (from {offered[0].distribution})"


def _reject_credential(argument: str) -> None:
    if not re.search(r"[:/\\][/\\]|:.*@", argument):
        return
    from headrace.common.credentials import URL_START
    from headrace.configs.loading.secrets import url_credentials

    for start in URL_START.finditer(argument):
        for _, what in url_credentials(argument[start.start() :]):
            raise click.UsageError(what)


@contextlib.contextmanager
def _installed_verb_named(ctx: click.Context) -> Iterator[None]:
    """Name the distribution of an installed verb that fails, instead of a traceback that looks like one of Headrace."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        if ctx.invoked_subcommand in LOCATIONS or os.environ.get(TRACEBACK) == "1":
            raise
        from headrace.common.credentials import redact
        from headrace.common.errors import HeadraceError

        if isinstance(error, HeadraceError):
            raise click.ClickException(str(error)) from error
        verb = entry_points.additions(entry_points.VERBS)[str(ctx.invoked_subcommand)][0]
        last = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{verb} raised {type(error).__name__}: {error} ({last.filename}:{last.lineno})"
        way_out = f"report it to the authors of {verb.distribution}, with the traceback that {TRACEBACK}=1 shows"
        raise click.ClickException(redact(f"{what}; {way_out}")) from error


@contextlib.contextmanager
def _credentials_removed() -> Iterator[None]:
    """Remove credentials from click's own errors, which repeat the arguments."""
    try:
        yield
    except click.ClickException as error:
        from headrace.common.credentials import redact

        error.message = redact(error.message)  # type: ignore[misc]  # declared final, but the text shown is read from it
        raise


def main() -> None:
    """Entry point of `headrace`."""
    use_utf8()
    collect_rarely()
    try:
        cli(prog_name="headrace")
    finally:
        collect_no_more()
