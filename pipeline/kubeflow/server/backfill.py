"""One run for each span of a range that has none."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import ConfigError, Problem, ServerError
from headrace.configs.sources import FileSource
from headrace.configs.span_fields import DATE, placeholders
from headrace.pipeline.kubeflow.argument import unpack
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.cache import executor_inputs
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.faults import NOT_FOUND
from headrace.pipeline.kubeflow.server.versions import Version

MOST = 1000
"""Spans of one backfill."""


@dataclass(frozen=True)
class Filled:
    """A span, its run, and whether that was made now."""

    span: str
    run: Any
    made: bool


def spans(config: PipelineConfig, first: str, last: str) -> list[str]:
    """The spans from first to last, both among them. Raises ConfigError if they are none of this data."""
    if "spans" not in config.kubeflow.parameters:
        raise ConfigError(Problem("kubeflow.parameters", "a backfill gives each run its span: put `spans` in"))
    dated = _dated(config)
    try:
        found = list(_dates(first, last) if dated else _numbers(first, last))
    except ValueError:
        what = "dates, such as 2026-11-20" if dated else "numbers"
        raise ConfigError(
            Problem("--from, --to", f"the spans of this data are {what}: got {first} and {last}")
        ) from None
    if not found:
        raise ConfigError(Problem("--from", f"{first} is after --to, {last}"))
    if len(found) > MOST:
        raise ConfigError(Problem("--from, --to", f"{len(found)} spans; at most {MOST} at once"))
    return found


def missing(server: Connection, experiment_id: str, pipeline_id: str, wanted: list[str]) -> dict[str, Any | None]:
    """By span: the pipeline's run that was started for it, or that trained with it as the newest; else None."""
    by_span: dict[str, Any] = {}
    others = []
    for run in reversed(list(runs.of_pipeline(server, experiment_id, pipeline_id))):
        given = ((run.runtime_config and run.runtime_config.parameters) or {}).get("spans")
        if given:
            by_span.setdefault(str(given), run)
        elif run.state == "SUCCEEDED":
            others.append(run)
    for run in reversed(others):
        if by_span.keys() >= set(wanted):
            break
        by_span.setdefault(_newest(server, run), run)
    return {span: by_span.get(span) for span in wanted}


def _newest(server: Connection, run: Any) -> str:
    """The newest span that a run trained with; "" if it trained with none, or the server does not tell.

    That is what its ExampleGen was given to read, and not its `run_date`: the data of that day may have come later.
    """
    try:
        told = dict(executor_inputs(server, run.run_id))
    except ServerError as error:
        if error.status != NOT_FOUND:
            raise
        return ""
    if "trainer" not in told:
        return ""
    try:
        found = json.loads(unpack(str(told["example-gen"]["inputs"]["parameterValues"]["spans"])))["spans"]
        return str(found[-1]["name"])
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


def backfill(
    server: Connection, experiment_id: str, version: Version, request: runs.Request, wanted: list[str]
) -> Iterator[Filled]:
    """Make the runs that are missing, one after the other, the oldest span first."""
    for span, run in missing(server, experiment_id, version.pipeline_id, wanted).items():
        if run is not None:
            yield Filled(span, run, made=False)
            continue
        one = replace(request, parameters={**request.parameters, "spans": span}, name=f"{request.pipeline}-span-{span}")
        done = runs.submit(server, experiment_id, version, one, again=False)
        yield Filled(span, done.run, made=done.made)


def _dated(config: PipelineConfig) -> bool:
    source = config.data.source
    if not isinstance(source, FileSource) or not placeholders(source.path):
        raise ConfigError(
            Problem("data.source.path", "there are no spans: no path has {SPAN}, or {YYYY}, {MM} and {DD}")
        )
    return placeholders(source.path) >= DATE


def _dates(first: str, last: str) -> Iterator[str]:
    day, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    while day <= end:
        yield day.isoformat()
        day += dt.timedelta(days=1)


def _numbers(first: str, last: str) -> Iterator[str]:
    return map(str, range(int(first), int(last) + 1))
