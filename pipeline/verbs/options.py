"""What the verbs share: the config, its overrides and the server it names, and how a mistake of the user's is told."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.local.signals import terminable
from headrace.pipeline.unread import EXIT_CODE, ReaderGoneError, is_unread, silence

if TYPE_CHECKING:
    from headrace.configs.loader import Loaded
    from headrace.pipeline.kubeflow.server.session import Session

P = ParamSpec("P")

INTERRUPTED = 130  # what a shell gives for a program that Ctrl-C ended


def told(verb: Callable[P, None]) -> Callable[P, None]:
    """Print what the user can mend as it is, without a traceback, and exit with 1. SIGTERM ends it as Ctrl-C does.
    Where nobody reads the output any more, it ends without a word, as other commands do.
    """

    @functools.wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        from headrace.configs.credentials import without
        from headrace.configs.errors import HeadraceError

        try:
            with terminable():
                verb(*args, **kwargs)
        except HeadraceError as error:
            click.echo(str(error), err=True)
            sys.exit(1)
        except ReaderGoneError:
            sys.exit(EXIT_CODE)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and is_unread():
                silence()
                sys.exit(EXIT_CODE)
            click.echo(without(f"{_place(error)}: {error.strerror or error}"), err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)

    return wrapped


def _place(error: OSError) -> str:
    """What failed: a file; else the object store, whose faults pyarrow tells in words alone, without a number."""
    return str(error.filename or ("the disk" if error.errno is not None else "the object store"))


def config_options(verb: Callable[P, None]) -> Callable[P, None]:
    """Give the verb CONFIG, --profile and --set."""
    verb = click.option(
        "--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override one value; may be given several times."
    )(verb)
    verb = click.option("--profile", metavar="NAME", help="Lay CONFIG's NAME overlay (<config>.NAME.yaml) over it.")(
        verb
    )
    return click.argument("config", type=click.Path(path_type=Path))(verb)


def param_option(verb: Callable[P, None]) -> Callable[P, None]:
    """Give the verb `--param`, several times."""
    return click.option(
        "--param",
        "--parameter",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Give this run a setting anew.",
    )(verb)


def load(
    config: Path, profile: str | None, overrides: tuple[str, ...], *, data: bool, functions: bool = False
) -> Loaded:
    """As `headrace.pipeline.api.checked`, which is imported when a verb needs it."""
    from headrace.pipeline.api import checked

    return checked(config, profile, overrides, data=data, functions=functions)


def session_of(config: Path, profile: str | None, overrides: tuple[str, ...]) -> Session:
    """The config's pipeline on the server of Kubeflow that it names. Raises ConfigError and ServerError."""
    prepare()
    loaded = load(config, profile, overrides, data=False)
    with quiet():
        from headrace.pipeline.kubeflow.server.session import Session
    return Session.of(loaded.config)


def short(path: Path) -> Path:
    """The path from the current folder where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
