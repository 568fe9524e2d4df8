"""Options that verbs share, the config and server that they name, and how errors and log messages are printed."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from headrace.common.environment import prepare, quiet, shown
from headrace.common.names import CommandOption
from headrace.pipeline.interrupts import (
    BROKEN_PIPE,
    CTRL_C,
    ReaderGoneError,
    discard_stdout,
    sigterm_as_interrupt,
    stdout_has_no_reader,
)

if TYPE_CHECKING:
    from headrace.configs.loading.loader import LoadedConfig
    from headrace.configs.rules.rule import Rule
    from headrace.pipeline.kubeflow.server.session import Session

P = ParamSpec("P")


def reports_errors(verb: Callable[P, None]) -> Callable[P, None]:
    """Print errors that the user can fix without a traceback, and exit with 1. Print log messages of Headrace too.

    SIGTERM ends the verb as Ctrl-C does. If nobody reads its output any more, it ends silently.
    """

    @functools.wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        from headrace.common.credentials import redact
        from headrace.common.errors import HeadraceError
        from headrace.common.tracebacks import OWN_CODE, own_traceback

        try:
            with sigterm_as_interrupt(), _printed_log():
                verb(*args, **kwargs)
        except HeadraceError as error:
            own = own_traceback(error)
            click.echo(f"{error}\n{OWN_CODE}\n{own}".rstrip() if own else str(error), err=True)
            sys.exit(1)
        except ReaderGoneError:
            sys.exit(BROKEN_PIPE)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and stdout_has_no_reader():
                discard_stdout()
                sys.exit(BROKEN_PIPE)
            click.echo(redact(f"{_location(error)}: {error.strerror or error}"), err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(CTRL_C)

    return wrapped


class _EchoHandler(logging.Handler):
    """Prints messages, without a level or logger, to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        with shown():
            click.echo(self.format(record), err=True)


@contextlib.contextmanager
def _printed_log() -> Iterator[None]:
    """Print what Headrace logs while the verb runs."""
    logger, handler = logging.getLogger("headrace"), _EchoHandler()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def _location(error: OSError) -> str:
    """What failed: the file, or the object store, as pyarrow reports its errors without a file or an errno."""
    return str(error.filename or ("the disk" if error.errno is not None else "the object store"))


@dataclass(frozen=True)
class GivenConfig:
    """The argument CONFIG of a verb, with the options --profile and --set. As text, the path as it was given."""

    path: Path
    profile: str | None
    overrides: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """The options, as the functions of `headrace.pipeline.api` take them."""
        return {"profile": self.profile, "overrides": self.overrides}

    def load(
        self, *, data: bool = False, functions: bool = False, components: bool = False, rules: Sequence[Rule] = ()
    ) -> LoadedConfig:
        """Call `headrace.pipeline.api.load_checked`, imported only when a verb needs it.

        functions: the config is about to be compiled, so what its patterns stand for is pinned too.
        """
        from headrace.pipeline.api import load_checked

        loaded = load_checked(
            self.path, self.profile, self.overrides, data=data, functions=functions, components=components, rules=rules
        )
        if functions:
            loaded.pin_selection()
        return loaded

    def session(self) -> Session:
        """Connect to the Kubeflow server that the config names. Raises ConfigError and ServerError."""
        from headrace.pipeline.kubeflow.server import access

        prepare()
        loaded = self.load(rules=access.RULES)
        with quiet():
            from headrace.pipeline.kubeflow.server.session import Session
        return Session.of(loaded.config)

    def __str__(self) -> str:
        return str(self.path)


def config_verb(name: str | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """A command with the argument CONFIG and the options --profile and --set, which its function gets as a GivenConfig.

    It reports errors as `reports_errors` does. name: the default is that of the function.
    """

    def command(verb: Callable[..., None]) -> click.Command:
        @functools.wraps(verb)
        def called(config: Path, profile: str | None, overrides: tuple[str, ...], **chosen: Any) -> None:
            verb(GivenConfig(config, profile, overrides), **chosen)

        argument = click.argument("config", type=click.Path(path_type=Path))
        return click.command(name)(argument(overlay_options(reports_errors(called))))

    return command


def overlay_options(verb: Callable[P, None]) -> Callable[P, None]:
    """Add the options --profile and --set."""
    verb = click.option(
        "--set",
        "overrides",
        type=CommandOption,
        multiple=True,
        metavar="A.B=VALUE",
        help="Override one setting of CONFIG. Can be repeated.",
    )(verb)
    return click.option(
        "--profile", type=CommandOption, metavar="NAME", help="Apply the overlay <config>.NAME.yaml on top of CONFIG."
    )(verb)


def param_option(verb: Callable[P, None]) -> Callable[P, None]:
    return click.option(
        "--param",
        "--parameter",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a parameter for this run only, such as epochs=3. Can be repeated.",
    )(verb)


def endpoint_option(verb: Callable[P, None]) -> Callable[P, None]:
    """Add the option --endpoint to a verb that has --manifest."""
    return click.option(
        "--endpoint",
        default="http://ml-pipeline.kubeflow:8888",
        metavar="URL",
        help="With --manifest: the API server of Kubeflow Pipelines, as pods reach it. The default is the service"
        " `ml-pipeline` of the namespace `kubeflow`.",
    )(verb)


def note(text: str) -> None:
    """Print to standard error, so that standard output has nothing but results."""
    click.echo(text, err=True)


def short_place(place: str) -> str:
    """A path as `short` makes it, or a URI as it is."""
    return place if "://" in place else str(short(Path(place)))


def short(path: Path) -> Path:
    """The path relative to the current folder, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
