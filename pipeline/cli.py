"""The command line. A verb is a file in `pipeline/verbs/`, with the heavy imports inside its function, so that `--help`
answers at once.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator
from typing import Any

import click

from headrace.pipeline.utf8 import use_utf8

VERBS = {
    "validate": "validate",
    "run": "run",
    "report": "report",
    "tensorboard": "tensorboard",
    "follow-logs": "follow_logs",
    "share": "share",
    "explain-cache": "explain_cache",
    "prune": "prune",
    "image": "image",
    "compile": "compile_",
    "verify": "verify",
    "submit": "submit",
    "status": "status",
    "runs": "runs",
    "cancel": "cancel",
    "retry": "retry",
    "logs": "logs",
    "schedule": "schedule",
    "unschedule": "unschedule",
    "backfill": "backfill",
    "tfdata-service": "tfdata_service",
    "tune-input": "tune_input",
    "doctor": "doctor",
}
"""Each verb, in the order of `--help`, with the name of its function in the file of its name."""


CONFIG_VALUES = ("--set", "--param", "--parameter")
"""Options whose values belong to the config, which is looked at as a whole when it is loaded."""
SETTING = re.compile(r"\s*[\w.\s-]+=")
"""How such a value begins; any other is refused in words that repeat it."""


class _Verbs(click.Group):
    """Imports a verb's file when the verb is asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """No argument of any verb may hold a credential: it would stand in messages, and it does in `ps`."""
        for before, argument in zip(["", *args], args, strict=False):
            option, _, value = argument.partition("=")
            setting = argument if before in CONFIG_VALUES else value if option in CONFIG_VALUES else ""
            if not SETTING.match(setting):
                _refuse_credential(argument)
        with _without_credentials():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """The arguments of a verb are read here."""
        with _without_credentials():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"headrace.pipeline.verbs.{cmd_name.replace('-', '_')}")
        verb: click.Command = getattr(module, VERBS[cmd_name])
        return verb


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="headrace", prog_name="headrace")
def cli() -> None:
    """One YAML file takes raw data to a trained, judged and pushed model."""


def _refuse_credential(argument: str) -> None:
    if not re.search(r"[:/\\][/\\]|:.*@", argument):
        return
    from headrace.configs.credential_rules import credentials_in
    from headrace.configs.passwords import URL_START

    for start in URL_START.finditer(argument):
        for _, what in credentials_in(argument[start.start() :]):
            raise click.UsageError(what)


@contextlib.contextmanager
def _without_credentials() -> Iterator[None]:
    """Click's own errors repeat the arguments."""
    try:
        yield
    except click.ClickException as error:
        from headrace.configs.credentials import without

        error.message = without(error.message)  # type: ignore[misc]  # final, and all that it is shown from
        raise


def main() -> None:
    """Entry point of `headrace`."""
    use_utf8()
    cli(prog_name="headrace")
