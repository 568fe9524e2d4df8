"""Backfill: one run for each span of a range that has none yet."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from headrace.common.environment import quiet
from headrace.common.errors import ConfigError, Problem, ServerError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.data import DATE_PLACEHOLDERS, placeholders
from headrace.configs.schema.sources import FileSource
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.errors import NOT_FOUND
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.submit import RunRequest, RunValues, create_run, run_request, run_values
from headrace.pipeline.kubeflow.server.tasks import executor_inputs
from headrace.pipeline.kubeflow.server.versions import PipelineVersion

MAX_SPANS = 1000


@dataclass(frozen=True)
class BackfilledSpan:
    """A span, its run, and whether the run was created now."""

    span: str
    run: Any
    made: bool


def backfill(session: Session, wanted: list[str]) -> Iterator[BackfilledSpan]:
    """Create a run for each span that has none, and yield it. Raises ConfigError before anything is sent."""
    for end in (wanted[0], wanted[-1]):
        run_values(session.config, [f"spans={end}"])
    with quiet():
        version = session.upload()
    experiment_id = session.ensure_experiment()
    request = run_request(session, backfill_values(session.config), None)
    return create_missing(session.server, experiment_id, version, request, wanted)


def backfill_values(config: PipelineConfig) -> RunValues:
    """The parameters of all runs of a backfill.

    They get the window of the scheduled runs that they replace, and they train whether or not there is a reason to,
    because the user asked for the span.
    """
    given = ["retrain=always"] if config.retrain != "always" else []
    if config.schedule is not None and config.schedule.window is not None:
        given.append(f"window={config.schedule.window}")
    return run_values(config, given)


def create_missing(
    server: Connection, experiment_id: str, version: PipelineVersion, request: RunRequest, wanted: list[str]
) -> Iterator[BackfilledSpan]:
    """Create the missing runs one after the other, the oldest span first."""
    for span, run in missing(server, experiment_id, version.pipeline_id, wanted).items():
        if run is not None:
            yield BackfilledSpan(span, run, made=False)
            continue
        one = replace(request, parameters={**request.parameters, "spans": span}, name=f"{request.pipeline}-span-{span}")
        done = create_run(server, experiment_id, version, one, again=False)
        yield BackfilledSpan(span, done.run, made=done.made)


def spans(config: PipelineConfig, first: str, last: str) -> list[str]:
    """The spans from first to last, inclusive. Raises ConfigError if they cannot be spans of this data."""
    if "spans" not in config.kubeflow.parameters:
        raise ConfigError(
            Problem("kubeflow.parameters", "a backfill gives each run its span: add `spans` to the parameters")
        )
    dated = _has_dates(config)
    try:
        found = list(_dates(first, last) if dated else _numbers(first, last))
    except ValueError:
        what = "dates, such as 2026-11-20" if dated else "numbers"
        raise ConfigError(
            Problem("--from, --to", f"the spans of this data are {what}: got {first} and {last}")
        ) from None
    if not found:
        raise ConfigError(Problem("--from", f"{first} is after --to, {last}"))
    if len(found) > MAX_SPANS:
        raise ConfigError(Problem("--from, --to", f"{len(found)} spans; at most {MAX_SPANS} at once"))
    return found


def missing(server: Connection, experiment_id: str, pipeline_id: str, wanted: list[str]) -> dict[str, Any | None]:
    """By span: the run that was started for it, or that trained with it as the newest span; None if there is none."""
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
        by_span.setdefault(_newest_span(server, run), run)
    return {span: by_span.get(span) for span in wanted}


def _newest_span(server: Connection, run: Any) -> str:
    """The newest span that a run trained with; "" if it did not train, or the server does not report it.

    It is taken from the input of ExampleGen and not from `run_date`, because the data of that day may have come later.
    """
    try:
        inputs = dict(executor_inputs(server, run.run_id))
    except ServerError as error:
        if error.status != NOT_FOUND:
            raise
        return ""
    if "trainer" not in inputs:
        return ""
    try:
        found = json.loads(unpack(str(inputs["example-gen"]["inputs"]["parameterValues"]["spans"])))["spans"]
        return str(found[-1]["name"])
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


def _has_dates(config: PipelineConfig) -> bool:
    if config.only_predicts:
        what = "there is nothing to train in a pipeline that only predicts; submit it with --param run_date=YYYY-MM-DD"
        raise ConfigError(Problem("predict.only", what))
    source = config.data.source
    if not isinstance(source, FileSource) or not placeholders(source.patterns):
        raise ConfigError(
            Problem("data.source.path", "there are no spans: no path has {SPAN}, or {YYYY}, {MM} and {DD}")
        )
    return placeholders(source.patterns) >= DATE_PLACEHOLDERS


def _dates(first: str, last: str) -> Iterator[str]:
    day, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    while day <= end:
        yield day.isoformat()
        day += dt.timedelta(days=1)


def _numbers(first: str, last: str) -> Iterator[str]:
    return map(str, range(int(first), int(last) + 1))
