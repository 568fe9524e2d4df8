"""`headrace lineage`: what a model was made from, or which models a span or a file touched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.pipeline.verbs.models import NONE, blessing, marked_versions, print_table, short_commit
from headrace.pipeline.verbs.options import GivenConfig, config_verb, short

if TYPE_CHECKING:
    from headrace.pipeline.models.lineage import Lineage
    from headrace.pipeline.models.origin import Origin, SpanOrigin

Row = tuple[str, ...]
DIGITS = 12
"""Digits of a digest that are shown; `--json` prints all."""
MOST_FILES = 5
"""Files of a span that are shown."""
PACKAGES = ("python", "headrace", "tfx", "tensorflow")
"""Packages whose versions are shown."""


@config_verb()
@click.argument("name", required=False, metavar="[MODEL|SPAN|FILE]")
@click.option("--kubeflow", is_flag=True, help="Follow the models of runs on Kubeflow, from the object store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def lineage(config: GivenConfig, name: str | None, kubeflow: bool, as_json: bool) -> None:
    """Trace a model of CONFIG to its data, or data to its models.

    MODEL is a pushed version, the id of a run or the folder of a model; by default the model in service. For a SPAN, or
    the path of a source FILE, it lists the models that learned from it, directly or through a warm start.
    """
    from headrace.pipeline import api
    from headrace.pipeline.results.record import on_one_line

    found = api.lineage(config.path, name, kubeflow=kubeflow, **config.options)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=1, default=_plain))
        return
    rows = _back(found.origins[0], found.home) if found.kind == "model" else _forward(found)
    print_table([tuple(on_one_line(cell) or NONE for cell in row) for row in rows])


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _forward(found: Lineage) -> Iterator[Row]:
    """A table of the models that a span or a file touched."""
    yield "VERSION", "RUN", "FINGERPRINT", "BLESSED", "COMMIT"
    runs = {origin.model.path: origin.model.run for origin in found.origins}
    for origin in found.origins:
        model, base = origin.model, origin.started_from
        seen = [span for span in origin.spans if found.is_in(span)]
        through = f"through {runs.get(base) or _place(base, found.home)}" if base and not found.read_for(origin) else ""
        fingerprint = seen[0].fingerprint[:DIGITS] if seen else through
        yield marked_versions(model), model.run or "", fingerprint, blessing(model), short_commit(model)


def _place(path: Path, home: str | None) -> str:
    return f"{home}/{path}" if home else str(short(path))


def _back(origin: Origin, home: str | None) -> Iterator[Row]:
    """Two columns: what the model is, and what it was made from."""
    model = origin.model
    yield "version", marked_versions(model)
    yield "model", _place(model.path, home)
    at = f", {model.trained:%Y-%m-%d %H:%M} UTC" if model.trained else ""
    foreign = [model.path.name] == [str(version) for version in model.versions]  # its path is that of the version
    unknown = "no run here pushed this version" if foreign else "its record was pruned"
    yield "run", f"{model.run}{at}" if model.run else unknown
    yield "commit", f"{model.commit}{'+dirty' * model.dirty}" if model.commit else ""
    if origin.record is None:
        return
    yield "card", _place(origin.card, home) if origin.card else ""
    yield "config", f"{_place(origin.config, home)}, {_digest(origin.config_digest)}" if origin.config else ""
    if origin.parameters:
        yield "parameters", ", ".join(f"{name} {value}" for name, value in origin.parameters.items())
    modules = f" of {len(origin.modules):,} modules" if origin.modules else ""
    yield "code", f"{_digest(origin.code_digest)}{modules}"
    yield "packages", ", ".join(f"{each} {origin.packages[each]}" for each in PACKAGES if each in origin.packages)
    if origin.started_from:
        yield "started from", _place(origin.started_from, home)
    yield "examples", ", ".join(f"{split} {number:,}" for split, number in origin.rows.items())
    yield "fingerprint", _digest(origin.fingerprint)
    for span in origin.spans:
        yield from _span(span)
    for name, artifact in origin.artifacts.items():
        if name not in {"examples", "model"}:
            yield name, f"{_place(artifact.path, home)}{', which is gone' * (not artifact.exists)}"
    yield "blessed", blessing(model)
    yield "metrics", _metrics(model.metrics)


def _span(span: SpanOrigin) -> Iterator[Row]:
    from headrace.pipeline.report.formatting import size

    if span.name:
        yield f"span {span.name}", _digest(span.fingerprint)
    for file in span.files[:MOST_FILES]:
        yield "  file", f"{file.path}, {size(file.size)}" if file.size > 0 else file.path
    if len(span.files) > MOST_FILES:
        yield "  files", f"and {len(span.files) - MOST_FILES:,} more, which --json lists"


def _metrics(metrics: Mapping[str, float | None]) -> str:
    from headrace.pipeline.report.formatting import score

    return ", ".join(f"{name} {score(value)}" for name, value in metrics.items())


def _digest(digest: str | None) -> str:
    return (digest or "")[:DIGITS]
