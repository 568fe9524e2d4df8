"""`headrace init`: write a config for data that nobody has described yet."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.common.figures import plural
from headrace.common.names import join_names
from headrace.common.storage.paths import local_output
from headrace.pipeline.verbs.options import reports_errors, short

if TYPE_CHECKING:
    from headrace.pipeline.init.document import Draft

LISTED_CLASSES = 8
"""Classes that a note lists."""
MOST_NOTES = 20
"""Columns with a note of their own."""


@click.command()
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--label",
    "labels",
    metavar="COLUMN",
    multiple=True,
    help="The column to predict. Repeat it for several, which one model predicts. Without it, candidates are listed.",
)
@click.option("--table", metavar="NAME", help="The table, if DATA is the URL of a database.")
@click.option("--query", metavar="SQL", help="A SELECT instead of --table.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The config to write. The default is named after the data.",
)
@click.option(
    "--on-bad-record",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    help="What to do with a record that cannot be read, here and as `data.on_bad_record` in FILE. skip lists such"
    " records and leaves them out.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--run", "runs", is_flag=True, help="Run the pipeline at once.")
@reports_errors
def init(
    data: tuple[str, ...],
    labels: tuple[str, ...],
    table: str | None,
    query: str | None,
    output: Path | None,
    on_bad_record: str,
    force: bool,
    runs: bool,
) -> None:
    """Look at DATA, and write a config for it.

    DATA is a file, a quoted pattern, a folder, the URL of an object store or a database, a generator function such as
    `my_module.rows`, or the files of several splits, such as `train.csv test.csv`. Types are inferred from the values,
    and every decision has a comment.
    """
    from headrace.pipeline.init.dated import dated_path
    from headrace.pipeline.init.source import given_source, pipeline_name
    from headrace.pipeline.init.write import target_file, write

    source = given_source(data[0], table, data[1:], query)
    name = pipeline_name(source)
    file = target_file(local_output(output) if output else Path(f"{name}.yaml"), force=force)
    tables = [
        word for option, value in {"--table": table, "--query": query}.items() if value for word in (option, value)
    ]

    skip_bad = on_bad_record == "skip"
    written = [*(["--on-bad-record", "skip"] if skip_bad else []), *(["-o", str(output)] if output else [])]

    def command(chosen: Sequence[str]) -> str:
        labelled = [word for one in chosen for word in ("--label", one)]
        return shlex.join(["headrace", "init", *data, *tables, *labelled, *written])

    draft = write(file, name, source, labels, command, skip_bad=skip_bad)
    _show(draft, file, runs=runs)
    if dated := dated_path(source):
        click.echo(f"note: the paths of the files have dates; {shlex.quote(dated)} would read each day once", err=True)
    if runs:
        from headrace.pipeline.verbs.local import run

        click.get_current_context().invoke(run, config=file, profile=None, overrides=(), parameters=(), fresh=False)


def _show(draft: Draft, file: Path, *, runs: bool) -> None:
    from headrace.components.examples.skips import listed

    labels, used = draft.table.labels, draft.used
    for name, label in labels.items():
        click.echo(f"{short(file.absolute())}: {name} is {label.settings['kind']}; {label.comment}")
    taken = f"{plural(used, 'column')} as {plural(draft.features, 'feature')}"
    click.echo(f"  {taken}, {len(draft.left_out)} left out")
    if not runs:
        click.echo(f"  next: headrace run {shlex.quote(str(file))}")
    if skipped := draft.sample.skipped.count:
        what = f"{skipped:,} of {skipped + draft.sample.rows:,} records cannot be read, and are skipped:"
        click.echo("\n  ".join([f"note: {what}", *listed(draft.sample.skipped)]), err=True)
    for split, path in draft.unlabelled.items():
        lacking = f"has no {draft.labels[0]}" if len(draft.labels) == 1 else f"lacks some of {join_names(draft.labels)}"
        what = f"note: {path} {lacking}, so it cannot be the {split} split"
        predicted = f"headrace predict {shlex.quote(str(file))} --input {path} --output predictions.csv"
        click.echo(f"{what}; for predictions: {predicted}", err=True)
    for path in draft.unnamed:
        taken = join_names(list(draft.source["path"])) if isinstance(draft.source["path"], dict) else "train"
        click.echo(f"note: {path} is not named after a split, and is left out; those that are read: {taken}", err=True)
    noted = [*_column_doubts(draft)]
    shown = noted if len(noted) <= MOST_NOTES + 1 else noted[:MOST_NOTES]
    for what in (*shown, *_label_doubts(draft)):
        click.echo(f"note: {what}", err=True)
    if len(noted) > len(shown):
        more = f"{len(noted) - len(shown):,} more columns have such notes"
        click.echo(f"note: {more}, in the comments of {short(file.absolute())}", err=True)
    left_out = "are left out" if len(labels) == 1 else "count for the other labels only"
    for name, missing in draft.table.missing.items():
        if missing:
            what = "count as rows of no class" if labels[name].several else left_out
            click.echo(f"note: {missing:,} rows have no {name}, and {what}", err=True)


def _column_doubts(draft: Draft) -> Iterator[str]:
    """What may be wrong with the columns."""
    for choice in draft.table.choices:
        if choice.suspicion:
            yield f"{choice.column} {choice.suspicion}"
        if choice.mendable:
            yield f"{choice.column} is left out: {choice.comment}"


def _label_doubts(draft: Draft) -> Iterator[str]:
    """What may be wrong with the classes."""
    from headrace.components.inference.facts import facts_of
    from headrace.components.inference.strays import stray_note

    for name, label in draft.table.labels.items():
        column = draft.sample.column(name)
        facts = facts_of(name, draft.sample.kinds[name], column)
        if strays := stray_note(facts, column, has_null_values=draft.source["kind"] in ("csv", "excel")):
            yield f"label {name}: {strays}"
        if label.alike:
            classes = join_names(map(repr, label.alike), LISTED_CLASSES)
            yield f"{classes} are different classes of {name}, although some differ in upper case and white space alone"
