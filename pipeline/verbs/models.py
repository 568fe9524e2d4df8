"""`headrace models`, `promote` and `rollback`: list the models of a pipeline, push one that awaits approval, and put an
earlier one back into service.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from headrace.pipeline.verbs.options import GivenConfig, config_verb, note, short_place

if TYPE_CHECKING:
    from headrace.pipeline.models.destination import ModelChange
    from headrace.pipeline.models.listing import Model

NONE = "-"
GAP = "  "
NARROWEST = 16
"""Characters of a column that is shortened: what a run's id takes, and a mark."""
COMMIT_DIGITS = 9


@config_verb()
@click.option("--kubeflow", is_flag=True, help="List the models of runs on Kubeflow, from the object store.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="N",
    help="With --kubeflow: list at most this many.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models(config: GivenConfig, kubeflow: bool, limit: int, as_json: bool) -> None:
    """List the models of CONFIG on this machine, newest first.

    An asterisk marks the version in service. Versions that are no longer in `deploy.push` are not shown.
    """
    from headrace.pipeline import api

    found = api.models(config.path, kubeflow=kubeflow, limit=limit, **config.options)
    if as_json:
        click.echo(json.dumps([_fields(model) for model in found], indent=1))
    elif found:
        rows = [("VERSION", "RUN", "BLESSED", "METRICS", "SPANS", "COMMIT"), *map(_row, found)]
        for title, cells in _optional(found).items():
            if any(cells):
                rows = [(*row, cell or NONE) for row, cell in zip(rows, [title, *cells], strict=True)]
        _print_models(rows)
    else:
        elsewhere = "" if kubeflow else "; --kubeflow lists those of runs on Kubeflow"
        click.echo(f"no models yet; `headrace {'submit' if kubeflow else 'run'} {config}` trains one{elsewhere}")


@config_verb()
@click.option("--to", metavar="RUN|VERSION", help="A run or a version with the model.")
@click.option("--allow-older", is_flag=True, help="Push it even if the model in service is newer; withdraw that one.")
@click.option("--kubeflow", is_flag=True, help="Push a model of runs on Kubeflow, in the object store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def promote(config: GivenConfig, to: str | None, allow_older: bool, kubeflow: bool, as_json: bool) -> None:
    """Push a blessed model of CONFIG that awaits approval.

    With `deploy.approval: manual`, a run pushes no model by itself. The default is the newest model that awaits
    approval.
    """
    from headrace.pipeline import api

    if kubeflow:
        from headrace.pipeline.kubeflow import model_changes

        push = partial(model_changes.promote, wanted=to, now=datetime.now(UTC), allow_older=allow_older)
        done = api.change_on_kubeflow(config.load().config, push, note)
    else:
        done = api.promote_model(config.path, to, allow_older=allow_older, **config.options)
    _show_change(done, as_json=as_json)


@config_verb()
@click.option("--to", metavar="RUN|VERSION", help="A run or a version with the model; by default the one before.")
@click.option("--kubeflow", is_flag=True, help="Put back a model of runs on Kubeflow, in the object store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rollback(config: GivenConfig, to: str | None, kubeflow: bool, as_json: bool) -> None:
    """Put an earlier blessed model of CONFIG back into service.

    It is pushed as a new version, as servers load the highest number. Models blessed after it are not pushed again; the
    next candidate is compared with it.
    """
    from headrace.pipeline import api

    if kubeflow:
        from headrace.pipeline.kubeflow import model_changes

        put_back = partial(model_changes.roll_back, to=to, now=datetime.now(UTC))
        done = api.change_on_kubeflow(config.load().config, put_back, note)
    else:
        done = api.rollback_model(config.path, to, **config.options)
        found = api.models(config.path, **config.options) if as_json else []
        done = replace(done, run=next((model.run for model in found if str(model.path) == done.model), None))
    _show_change(done, as_json=as_json)


def _show_change(done: ModelChange, *, as_json: bool) -> None:
    from headrace.components.stored_models.stored_versions import shown

    folder = shown(done.version)
    if as_json:
        fields = {"version": int(PurePosixPath(folder).name), "folder": folder, "path": done.model}
        more = {} if done.kserve is None else {"kserve": done.kserve}
        click.echo(json.dumps({**fields, "run": done.run, "withdrawn": done.withdrawn, **more}, indent=1))
        return
    click.echo(f"in service  {short_place(folder)}, the model {short_place(done.model)}")
    if done.kserve is not None:
        click.echo(f"kserve      {done.kserve}")
    for model in done.withdrawn:
        click.echo(f"withdrawn   {short_place(model)}")


def _print_models(rows: Sequence[Sequence[str]]) -> None:
    """Print a line for each row: on a terminal in columns that fit it, elsewhere whole cells with tabs between them."""
    if sys.stdout.isatty():
        print_table(fitted(rows, shutil.get_terminal_size().columns))
        return
    for row in rows:
        click.echo("\t".join(row))


def fitted(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Shorten the widest columns until a table is `width` characters wide, but none below NARROWEST."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + len(GAP) * (len(widths) - 1) > width and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return [
        [cell if len(cell) <= most else f"{cell[: most - 1]}…" for cell, most in zip(row, widths, strict=True)]
        for row in rows
    ]


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with as many cells each, in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo(GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _optional(found: Sequence[Model]) -> dict[str, list[str]]:
    """The columns that are shown if a model has something in them, by their titles."""
    from headrace.pipeline.results.record import on_one_line

    return {
        "LITE": [model.lite.words if model.lite and model.lite.size else "" for model in found],
        "KSERVE": [on_one_line(getattr(model, "kserve", "")) for model in found],
        "TUNED": [", ".join(f"{name}: {value}" for name, value in model.tuned.items()) for model in found],
    }


def _row(model: Model) -> tuple[str, ...]:
    from headrace.pipeline.report.formatting import score
    from headrace.pipeline.results.record import on_one_line

    metrics = ", ".join(f"{name} {score(value)}" for name, value in model.metrics.items())
    spans = " to ".join(dict.fromkeys((model.spans[0], model.spans[-1]))) if model.spans else ""
    cells = marked_versions(model), model.run or "", blessing(model), metrics, spans, short_commit(model)
    return tuple(on_one_line(cell) or NONE for cell in cells)


def marked_versions(model: Model) -> str:
    """Its versions, with an asterisk if one of them is in service; empty if it has none."""
    return ", ".join(map(str, model.versions)) + "*" * model.in_service


def short_commit(model: Model) -> str:
    """The first digits of its commit, marked if a tracked file differed from it; empty outside of a repository."""
    return (model.commit or "")[:COMMIT_DIGITS] + "+dirty" * model.dirty


def blessing(model: Model) -> str:
    """The latest verdict on it in words; empty if it is not known."""
    if model.withdrawn_at:
        return "rolled back"
    if model.awaiting_approval:
        return "awaiting approval"
    if model.blessed is None:
        return "not evaluated" if model.run else ""
    if model.blessed:
        return "yes"
    if model.canary:
        return "no: its canary failed"
    return "no: its LiteRT file differs" if model.lite and model.lite.reasons else "no"


def _fields(model: Model) -> dict[str, Any]:
    fields = {**asdict(model), "lite": model.lite.model_dump(mode="json") if model.lite else None}
    times = {name: value.isoformat() for name, value in fields.items() if isinstance(value, datetime)}
    return {**fields, **times, "path": str(model.path), "metrics": dict(model.metrics)}
