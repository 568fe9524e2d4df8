"""What is refused of a compiled pipeline whose artifacts are staged: workers outside its pods.

With `storage: staged` an artifact's files are copies on the disk of the one pod that works on them, so no process
elsewhere can open them. (A local run has no pods, so this is no rule of the config itself.)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from configs.config import PipelineConfig
from configs.errors import ConfigError, Problem
from configs.service import service

ELSEWHERE = re.compile(r"(.*\.)?(Test)?(Dataflow|KafkaStreams)(Runner)?", re.IGNORECASE)
"""Runners that have no workers in the pod, whatever their other options are."""
IN_THE_POD = re.compile(
    r"embed|\[(local|auto)\]|local(\[.+\])?|(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE
)
"""Where jobs go, as Beam's runners spell it, if not to a cluster."""
WAY_OUT = "use `kubeflow.storage: reference`, with a volume that pods and workers mount at the same path"


def check(config: PipelineConfig) -> None:
    """Raise ConfigError, with all places, if workers elsewhere would have to open what only a pod has."""
    if config.kubeflow.storage == "staged" and (found := list(_out_of_reach(config))):
        raise ConfigError(*found)


def _out_of_reach(config: PipelineConfig) -> Iterator[Problem]:
    start = "with `kubeflow.storage: staged` only the pod itself has the files that"
    if (to := elsewhere(config.beam.args)) is not None:
        what = f"{start} Beam's workers at {to} would open: {WAY_OUT}; or leave the runner out, and give the pod CPUs"
        yield Problem("beam.args", what)
    if (chosen := service(config.train.input.service)) is not None:
        what = f"{start} the workers of {chosen.address} would open: {WAY_OUT}; or leave the service out"
        yield Problem("train.input.service", what)


def elsewhere(args: Sequence[str]) -> str | None:
    """The runner, or the place that it sends its jobs to, if the work is done outside of this process' machine."""
    given = _options(args)
    runner = given.get("runner", "")
    if ELSEWHERE.fullmatch(runner):
        return runner
    if given.get("environment_type", "").upper() == "LOOPBACK":
        return None
    masters = {"portable": "", "flink": "flink_master", "spark": "spark_master_url"}
    master = next((name for kind, name in masters.items() if kind in runner.lower()), None)
    if master is None:
        return None
    to = given.get("job_endpoint") or given.get(master)
    return None if to is None or IN_THE_POD.fullmatch(to.strip()) else to


def _options(args: Sequence[str]) -> dict[str, str]:
    """Name to value, of `--name=value` and of `--name value`; the last one counts, as for Beam."""
    found = {}
    for arg, after in itertools.pairwise([*args, ""]):
        name, equals, value = arg.removeprefix("--").partition("=")
        if arg.startswith("--"):
            found[name] = value if equals else after
    return found
