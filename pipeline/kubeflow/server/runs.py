"""Runs: made once for each key, found, ended, gone on with.

The key of a run is its name within its experiment. It is made of the content, so that the same command finds the run
that it made before, and a command that lost the server's answer makes no second one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import kfp_server_api as api

from configs.errors import RunError, ServerError
from pipeline.kubeflow.server.connection import Connection
from pipeline.kubeflow.server.faults import NOT_FOUND, unclear
from pipeline.kubeflow.server.listing import every, named
from pipeline.kubeflow.server.versions import Version

ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
CANCELING = "CANCELING"
DIGITS = 10


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
    return _make(server, _body(experiment_id, version, request, name))


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


def _make(server: Connection, body: Any) -> Submitted:
    try:
        made = server.change("submit the run", server.runs.run_service_create_run, body)
    except ServerError as error:
        if not unclear(error):
            raise
        return Submitted(_look_again(server, body.experiment_id, body.display_name, error), made=True)
    return _first(server, body.experiment_id, body.display_name, made)


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


def _first(server: Connection, experiment_id: str, name: str, made: Any) -> Submitted:
    """The server keeps no two commands apart that submit in the same moment: the later run gives way."""
    first = _find(server, experiment_id, name)
    if first is None or first.run_id == made.run_id:
        return Submitted(made, made=True)
    server.change("end the second run", server.runs.run_service_terminate_run, made.run_id)
    server.change("delete the second run", server.runs.run_service_delete_run, made.run_id)
    return Submitted(first, made=False)


def _find(server: Connection, experiment_id: str, name: str) -> Any | None:
    """The oldest run of that name."""
    ask = server.runs.run_service_list_runs
    found = every(server, "look for the run", ask, "runs", experiment_id=experiment_id, filter=named(name))
    return min(found, key=lambda run: (run.created_at, run.run_id)) if found else None


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


def newest(server: Connection, experiment_id: str, limit: int) -> list[Any]:
    """The runs of an experiment, the newest first."""
    ask = server.runs.run_service_list_runs
    answer = server.read("list the runs", ask, experiment_id=experiment_id, page_size=limit, sort_by="created_at desc")
    return answer.runs or []


def find_run(server: Connection, experiment_id: str | None, name: str | None) -> Any:
    """A run by its id or name; None: the newest. Raises RunError if there is none."""
    found = None
    if experiment_id is not None and name is None:
        found = next(iter(newest(server, experiment_id, 1)), None)
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
    return run


def cancel(server: Connection, run: Any) -> bool:
    """End a run; False if it had ended. The server refuses to end one twice, so one that is being ended is left to."""
    if run.state in ENDED:
        return False
    if run.state == CANCELING:
        return True
    server.change("cancel the run", server.runs.run_service_terminate_run, run.run_id)
    return True


def retry(server: Connection, run: Any) -> None:
    """Go on from the tasks that failed. Raises RunError if there is nothing to go on from."""
    if run.state == CANCELING:
        raise RunError(f"the run {run.display_name} is still being cancelled; retry it when it has ended")
    if run.state not in ("FAILED", "CANCELED"):
        raise RunError(
            f"the run {run.display_name} is {str(run.state).lower()}: only what failed or was cancelled"
            " can go on; `headrace submit --again` makes another run"
        )
    server.change("retry the run", server.runs.run_service_retry_run, run.run_id)
