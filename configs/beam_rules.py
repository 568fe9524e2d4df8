"""The rules of `beam:`: which options each runner needs, takes and leaves to Headrace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from headrace.configs.beam import BeamConfig, OptionValue, Runner
from headrace.configs.beam_options import (
    BEAM_OPTIONS,
    JOB_SERVER_OPTIONS,
    NUMBER,
    TEXT,
    TEXTS,
    TRUE_OR_FALSE,
    WHOLE_NUMBER,
)
from headrace.configs.credentials import FIELD, SHAPES, without
from headrace.configs.passwords import hides
from headrace.configs.suggest import did_you_mean, nearest
from headrace.configs.tree import Where
from headrace.configs.words import either

Finding = tuple[Where, str]

OPTIONS: Where = ("beam", "options")
RUNNERS: dict[str, Runner] = {
    "DirectRunner": "direct",
    "FnApiRunner": "direct",
    "BundleBasedDirectRunner": "direct",
    "SwitchingDirectRunner": "direct",
    "FlinkRunner": "flink",
    "SparkRunner": "spark",
    "DataflowRunner": "dataflow",
    "PortableRunner": "portable",
}
"""Beam's names of runners."""
SET_BY_HEADRACE = {
    "runner": "this is set by beam.runner; move it there",
    "direct_num_workers": "this is set by beam.workers; move it there",
    "direct_running_mode": "this is set by beam.direct_running_mode; move it there",
    "parallelism": "this is set by beam.workers; move it there",
    "num_workers": "this is set by beam.workers; move it there",
    "no_wait_until_finish": "a component has to wait for its pipeline; remove it",
    "output_executable_path": "this writes a pipeline and does not run it; remove it",
    "template_location": "this writes a pipeline and does not run it; remove it",
    "dry_run": "this does not run the pipeline; remove it",
    "streaming": "all pipelines are batch pipelines; remove it",
    "update": "all pipelines are batch pipelines, which cannot be updated; remove it",
    "job_port": "this is for Beam's own job server, which Beam starts on a free port; remove it",
}
CREDENTIALS = frozenset({"azure_connection_string", "s3_access_key_id", "s3_secret_access_key", "s3_session_token"})
FROM_ENVIRONMENT = (
    "a credential does not go into a config; set the store's own environment variables, such as AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY (on Kubeflow under kubeflow.defaults.secrets), and leave this out"
)
PORTABLE: tuple[Runner, ...] = ("flink", "spark", "portable")
ONLY_FOR: dict[str, tuple[Runner, ...]] = {
    r"flink_\w+": ("flink",),
    r"spark_\w+": ("spark",),
    r"direct_\w+": ("auto", "direct"),
    r"environment_\w+|job_endpoint|artifact_endpoint|job_server_\w+|sdk_worker_parallelism": PORTABLE,
    r"dataflow_\w+|autoscaling_algorithm|flexrs_goal|max_num_workers|(worker_)?machine_type": ("dataflow",),
}
"""Options, as regular expressions, that mean nothing to the other runners."""
LOCAL_MASTER = re.compile(r"\[(local|auto)\]|local(\[.+\])?", re.IGNORECASE)
"""A Flink or Spark that Beam's job server starts in its own process."""
ENVIRONMENTS = {
    "DOCKER": "environment_config: the image that `headrace image` builds; Beam's own has neither TFX nor Headrace",
    "PROCESS": 'environment_config: {"command": "..."} as JSON, the program that starts a worker',
    "EXTERNAL": "environment_config: HOST:PORT of a pool of workers",
    "LOOPBACK": "",
}
"""Where Beam's portable runners run Python, and what they need to know for it."""
NEEDED = {
    "flink": "needs flink_master: HOST:8081, Flink's REST API, or job_endpoint: HOST:8099, that of Beam's job server",
    "spark": "needs spark_master_url: spark://HOST:7077, or job_endpoint: HOST:8099, that of Beam's job server",
    "portable": "needs job_endpoint: HOST:8099, the address of a job server",
}
ENDPOINTS = {
    "flink": ("job_endpoint", "flink_master"),
    "spark": ("job_endpoint", "spark_master_url", "spark_rest_url"),
    "portable": ("job_endpoint",),
}
"""Options that say where jobs go; the first that is given counts."""
DATAFLOW = {
    "project": "the Google Cloud project that pays",
    "region": "such as europe-west1",
    "temp_location": "a folder of Cloud Storage, such as gs://bucket/tmp",
}


def options_are_known(beam: BeamConfig) -> Iterator[Finding]:
    """A job server of Spark's or of another portable runner may have options of its own, so there a name is refused
    only if it looks like a slip.
    """
    known = BEAM_OPTIONS.keys() | JOB_SERVER_OPTIONS.get(beam.runner, frozenset())
    for name in beam.options:
        if name in known:
            continue
        where = (*OPTIONS, name)
        if name.startswith("-"):
            yield where, f"names stand here without dashes: {name.lstrip('-').partition('=')[0]}"
        elif beam.runner not in ("spark", "portable") or nearest(name, known):
            yield where, f"Beam has no such option{did_you_mean(name, known)}"


def options_have_values_that_fit(beam: BeamConfig) -> Iterator[Finding]:
    for name, value in beam.options.items():
        takes = BEAM_OPTIONS.get(name)
        if takes is None or _is_credential(name, value) or _fits(value, takes):
            continue
        allowed = takes if isinstance(takes, str) else either(takes)
        yield (*OPTIONS, name), f"found {json.dumps(value, ensure_ascii=False)}; allowed: {allowed}"


def options_are_not_set_elsewhere(beam: BeamConfig) -> Iterator[Finding]:
    for name in beam.options:
        if name in SET_BY_HEADRACE:
            yield (*OPTIONS, name), SET_BY_HEADRACE[name]
        elif name == "temp_location" and beam.runner != "dataflow":
            yield (*OPTIONS, name), "temporary files lie in the run's own folder; remove it"


def options_are_for_the_runner(beam: BeamConfig) -> Iterator[Finding]:
    for name in beam.options:
        for pattern, runners in ONLY_FOR.items():
            if re.fullmatch(pattern, name) and beam.runner not in runners and name not in SET_BY_HEADRACE:
                what = f"this is for beam.runner: {either(runners)}, and the runner is {beam.runner}"
                yield (*OPTIONS, name), f"{what}; change the runner, or remove the option"


def options_hold_no_credential(beam: BeamConfig) -> Iterator[Finding]:
    for name, value in beam.options.items():
        if _is_credential(name, value):
            yield (*OPTIONS, name), FROM_ENVIRONMENT


def runner_knows_where_to_go(beam: BeamConfig) -> Iterator[Finding]:
    if beam.runner in NEEDED and not any(beam.options.get(name) for name in ENDPOINTS[beam.runner]):
        yield OPTIONS, f"`runner: {beam.runner}` {NEEDED[beam.runner]}"
    if beam.options.get("spark_submit_uber_jar") and not beam.options.get("spark_rest_url"):
        yield OPTIONS, "spark_submit_uber_jar needs spark_rest_url: http://HOST:6066 beside it"
    if beam.runner == "dataflow":
        for name, meaning in DATAFLOW.items():
            if not beam.options.get(name):
                yield OPTIONS, f"`runner: dataflow` needs {name}: {meaning}"
        place = beam.options.get("temp_location", "gs://")
        if not str(place).startswith("gs://"):
            yield (
                (*OPTIONS, "temp_location"),
                f"found {json.dumps(without(str(place)))}; allowed: {DATAFLOW['temp_location']}",
            )


def workers_have_the_code(beam: BeamConfig) -> Iterator[Finding]:
    """A portable runner has to be told where its Python workers are, for Beam's default image lacks this project."""
    if beam.runner not in PORTABLE:
        return
    given = beam.options.get("environment_type")
    if given is None:
        if not _is_local(beam):
            said = "; ".join(f"{name} ({needs})" if needs else name for name, needs in ENVIRONMENTS.items())
            what = f"`runner: {beam.runner}` needs environment_type, which says where Python workers run"
            yield OPTIONS, f"{what}: {said}, in this process, for a runner on the same machine"
        return
    kind = str(given).upper()
    if kind not in ENVIRONMENTS:
        if not kind.startswith("BEAM:ENV:"):
            found = f"found {json.dumps(given)}; allowed: {either(ENVIRONMENTS)}{did_you_mean(kind, ENVIRONMENTS)}"
            yield (*OPTIONS, "environment_type"), found
    elif ENVIRONMENTS[kind] and not {"environment_config", "environment_option", "environment_options"} & set(
        beam.options
    ):
        yield (*OPTIONS, "environment_type"), f"{kind} needs {ENVIRONMENTS[kind]}"


def workers_are_the_runners(beam: BeamConfig) -> Iterator[Finding]:
    if beam.workers > 1 and beam.runner in ("spark", "portable"):
        yield ("beam", "workers"), f"`runner: {beam.runner}` decides by itself how many workers it has; remove it"
    if beam.direct_running_mode is not None and beam.is_remote:
        what = f"only auto and direct run workers on this machine, and the runner is {beam.runner}; remove it"
        yield ("beam", "direct_running_mode"), what
    if beam.direct_running_mode == "in_memory" and beam.workers > 1:
        what = f"in_memory has one worker, and beam.workers is {beam.workers}; use multi_threading or multi_processing"
        yield ("beam", "direct_running_mode"), what


def moved_args(args: list[str]) -> str:
    """What `beam.args: [...]` of earlier versions is now, from `--name=value`, `--name value` and `--flag`."""
    options: dict[str, str] = {}
    name = ""
    for arg in args:
        if arg.startswith("--"):
            name, equals, value = arg.removeprefix("--").partition("=")
            options[name] = value if equals else "true"
        elif name:
            options[name] = arg
    given = options.pop("runner", "").rpartition(".")[2]
    runner = next((ours for beams, ours in RUNNERS.items() if _word(beams) == _word(given)), "direct" if given else "")
    workers = next((options.pop(name) for name in ("parallelism", "direct_num_workers") if name in options), "")
    mode = options.pop("direct_running_mode", "")
    shown = ", ".join(f"{name}: {_shown(name, value)}" for name, value in options.items())
    parts = [("runner", runner), ("workers", workers), ("direct_running_mode", mode)]
    written = [f"{name}: {value}" for name, value in parts if value]
    return ", ".join([*written, *([f"options: {{{shown}}}"] if shown else [])])


def _word(runner: str) -> str:
    return runner.lower().removesuffix("runner")


def _shown(name: str, value: str) -> str:
    return "..." if _is_credential(name, value) else value


def _is_local(beam: BeamConfig) -> bool:
    master = beam.options.get({"flink": "flink_master", "spark": "spark_master_url"}.get(beam.runner, ""))
    return "job_endpoint" not in beam.options and (master is None or bool(LOCAL_MASTER.fullmatch(str(master).strip())))


def _is_credential(name: str, value: OptionValue) -> bool:
    texts = [value] if isinstance(value, str) else value if isinstance(value, tuple) else ()
    return (
        name in CREDENTIALS
        or bool(FIELD.search(name))
        or any(hides(text) or any(shape.search(text) for shape in SHAPES.values()) for text in texts)
    )


def _fits(value: OptionValue, takes: str | tuple[str, ...]) -> bool:
    if isinstance(takes, tuple):
        return value in takes
    if isinstance(value, bool):
        return takes == TRUE_OR_FALSE
    return {
        WHOLE_NUMBER: isinstance(value, int),
        NUMBER: isinstance(value, int | float),
        TEXT: isinstance(value, str | int | float),
        TEXTS: isinstance(value, str | tuple),
    }.get(takes, False)


RULES = (
    options_are_known,
    options_have_values_that_fit,
    options_are_not_set_elsewhere,
    options_are_for_the_runner,
    options_hold_no_credential,
    runner_knows_where_to_go,
    workers_have_the_code,
    workers_are_the_runners,
)
