"""`headrace tune-input`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.pipeline.environment import prepare, quiet
from headrace.pipeline.verbs.options import config_options, load, told

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig
    from headrace.trainer.input.choices import Found


@click.command("tune-input")
@config_options
@click.option("--seconds", type=click.FloatRange(min=1), default=60, show_default=True, help="Time to measure, about.")
@click.option("--dry-run", is_flag=True, help="Only say what is fastest.")
@told
def tune_input(config: Path, profile: str | None, overrides: tuple[str, ...], seconds: float, dry_run: bool) -> None:
    """Find the fastest `train.input` for the data of CONFIG's latest run, and write it into CONFIG."""
    prepare()
    loaded = load(config, profile, overrides, data=False)
    graph, examples = transformed(loaded.config)
    with quiet():
        from headrace.trainer.input.tuned import measure
        from headrace.trainer.sections import TrainerSections

        found = measure(TrainerSections.of(loaded.config), graph, examples, seconds)
    _tell(found)
    if not found.changes:
        click.echo("nothing is clearly faster than the settings as they are")
    elif dry_run or profile or overrides:
        why = "" if dry_run else "; with --profile or --set it is for you to say where it goes"
        click.echo(f"faster: {_words(found.changes)}{why}")
    else:
        write(config, found.changes)
        click.echo(f"{config}: train.input is now {_words(found.changes)}")


def transformed(config: PipelineConfig) -> tuple[Path, Path]:
    """The folders of the transform graph and the transformed examples of the latest run that made them."""
    from headrace.configs.errors import RunError
    from headrace.pipeline.folders import Folders
    from headrace.pipeline.report.run_folder import RunFolder

    for record in sorted(Folders.of(config).runs.glob("*/run.json"), reverse=True):
        run = RunFolder.read(record.parent)
        graph = run.directory("Transform", "transform_graph")
        examples = run.directory("Transform", "transformed_examples")
        if graph and examples and any(examples.glob("Split-train/*")):
            return graph, examples
    raise RunError("no run has transformed examples yet, which are what is measured; `headrace run` makes them")


def write(path: Path, changes: dict[str, Any]) -> None:
    """Set them in the file's `train.input`. Raises ConfigError, and leaves the file as it was, if that cannot be."""
    from headrace.configs.edit import edit
    from headrace.configs.errors import ConfigError
    from headrace.configs.loader import load as read

    before = read(path)
    wanted = before.train.model_copy(update={"input": before.train.input.model_copy(update=changes)})

    def as_wanted(new: Path) -> bool:
        try:
            return read(new) == before.model_copy(update={"train": wanted})
        except ConfigError:
            return False

    edit(path, ("train", "input"), changes, as_wanted)


def _tell(found: Found) -> None:
    from rich.table import Table

    from headrace.pipeline.terminal import Output

    table = Table("setting", box=None, header_style="bold")
    for head in ("opened in s", "examples/s", "all epochs read in s"):
        table.add_column(head, justify="right")
    for trial in found.trials:
        mark = "  ← chosen" if trial is found.best else ""
        table.add_row(
            trial.setting, f"{trial.opened:.2f}", f"{trial.examples_per_second:,.0f}", f"{trial.reading:.2f}{mark}"
        )
    Output().print(table)


def _words(changes: dict[str, object]) -> str:
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in changes.items())
