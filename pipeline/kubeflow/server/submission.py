"""From a config to a run on the server."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.kubeflow.compile import compile_pipeline
from pipeline.kubeflow.server import runs
from pipeline.kubeflow.server.session import Session
from pipeline.kubeflow.server.values import parameters as parsed
from pipeline.kubeflow.server.versions import Version, ensure_version, without_cache


def submit(
    session: Session,
    *,
    parameters: Sequence[str] = (),
    name: str | None = None,
    again: bool = False,
    cache: bool = True,
) -> tuple[Version, runs.Submitted]:
    """The version and the run, each made if it is not there. Raises ConfigError before anything is sent."""
    values = parsed(session.config, parameters)
    version = upload(session, cache=cache)
    experiment_id = runs.ensure_experiment(session.server, session.experiment, session.namespace)
    settings = session.config.kubeflow
    request = runs.Request(
        pipeline=session.pipeline,
        parameters=values,
        pipeline_root=settings.pipeline_root,
        service_account=settings.server.service_account,
        name=name,
    )
    return version, runs.submit(session.server, experiment_id, version, request, again=again)


def upload(session: Session, *, cache: bool = True) -> Version:
    """The version of the config's content."""
    text = compile_pipeline(session.config)
    return ensure_version(session.server, session.pipeline, text if cache else without_cache(text), session.namespace)
