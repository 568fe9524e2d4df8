"""From a config to a run on the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import ConfigError, Problem
from headrace.configs.schedule import ScheduleConfig
from headrace.pipeline.environment import quiet
from headrace.pipeline.kubeflow.compile import compile_pipeline
from headrace.pipeline.kubeflow.server import runs, schedules
from headrace.pipeline.kubeflow.server.backfill import Filled
from headrace.pipeline.kubeflow.server.backfill import backfill as fill
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.values import Values, values
from headrace.pipeline.kubeflow.server.versions import Version, content, ensure_version, put_newest

LONGEST = 250
"""Characters of a run's name: the server keeps 255 (it makes the workflow before it sees that there are more), of which
the rest is for the number of `--again`."""


def submit(
    session: Session,
    *,
    parameters: Sequence[str] = (),
    name: str | None = None,
    again: bool = False,
    cache: bool = True,
) -> tuple[Version, runs.Submitted]:
    """The version and the run, each made if it is not there. Raises ConfigError before anything is sent."""
    given = values(session.config, parameters)
    if name is not None and not 0 < len(name) <= LONGEST:
        what = f"a name of {len(name)} characters cannot be kept; give one of 1 to {LONGEST}"
        raise ConfigError(Problem("--name", what))
    version = upload(session, cache=cache)
    experiment_id = runs.ensure_experiment(session.server, session.experiment, session.namespace)
    request = _request(session, given, name)
    return version, runs.submit(session.server, experiment_id, version, request, again=again)


def backfill(session: Session, wanted: list[str]) -> Iterator[Filled]:
    """One run for each span that has none, as they are made. Raises ConfigError before anything is sent."""
    for end in (wanted[0], wanted[-1]):
        values(session.config, [f"spans={end}"])
    with quiet():
        version = upload(session)
    experiment_id = runs.ensure_experiment(session.server, session.experiment, session.namespace)
    request = _request(session, backfilled(session.config), None)
    return fill(session.server, experiment_id, version, request, wanted)


def backfilled(config: PipelineConfig) -> Values:
    """What all runs of a backfill are given: the window of scheduled runs, whose places they take; and a span that is
    asked for is a reason to train.
    """
    given = ["retrain=always"] if config.retrain != "always" else []
    if config.schedule is not None and config.schedule.window is not None:
        given.append(f"window={config.schedule.window}")
    return values(config, given)


def _request(session: Session, given: Values, name: str | None) -> runs.Request:
    account = session.config.kubeflow.server.service_account
    return runs.Request(session.pipeline, given.parameters, given.root, account, name)


def schedule(
    session: Session, wanted: ScheduleConfig, compiled: str | None = None
) -> tuple[Version, Any, schedules.Outcome]:
    """The version and the schedule, as the config has them. What is not pinned runs the newest version: this one.

    compiled: the pipeline as it was compiled before; None: it is compiled now.
    """
    version = upload(session, cache=wanted.cache, newest=not wanted.pinned, compiled=compiled)
    settings = session.config.kubeflow
    plan = schedules.Wanted(
        name=session.pipeline,
        experiment_id=runs.ensure_experiment(session.server, session.experiment, session.namespace),
        schedule=wanted,
        server_zone=settings.server.time_zone,
        version=version,
        pipeline_root=settings.pipeline_root,
        service_account=settings.server.service_account,
    )
    return version, *schedules.schedule(session.server, plan)


def upload(session: Session, *, cache: bool = True, newest: bool = False, compiled: str | None = None) -> Version:
    """The version of the config's content, or of what was compiled of it. newest: as the newest one on the server."""
    text = content(compile_pipeline(session.config), cache=cache) if compiled is None else compiled
    version = ensure_version(session.server, session.pipeline, text, session.namespace)
    return put_newest(session.server, version, text) if newest else version
