"""The rules of `beam:`: which options each runner needs, takes and leaves to Headrace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from headrace.common.credentials import CREDENTIAL_PATTERNS, SECRET_FIELD, has_password, redact
from headrace.common.names import closest, did_you_mean, join_or
from headrace.configs.rules.beam_options import (
    BEAM_OPTIONS,
    BOOLEAN,
    INTEGER,
    JOB_SERVER_OPTIONS,
    NUMBER,
    STRING,
    STRINGS,
)
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.beam import BeamConfig, OptionValue, Runner
from headrace.configs.schema.section import KeyPath

OPTIONS: KeyPath = ("beam", "options")
SET_BY_HEADRACE = {
    "runner": "this is set by beam.runner; move it there",
    "direct_num_workers": "this is set by beam.workers; move it there",
    "direct_running_mode": "this is set by beam.direct_running_mode; move it there",
    "parallelism": "this is set by beam.workers; move it there",
    "num_workers": "this is set by beam.workers; move it there",
    "no_wait_until_finish": "a component must wait for its pipeline; remove it",
    "output_executable_path": "this writes a pipeline and does not run it; remove it",
    "template_location": "this writes a pipeline and does not run it; remove it",
    "dry_run": "this does not run the pipeline; remove it",
    "streaming": "all pipelines are batch pipelines; remove it",
    "update": "all pipelines are batch pipelines, which cannot be updated; remove it",
    "job_port": "this is for Beam's own job server, which uses a free port; remove it",
}
CREDENTIAL_OPTIONS = frozenset(
    {"azure_connection_string", "s3_access_key_id", "s3_secret_access_key", "s3_session_token"}
)
FROM_ENVIRONMENT = (
    "a config must not contain a credential; set the store's environment variables, such as AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY (on Kubeflow under kubeflow.defaults.secrets), and remove this"
)
PORTABLE: tuple[Runner, ...] = ("flink", "spark", "portable")
ONLY_FOR: dict[str, tuple[Runner, ...]] = {
    r"flink_\w+": ("flink",),
    r"spark_\w+": ("spark",),
    r"direct_\w+": ("auto", "direct"),
    r"environment_\w+|job_endpoint|artifact_endpoint|job_server_\w+|sdk_worker_parallelism": PORTABLE,
    r"dataflow_\w+|autoscaling_algorithm|flexrs_goal|max_num_workers|(worker_)?machine_type": ("dataflow",),
}
"""Options, as regular expressions, that do not apply to other runners."""
LOCAL_MASTER = re.compile(r"\[(local|auto)\]|local(\[.+\])?", re.IGNORECASE)
"""A Flink or Spark master that Beam's job server starts in its own process."""
ENVIRONMENT_TYPES = {
    "DOCKER": "environment_config: the image that `headrace image` builds; Beam's default lacks TFX and Headrace",
    "PROCESS": 'environment_config: {"command": "..."} as JSON, the command that starts a worker',
    "EXTERNAL": "environment_config: HOST:PORT of a pool of workers",
    "LOOPBACK": "",
}
"""Where Beam's portable runners run Python, and the option that this requires."""
REQUIRED_ENDPOINT = {
    "flink": "requires flink_master: HOST:8081 (Flink's REST API), or job_endpoint: HOST:8099 (Beam's job server)",
    "spark": "requires spark_master_url: spark://HOST:7077, or job_endpoint: HOST:8099 (Beam's job server)",
    "portable": "requires job_endpoint: HOST:8099, the address of a job server",
}
ENDPOINTS = {
    "flink": ("job_endpoint", "flink_master"),
    "spark": ("job_endpoint", "spark_master_url", "spark_rest_url"),
    "portable": ("job_endpoint",),
}
"""Options with the address for jobs; the first that is set is used."""
DATAFLOW_OPTIONS = {
    "project": "the Google Cloud project that is billed",
    "region": "such as europe-west1",
    "temp_location": "a folder of Cloud Storage, such as gs://bucket/tmp",
}


def options_are_known(beam: BeamConfig) -> Iterator[Violation]:
    """The job server of Spark or another portable runner may have more options, so there a name is rejected only if it
    looks like a typo.
    """
    known = BEAM_OPTIONS.keys() | JOB_SERVER_OPTIONS.get(beam.runner, frozenset())
    for name in beam.options:
        if name in known:
            continue
        where = (*OPTIONS, name)
        if name.startswith("-"):
            yield where, f"write the name without dashes: {name.lstrip('-').partition('=')[0]}"
        elif beam.runner not in ("spark", "portable") or closest(name, known):
            yield where, f"unknown Beam option{did_you_mean(name, known)}"


def options_have_values_that_fit(beam: BeamConfig) -> Iterator[Violation]:
    for name, value in beam.options.items():
        takes = BEAM_OPTIONS.get(name)
        if takes is None or _is_credential(name, value) or _matches(value, takes):
            continue
        allowed = takes if isinstance(takes, str) else join_or(takes)
        yield (*OPTIONS, name), f"found {json.dumps(value, ensure_ascii=False)}; allowed: {allowed}"


def options_are_not_set_elsewhere(beam: BeamConfig) -> Iterator[Violation]:
    for name in beam.options:
        if name in SET_BY_HEADRACE:
            yield (*OPTIONS, name), SET_BY_HEADRACE[name]
        elif name == "temp_location" and beam.runner != "dataflow":
            yield (*OPTIONS, name), "temporary files are in the run's own folder; remove it"


def options_are_for_the_runner(beam: BeamConfig) -> Iterator[Violation]:
    for name in beam.options:
        for pattern, runners in ONLY_FOR.items():
            if re.fullmatch(pattern, name) and beam.runner not in runners and name not in SET_BY_HEADRACE:
                what = f"this is for beam.runner: {join_or(runners)}, but the runner is {beam.runner}"
                yield (*OPTIONS, name), f"{what}; change the runner, or remove the option"


def options_hold_no_credential(beam: BeamConfig) -> Iterator[Violation]:
    for name, value in beam.options.items():
        if _is_credential(name, value):
            yield (*OPTIONS, name), FROM_ENVIRONMENT


def runner_knows_where_to_go(beam: BeamConfig) -> Iterator[Violation]:
    if beam.runner in REQUIRED_ENDPOINT and not any(beam.options.get(name) for name in ENDPOINTS[beam.runner]):
        yield OPTIONS, f"`runner: {beam.runner}` {REQUIRED_ENDPOINT[beam.runner]}"
    if beam.options.get("spark_submit_uber_jar") and not beam.options.get("spark_rest_url"):
        yield OPTIONS, "spark_submit_uber_jar requires spark_rest_url: http://HOST:6066"
    if beam.runner == "dataflow":
        for name, meaning in DATAFLOW_OPTIONS.items():
            if not beam.options.get(name):
                yield OPTIONS, f"`runner: dataflow` requires {name}: {meaning}"
        place = beam.options.get("temp_location", "gs://")
        if not str(place).startswith("gs://"):
            yield (
                (*OPTIONS, "temp_location"),
                f"found {json.dumps(redact(str(place)))}; allowed: {DATAFLOW_OPTIONS['temp_location']}",
            )


def workers_have_the_code(beam: BeamConfig) -> Iterator[Violation]:
    """A portable runner needs to know where its Python workers run, because Beam's default image lacks this project."""
    if beam.runner not in PORTABLE:
        return
    given = beam.options.get("environment_type")
    if given is None:
        if not _is_local(beam):
            said = "; ".join(f"{name} ({needs})" if needs else name for name, needs in ENVIRONMENT_TYPES.items())
            what = f"`runner: {beam.runner}` requires environment_type, which sets where Python workers run"
            yield OPTIONS, f"{what}: {said}, in this process, for a runner on this machine"
        return
    kind = str(given).upper()
    if kind not in ENVIRONMENT_TYPES:
        if not kind.startswith("BEAM:ENV:"):
            found = f"found {json.dumps(given)}; allowed: {join_or(ENVIRONMENT_TYPES)}"
            yield (*OPTIONS, "environment_type"), f"{found}{did_you_mean(kind, ENVIRONMENT_TYPES)}"
    elif ENVIRONMENT_TYPES[kind] and not {"environment_config", "environment_option", "environment_options"} & set(
        beam.options
    ):
        yield (*OPTIONS, "environment_type"), f"{kind} requires {ENVIRONMENT_TYPES[kind]}"


def workers_are_the_runners(beam: BeamConfig) -> Iterator[Violation]:
    if beam.workers > 1 and beam.runner in ("spark", "portable"):
        yield ("beam", "workers"), f"`runner: {beam.runner}` chooses the number of workers itself; remove it"
    if beam.direct_running_mode is not None and beam.is_remote:
        what = f"only auto and direct run workers on this machine, but the runner is {beam.runner}; remove it"
        yield ("beam", "direct_running_mode"), what
    if beam.direct_running_mode == "in_memory" and beam.workers > 1:
        what = f"in_memory has one worker, but beam.workers is {beam.workers}; use multi_threading or multi_processing"
        yield ("beam", "direct_running_mode"), what


def _is_local(beam: BeamConfig) -> bool:
    master = beam.options.get({"flink": "flink_master", "spark": "spark_master_url"}.get(beam.runner, ""))
    return "job_endpoint" not in beam.options and (master is None or bool(LOCAL_MASTER.fullmatch(str(master).strip())))


def _is_credential(name: str, value: OptionValue) -> bool:
    texts = [value] if isinstance(value, str) else value if isinstance(value, tuple) else ()
    return (
        name in CREDENTIAL_OPTIONS
        or bool(SECRET_FIELD.search(name))
        or any(
            has_password(text) or any(shape.search(text) for shape in CREDENTIAL_PATTERNS.values()) for text in texts
        )
    )


def _matches(value: OptionValue, takes: str | tuple[str, ...]) -> bool:
    if isinstance(takes, tuple):
        return value in takes
    if isinstance(value, bool):
        return takes == BOOLEAN
    return {
        INTEGER: isinstance(value, int),
        NUMBER: isinstance(value, int | float),
        STRING: isinstance(value, str | int | float),
        STRINGS: isinstance(value, str | tuple),
    }.get(takes, False)
