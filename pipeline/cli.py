"""The command line. Heavy imports stand inside the verbs, so that `--help` answers at once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from pipeline.environment import prepare, quiet

if TYPE_CHECKING:
    from rich.console import Console

    from configs.loader import Loaded
    from pipeline.local.record import RunRecord

P = ParamSpec("P")

INTERRUPTED = 130  # what a shell gives for a program that Ctrl-C ended


def main() -> None:
    """Entry point of `headrace`."""
    cli(prog_name="headrace")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="headrace", prog_name="headrace")
def cli() -> None:
    """One YAML file takes raw data to a trained, judged and pushed model."""


def _told(verb: Callable[P, None]) -> Callable[P, None]:
    """Print what the user can mend as it is, without a traceback, and exit with 1."""

    @functools.wraps(verb)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        from configs.errors import HeadraceError

        try:
            verb(*args, **kwargs)
        except HeadraceError as error:
            click.echo(str(error), err=True)
            sys.exit(1)
        except OSError as error:
            click.echo(f"{error.filename or 'the disk'}: {error.strerror or error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)

    return wrapped


def _config_options(verb: Callable[P, None]) -> Callable[P, None]:
    verb = click.option(
        "--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override one value; may be given several times."
    )(verb)
    verb = click.option("--profile", metavar="NAME", help="Lay CONFIG's NAME overlay (<config>.NAME.yaml) over it.")(
        verb
    )
    return click.argument("config", type=click.Path(path_type=Path))(verb)


def _load(config: Path, profile: str | None, overrides: tuple[str, ...], *, data: bool) -> Loaded:
    """The config, and with `data` the data checked against it. Raises ConfigError with every mistake."""
    from configs.errors import ConfigError
    from configs.loader import load_with_places

    loaded = load_with_places(str(config), profile, overrides)
    if data:
        from pipeline.validate import check_data

        problems = check_data(loaded)
        if problems:
            raise ConfigError(*problems)
    return loaded


@cli.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--profile", metavar="NAME", help="Lay CONFIG's NAME overlay (<config>.NAME.yaml) over it.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override one value.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the config, for editors, and nothing else.")
@_told
def validate(config: Path | None, profile: str | None, overrides: tuple[str, ...], schema: bool) -> None:
    """Check CONFIG, and then the data against it; tell every mistake with its file and line."""
    if schema:
        import json

        from configs.json_schema import json_schema

        click.echo(json.dumps(json_schema(), indent=2))
        return
    if config is None:
        raise click.UsageError("name a config, such as configs/taxi.yaml, or ask for --schema")
    loaded = _load(config, profile, overrides, data=True)
    count = len(loaded.config.features)
    click.echo(f"{config}: the config is sound and fits the data ({count} features, label {loaded.config.label.key})")


@cli.command()
@_config_options
@click.option("--fresh", is_flag=True, help="Run every component anew, whatever was computed before.")
@_told
def run(config: Path, profile: str | None, overrides: tuple[str, ...], fresh: bool) -> None:
    """Run the pipeline of CONFIG on this machine; only what changed since the last run runs again."""
    prepare()
    from rich.console import Console

    from pipeline.local.record import Status
    from pipeline.local.runner import run as run_pipeline
    from pipeline.local.signals import undisturbed
    from pipeline.terminal import open_display

    loaded = _load(config, profile, overrides, data=True)
    console = Console(highlight=False)
    with open_display(console) as display:
        record, run_dir = run_pipeline(loaded.config, str(config), display, reuse=not fresh)
    with undisturbed():
        _last_words(console, record, run_dir)
    if record.status is not Status.DONE:
        sys.exit(INTERRUPTED if record.status is Status.INTERRUPTED else 1)


def _last_words(console: Console, record: RunRecord, run_dir: Path) -> None:
    """Write the report and print the summary."""
    from dataclasses import replace

    from pipeline.report import write_report
    from pipeline.report.run_folder import RunFolder
    from pipeline.report.verdict import read_verdict
    from pipeline.terminal import print_summary

    report_file = _short(write_report(run_dir))
    verdict = read_verdict(RunFolder(run_dir, record))
    if verdict.pushed is not None:
        verdict = replace(verdict, pushed=str(_short(Path(verdict.pushed))))
    print_summary(console, record, verdict, report_file)


@cli.command()
@_config_options
@click.option("--run", "run_id", metavar="RUN", help="Which run, by its id; the latest if left out.")
@_told
def report(config: Path, profile: str | None, overrides: tuple[str, ...], run_id: str | None) -> None:
    """Write the report of a run of CONFIG: one HTML page that opens from disk. Prints its path."""
    from configs.errors import RunError
    from pipeline.folders import Folders
    from pipeline.report import write_report

    folders = Folders.of(_load(config, profile, overrides, data=False).config)
    runs = sorted(path.parent.name for path in folders.runs.glob("*/run.json"))
    if not runs:
        raise RunError(f"no run yet in {folders.runs}; start one with `headrace run {config}`")
    if run_id is not None and run_id not in runs:
        raise RunError(f"no run {run_id} in {folders.runs}; the latest are {', '.join(runs[-5:])}")
    run_dir = folders.runs / (run_id or runs[-1])
    try:
        click.echo(_short(write_report(run_dir)))
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{run_dir / 'run.json'} is damaged, or of another version ({error}); remove {run_dir}"
        ) from error


@cli.command("compile")
@_config_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it there, not to standard output.")
@_told
def compile_(config: Path, profile: str | None, overrides: tuple[str, ...], output: Path | None) -> None:
    """Write the pipeline of CONFIG as YAML for Kubeflow Pipelines."""
    prepare()
    loaded = _load(config, profile, overrides, data=False)
    with quiet():
        from pipeline.kubeflow.compile import compile_pipeline

        text = compile_pipeline(loaded.config)
    if output is None:
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    click.echo(_short(output.absolute()))


@cli.command()
@_config_options
@click.option("--keep", type=click.Path(path_type=Path), help="An empty folder for both runs, kept afterwards.")
@_told
def verify(config: Path, profile: str | None, overrides: tuple[str, ...], keep: Path | None) -> None:
    """Run the compiled pipeline of CONFIG here, as Kubeflow would, and compare it with a local run."""
    prepare()
    import tempfile

    from configs.errors import RunError
    from pipeline.terminal import open_display

    loaded = _load(config, profile, overrides, data=True)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise RunError(f"{keep} is not empty; name a folder that is empty, or not there yet")
    with quiet():
        from pipeline.kubeflow.verify import verify as compare_runs
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder, open_display() as display:
        verdict = compare_runs(loaded.config, keep.absolute() if keep else Path(folder), display, click.echo)
    for line in verdict.lines:
        click.echo(str(line))
    if not verdict.same:
        sys.exit(1)


@cli.command()
@click.option(
    "--root", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="`pipeline.root`."
)
def doctor(root: Path) -> None:
    """Say what is wrong with this environment, and how to mend it."""
    from pipeline.doctor import main as examine

    sys.exit(examine(root))


def _short(path: Path) -> Path:
    """The path from the current folder where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
