"""Submission of a run, which is created once however often the same command is repeated.

A run is identified by its name within its experiment, and the name is derived from the run's content. So the same
command finds the run that it created before, and a command that lost the server's answer creates no second one.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import kfp_server_api as api
from pydantic import TypeAdapter, ValidationError

from headrace.common.errors import ConfigError, Problem, RunError, ServerError
from headrace.configs.config import PipelineConfig
from headrace.configs.rules import data as data_rules
from headrace.configs.rules.data import is_date
from headrace.configs.rules.rule import apply_rules, rules_of
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.kubeflow import RootUri
from headrace.pipeline.kubeflow.pod.parameters import PARAMETERS, SCHEDULED, offered
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.errors import is_unclear
from headrace.pipeline.kubeflow.server.runs import age, find_by_name, named_runs
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.versions import PipelineVersion
from headrace.pipeline.run_parameters import parse_parameters
from headrace.trainer.sections import TrainerSections

MAX_NAME = 250
"""Characters of a run's name. The server stores 255 (it creates the workflow before it notices that there are more);
the rest is for the number that `--again` appends."""
KEY_DIGITS = 10
WAIT, ATTEMPTS = 0.5, 8
"""Seconds between checks whether another command's run, created at the same moment, is withdrawn; and how many."""
ROOT = "pipeline_root"
FORMS = {
    "spans": "a number, a date such as 2026-11-20, or a range of two: 2026-11-01..2026-11-20",
    "window": "an integer of at least 1, or all",
    "epochs": "an integer of at least 1, or 0 for auto",
    "steps_per_epoch": "an integer",
}
"""What values of a parameter look like."""
_URI: TypeAdapter[str] = TypeAdapter(RootUri)


@dataclass(frozen=True)
class RunValues:
    """parameters: with the types that the pipeline takes; root: the pipeline root, which every run has."""

    parameters: dict[str, str | int]
    root: str


@dataclass(frozen=True)
class RunRequest:
    """A run to create. name: None for a name derived from the content."""

    pipeline: str
    parameters: Mapping[str, str | int]
    pipeline_root: str
    service_account: str | None = None
    name: str | None = None

    def key(self, version: PipelineVersion) -> str:
        """A digest of the content, parameters and root."""
        parts = [version.name, sorted(self.parameters.items()), self.pipeline_root, self.service_account]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:KEY_DIGITS]


@dataclass(frozen=True)
class SubmittedRun:
    """made: whether this command created the run."""

    run: Any
    made: bool


def submit(
    session: Session,
    *,
    parameters: Sequence[str] = (),
    name: str | None = None,
    again: bool = False,
    cache: bool = True,
) -> tuple[PipelineVersion, SubmittedRun]:
    """The version and the run, each created if it does not exist. Raises ConfigError before anything is sent.

    Args:
        session: The pipeline and its server.
        parameters: `NAME=VALUE` texts.
        name: The run's name; None for one derived from the content.
        again: Create another run even if one with the same content or name exists.
        cache: Whether Kubeflow may reuse results of earlier runs.
    """
    values = run_values(session.config, parameters)
    if name is not None and not 0 < len(name) <= MAX_NAME:
        what = f"a name of {len(name)} characters is not possible; use a name of 1 to {MAX_NAME}"
        raise ConfigError(Problem("--name", what))
    version = session.upload(cache=cache)
    experiment_id = session.ensure_experiment()
    return version, create_run(session.server, experiment_id, version, run_request(session, values, name), again=again)


def run_request(session: Session, values: RunValues, name: str | None) -> RunRequest:
    """The request for a run with the settings of the config."""
    account = session.config.kubeflow.server.service_account
    return RunRequest(session.pipeline, values.parameters, values.root, account, name)


def run_values(config: PipelineConfig, given: Sequence[str]) -> RunValues:
    """The values of `--param` texts. Raises ConfigError with all problems in names, or else with all in values."""
    values = parse_parameters(given, (*offered(config), ROOT))
    problems = [Problem(f"--param {name}", what) for name, what in _problems(config, values)]
    if problems:
        raise ConfigError(*problems)
    root = values.pop(ROOT, config.kubeflow.pipeline_root)
    typed = {name: int(value) if PARAMETERS[name].type is int else value for name, value in values.items()}
    return RunValues(typed, root)


def _problems(config: PipelineConfig, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    try:
        _URI.validate_python(values.get(ROOT, "gs://bucket/folder"))
    except ValidationError:
        what = f"{values[ROOT]} is not a URI where Kubeflow can store artifacts, such as gs://bucket/folder"
        yield ROOT, what
    for name in (name for name in values if name in PARAMETERS and name != "run_date"):
        for what in _problems_of(config, name, values[name]):
            yield name, what
    day = values.get("run_date", "")
    if day not in ("", SCHEDULED) and not is_date(day):
        yield "run_date", f"{day} is not a date; write it as 2026-11-20"


def _problems_of(config: PipelineConfig, name: str, value: str) -> list[str]:
    """Why the task that takes the parameter would reject it, as a config with that value would be rejected."""
    parameter = PARAMETERS[name]
    properties = {"data": config.data.model_dump_json(by_alias=True), "retrain": config.retrain}
    if parameter.component == "Trainer":
        properties["custom_config"] = json.dumps({"config": TrainerSections.of(config).to_json()})
    try:
        put = parameter.put(properties, parameter.type(value))
    except ValidationError:
        return [f"{value or 'an empty value'} is not {FORMS[name]}"]
    except ValueError as error:
        return [f"{value}: {error}"]
    data = DataConfig.model_validate_json(put["data"])
    found = apply_rules(rules_of(data_rules), {"data": data})
    return [what for where, what in found if where[:2] == ("data", name)]


def create_run(
    server: Connection, experiment_id: str, version: PipelineVersion, request: RunRequest, *, again: bool
) -> SubmittedRun:
    """Create the run, or find the one with its name. again: create another one with a number in its name.

    Raises RunError if a run with the requested name has other content.
    """
    key = request.key(version)
    base = request.name or f"{request.pipeline}-{key}"
    name = _free_name(server, experiment_id, base) if again else base
    there = find_by_name(server, experiment_id, name)
    if there is not None:
        _check_same(there, name, key)
        return SubmittedRun(there, made=False)
    return _create(server, _body(experiment_id, version, request, name), key)


def _body(experiment_id: str, version: PipelineVersion, request: RunRequest, name: str) -> Any:
    return api.V2beta1Run(
        experiment_id=experiment_id,
        display_name=name,
        description=_description(request.key(version)),
        pipeline_version_reference=api.V2beta1PipelineVersionReference(
            pipeline_id=version.pipeline_id, pipeline_version_id=version.version_id
        ),
        runtime_config=api.V2beta1RuntimeConfig(
            pipeline_root=request.pipeline_root, parameters=dict(request.parameters)
        ),
        service_account=request.service_account,
    )


def _create(server: Connection, body: Any, key: str) -> SubmittedRun:
    try:
        made = server.change("submit the run", server.runs.run_service_create_run, body)
    except ServerError as error:
        if not is_unclear(error):
            raise
        return SubmittedRun(_find_again(server, body.experiment_id, body.display_name, error), made=True)
    try:
        return _resolve_duplicates(server, body.experiment_id, made, key)
    except ServerError as error:
        hint = f"the run {made.display_name} was created, {made.run_id}; another command may have created one too"
        raise ServerError(f"{error}\n  {hint}", error.status) from None


def _find_again(server: Connection, experiment_id: str, name: str, error: ServerError) -> Any:
    """The run that was created although the answer was lost."""
    hint = "the run may have been created; the same command looks for it before it creates one"
    try:
        found = find_by_name(server, experiment_id, name)
    except ServerError:
        raise ServerError(f"{error}\n  {hint}", error.status) from None
    if found is None:
        raise ServerError(f"{error}\n  no run {name} exists yet; {hint}", error.status)
    return found


def _resolve_duplicates(server: Connection, experiment_id: str, made: Any, key: str) -> SubmittedRun:
    """Leave one run if several commands submitted at the same moment, which the server does not prevent.

    Times do not decide: the server's are whole seconds, and taken before others can see the run. But of any two runs,
    the command whose run becomes visible later sees the other's. The younger run is withdrawn at once; the older only
    if the other one stays, as it does if its command had looked before.
    """
    name = made.display_name
    others = _other_runs(server, experiment_id, made)
    if others and age(made) < min(map(age, others)):
        for _ in range(ATTEMPTS):
            time.sleep(WAIT)
            others = _other_runs(server, experiment_id, made)
            if not others:
                break
    if not others:
        return SubmittedRun(made, made=True)
    server.change("end the second run", server.runs.run_service_terminate_run, made.run_id)
    server.change("delete the second run", server.runs.run_service_delete_run, made.run_id)
    left = _other_runs(server, experiment_id, made)
    if not left:
        raise RunError(f"several commands created a run {name} at once, and each withdrew its own; submit again")
    _check_same(left[0], name, key)
    return SubmittedRun(left[0], made=False)


def _other_runs(server: Connection, experiment_id: str, made: Any) -> list[Any]:
    return [run for run in named_runs(server, experiment_id, made.display_name) if run.run_id != made.run_id]


def _free_name(server: Connection, experiment_id: str, base: str) -> str:
    number = 1
    name = base
    while find_by_name(server, experiment_id, name) is not None:
        number += 1
        name = f"{base}-{number}"
    return name


def _description(key: str) -> str:
    """The description on the server, by which runs of the same content are recognized."""
    return f"headrace submit, content {key}"


def _check_same(run: Any, name: str, key: str) -> None:
    if run.description != _description(key):
        raise RunError(
            f"a run {name} exists with other content, parameters or origin: {run.run_id}\n"
            "  give this one another --name"
        )
