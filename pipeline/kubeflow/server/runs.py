"""Runs: made once for each key, found, ended, gone on with.

The key of a run is its name within its experiment. It is made of the content, so that the same command finds the run
that it made before, and a command that lost the server's answer makes no second one.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import kfp_server_api as api

from headrace.configs.errors import RunError, ServerError
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.faults import NOT_FOUND, unclear
from headrace.pipeline.kubeflow.server.listing import every, named, pages
from headrace.pipeline.kubeflow.server.native import ENDED, add_tasks
from headrace.pipeline.kubeflow.server.versions import Version

CANCELING = "CANCELING"
LOST_AFTER = dt.timedelta(minutes=10)
"""A cancellation takes half a minute at most, as long as Kubernetes lets a pod end by itself."""
INTERNAL = 500
DIGITS = 10
WAIT, LOOKS = 0.5, 8
"""Seconds between looks whether the run of another command, made in the same moment, gives way; and how many."""


@dataclass(frozen=True)
class Request:
    """A run to be made. `name`: None for one made of the content."""

    pipeline: str
    parameters: Mapping[str, str | int]
    pipeline_root: str
    service_account: str | None = None
    name: str | None = None

    def key(self, version: Version) -> str:
        """The same for the same content, parameters and root."""
        parts = [version.name, sorted(self.parameters.items()), self.pipeline_root, self.service_account]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGITS]


@dataclass(frozen=True)
class Submitted:
    """`made`: by this command; else it was there."""

    run: Any
    made: bool


def ensure_experiment(server: Connection, name: str, namespace: str | None) -> str:
    """The id of the experiment of that name, which is made if it is not there."""
    found = find_experiment(server, name, namespace)
    if found is not None:
        return found
    body = api.V2beta1Experiment(display_name=name, namespace=namespace)
    try:
        made = server.change("make the experiment", server.experiments.experiment_service_create_experiment, body)
    except ServerError as error:
        found = find_experiment(server, name, namespace) if unclear(error) or error.status in (400, 409) else None
        if found is None:
            raise
        return found
    return str(made.experiment_id)


def find_experiment(server: Connection, name: str, namespace: str | None) -> str | None:
    """The id of the experiment of that name; None if there is none."""
    chosen = {} if namespace is None else {"namespace": namespace}
    ask = server.experiments.experiment_service_list_experiments
    found = every(server, "find the experiment", ask, "experiments", **chosen, filter=named(name))
    return found[0].experiment_id if found else None


def submit(server: Connection, experiment_id: str, version: Version, request: Request, *, again: bool) -> Submitted:
    """Make the run, or find the one with its name. again: make another one, numbered.

    Raises RunError if a run of the name given has other content.
    """
    key = request.key(version)
    base = request.name or f"{request.pipeline}-{key}"
    name = _free(server, experiment_id, base) if again else base
    there = _find(server, experiment_id, name)
    if there is not None:
        _same(there, name, key)
        return Submitted(there, made=False)
    return _make(server, _body(experiment_id, version, request, name), key)


def _body(experiment_id: str, version: Version, request: Request, name: str) -> Any:
    """The run as the API takes it."""
    return api.V2beta1Run(
        experiment_id=experiment_id,
        display_name=name,
        description=_mark(request.key(version)),
        pipeline_version_reference=api.V2beta1PipelineVersionReference(
            pipeline_id=version.pipeline_id, pipeline_version_id=version.version_id
        ),
        runtime_config=api.V2beta1RuntimeConfig(
            pipeline_root=request.pipeline_root, parameters=dict(request.parameters)
        ),
        service_account=request.service_account,
    )


def _make(server: Connection, body: Any, key: str) -> Submitted:
    try:
        made = server.change("submit the run", server.runs.run_service_create_run, body)
    except ServerError as error:
        if not unclear(error):
            raise
        return Submitted(_look_again(server, body.experiment_id, body.display_name, error), made=True)
    try:
        return _alone(server, body.experiment_id, made, key)
    except ServerError as error:
        told = f"the run {made.display_name} was made, {made.run_id}; whether another command made one too is not known"
        raise ServerError(f"{error}\n  {told}", error.status) from None


def _look_again(server: Connection, experiment_id: str, name: str, error: ServerError) -> Any:
    """The run that was made though the answer was lost."""
    hint = "the run may have been made all the same: the same command looks for it before it makes one"
    try:
        found = _find(server, experiment_id, name)
    except ServerError:
        raise ServerError(f"{error}\n  {hint}", error.status) from None
    if found is None:
        raise ServerError(f"{error}\n  no run {name} is there yet; {hint}", error.status)
    return found


def _alone(server: Connection, experiment_id: str, made: Any, key: str) -> Submitted:
    """The server keeps no two commands apart that submit in the same moment: of their runs one stays.

    Times do not tell which: the server's are whole seconds, and taken before others can see the run. But of any two
    the later one to be seen sees the other. The younger gives way at once; the older when the other one stays, as it
    does if its command had looked before.
    """
    name = made.display_name
    others = _others(server, experiment_id, made)
    if others and _age(made) < min(map(_age, others)):
        for _ in range(LOOKS):
            time.sleep(WAIT)
            others = _others(server, experiment_id, made)
            if not others:
                break
    if not others:
        return Submitted(made, made=True)
    server.change("end the second run", server.runs.run_service_terminate_run, made.run_id)
    server.change("delete the second run", server.runs.run_service_delete_run, made.run_id)
    left = _others(server, experiment_id, made)
    if not left:
        raise RunError(f"several commands made a run {name} at once, and each gave way; the same command makes it")
    _same(left[0], name, key)
    return Submitted(left[0], made=False)


def _others(server: Connection, experiment_id: str, made: Any) -> list[Any]:
    return [run for run in _named(server, experiment_id, made.display_name) if run.run_id != made.run_id]


def _named(server: Connection, experiment_id: str, name: str) -> list[Any]:
    """The runs of that name, the oldest first."""
    ask = server.runs.run_service_list_runs
    found = every(server, "look for the run", ask, "runs", experiment_id=experiment_id, filter=named(name))
    return sorted(found, key=_age)


def _age(run: Any) -> tuple[Any, str]:
    return run.created_at, run.run_id


def _find(server: Connection, experiment_id: str, name: str) -> Any | None:
    """The oldest run of that name."""
    return next(iter(_named(server, experiment_id, name)), None)


def _free(server: Connection, experiment_id: str, base: str) -> str:
    number = 1
    name = base
    while _find(server, experiment_id, name) is not None:
        number += 1
        name = f"{base}-{number}"
    return name


def _mark(key: str) -> str:
    return f"headrace submit, content {key}"


def _same(run: Any, name: str, key: str) -> None:
    if run.description != _mark(key):
        raise RunError(
            f"there is a run {name} already, of other content, parameters or origin: {run.run_id}\n"
            "  give this one another --name"
        )


def of_pipeline(server: Connection, experiment_id: str, pipeline_id: str) -> Iterator[Any]:
    """The runs of a pipeline in an experiment, which other pipelines may share, the newest first."""
    ask = server.runs.run_service_list_runs
    for run in pages(server, "list the runs", ask, "runs", experiment_id=experiment_id, sort_by="created_at desc"):
        chosen = run.pipeline_version_reference
        if chosen is not None and chosen.pipeline_id == pipeline_id:
            yield run


def find_run(server: Connection, experiment_id: str | None, pipeline_id: str | None, name: str | None) -> Any:
    """A run by its id or name; None: the newest of the pipeline. Raises RunError if there is none."""
    found = None
    if experiment_id is not None and pipeline_id is not None and name is None:
        found = next(of_pipeline(server, experiment_id, pipeline_id), None)
    elif experiment_id is not None and name is not None:
        found = _find(server, experiment_id, name)
    if found is None and name is not None:
        found = _by_id(server, name)
    if found is None:
        wanted = f"no run {name}" if name else "no run of this pipeline yet"
        raise RunError(f"{server.endpoint}: there is {wanted}; `headrace runs` lists what is there")
    return get_run(server, found.run_id)


def get_run(server: Connection, run_id: str) -> Any:
    """A run with its tasks. Raises RunError if it was deleted."""
    run = _by_id(server, run_id)
    if run is None:
        raise RunError(f"{server.endpoint}: the run {run_id} is not there any more: it was deleted")
    return run


def _by_id(server: Connection, run_id: str) -> Any | None:
    try:
        run = server.read("read the run", server.runs.run_service_get_run, run_id)
    except ServerError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    return add_tasks(server, run)


def is_cancelled(run: Any) -> bool:
    """Whether a run ended because it was cancelled. Argo calls such a workflow Failed, and so does the server; only the
    history of the run has CANCELING, since its last retry.
    """
    if run.state == "CANCELED":
        return True
    cancelled = canceling = False
    for entry in run.state_history or ():
        if entry.state in ENDED:
            cancelled, canceling = canceling, False
        canceling = canceling or entry.state == CANCELING
    return run.state == "FAILED" and cancelled


def is_lost(run: Any, now: dt.datetime) -> bool:
    """Whether a run has been CANCELING for so long that its workflow must be gone from the cluster: nothing is left
    that could report its end.
    """
    if run.state != CANCELING:
        return False
    since = [entry.update_time for entry in run.state_history or () if entry.state == CANCELING and entry.update_time]
    return bool(since) and now - max(since) > LOST_AFTER


def word(run: Any, now: dt.datetime) -> str:
    """How a run stands, in a word for the terminal."""
    if is_cancelled(run):
        return "cancelled"
    if is_lost(run, now):
        return "lost"
    return {CANCELING: "cancelling"}.get(run.state, str(run.state or "unknown").lower())


def cancel(server: Connection, run: Any) -> Literal["asked", "ended", "lost"]:
    """End a run: asked for, had ended, or lost, where its workflow is gone from the cluster and nothing of it runs.

    The server refuses to end a run twice, so one that is being ended is left to it.
    """
    if run.state in ENDED:
        return "ended"
    if run.state == CANCELING:
        return "lost" if is_lost(run, dt.datetime.now(dt.UTC)) else "asked"
    try:
        server.change("cancel the run", server.runs.run_service_terminate_run, run.run_id)
    except ServerError as error:
        if not _has_no_workflow(error):
            raise
        return "lost"
    return "asked"


def _has_no_workflow(error: ServerError) -> bool:
    """Whether the server did not find the run's workflow in the cluster, which it tells as an error of its own."""
    return error.status == INTERNAL and "workflow" in str(error) and "not found" in str(error)


def retry(server: Connection, run: Any) -> None:
    """Go on from the tasks that failed. Raises RunError if there is nothing to go on from."""
    if is_lost(run, dt.datetime.now(dt.UTC)):
        raise RunError(
            f"the run {run.display_name} is lost: its workflow is gone from the cluster, and nothing is left to go on"
            " from; `headrace submit --again` makes another run"
        )
    if run.state == CANCELING:
        raise RunError(f"the run {run.display_name} is still being cancelled; retry it when it has ended")
    if run.state not in ("FAILED", "CANCELED"):
        raise RunError(
            f"the run {run.display_name} is {str(run.state).lower()}: only what failed or was cancelled"
            " can go on; `headrace submit --again` makes another run"
        )
    server.change("retry the run", server.runs.run_service_retry_run, run.run_id)
