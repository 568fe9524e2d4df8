"""`headrace models` and `rollback`: list the models of a pipeline, and put an earlier one back into service."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.pipeline.verbs.options import config_options, reports_errors, short

if TYPE_CHECKING:
    from headrace.pipeline.models.listing import Model

NONE = "-"
COMMIT_DIGITS = 9


@click.command()
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def models(config: Path, profile: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """List the models of CONFIG on this machine, newest first.

    An asterisk marks the version in service. Versions that are no longer in `deploy.push` are not shown.
    """
    from headrace.pipeline import api

    found = api.models(config, profile=profile, overrides=overrides)
    if as_json:
        click.echo(json.dumps([_fields(model) for model in found], indent=1))
    elif found:
        rows = [("VERSION", "RUN", "BLESSED", "METRICS", "SPANS", "COMMIT"), *map(_row, found)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    else:
        click.echo(f"no models yet; `headrace run {config}` trains one")


@click.command()
@config_options
@click.option("--to", metavar="VERSION", help="A version with the model. The default is the one blessed before.")
@reports_errors
def rollback(config: Path, profile: str | None, overrides: tuple[str, ...], to: str | None) -> None:
    """Put an earlier blessed model of CONFIG back into service.

    It is pushed as a new version, as servers load the highest number. Models blessed after it are not pushed again; the
    next candidate is compared with it.
    """
    from headrace.pipeline import api

    done = api.roll_back(config, to, profile=profile, overrides=overrides)
    click.echo(f"in service  {short(done.version)}, the model {short(Path(done.entry.uri))}")
    for uri in done.withdrawn:
        click.echo(f"withdrawn   {short(Path(uri))}")


def _row(model: Model) -> tuple[str, ...]:
    from headrace.pipeline.report.formatting import score
    from headrace.pipeline.results.record import on_one_line

    versions = ", ".join(map(str, model.versions)) + "*" * model.in_service
    metrics = ", ".join(f"{name} {score(value)}" for name, value in model.metrics.items())
    spans = " to ".join(dict.fromkeys((model.spans[0], model.spans[-1]))) if model.spans else ""
    commit = (model.commit or "")[:COMMIT_DIGITS] + "+dirty" * model.dirty
    cells = versions, model.run or "", _blessing(model), metrics, spans, commit
    return tuple(on_one_line(cell) or NONE for cell in cells)


def _blessing(model: Model) -> str:
    if model.withdrawn_at:
        return "rolled back"
    if model.blessed is None:
        return "not evaluated" if model.run else ""
    return "yes" if model.blessed else "no"


def _fields(model: Model) -> dict[str, Any]:
    fields = asdict(model)
    times = {name: value.isoformat() for name, value in fields.items() if isinstance(value, datetime)}
    return {**fields, **times, "path": str(model.path), "metrics": dict(model.metrics)}
