"""What is refused of a compiled pipeline whose artifacts are staged: workers outside its pods.

With `storage: staged` an artifact's files are copies on the disk of the one pod that works on them, so no process
elsewhere can open them. (A local run has no pods, so this is no rule of the config itself.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace.configs.beam import BeamConfig
from headrace.configs.beam_rules import ENDPOINTS
from headrace.configs.config import PipelineConfig
from headrace.configs.errors import ConfigError, Problem
from headrace.configs.service import service

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
    if (to := elsewhere(config.beam)) is not None:
        what = f"{start} Beam's workers at {to} would open: {WAY_OUT}; or use the runner `auto`, and give the pod CPUs"
        yield Problem("beam.runner", what)
    if (chosen := service(config.train.input.service)) is not None:
        what = f"{start} the workers of {chosen.address} would open: {WAY_OUT}; or leave the service out"
        yield Problem("train.input.service", what)


def elsewhere(beam: BeamConfig) -> str | None:
    """The runner, or the place that it sends its jobs to, if the work is done outside of this process' machine."""
    if beam.runner == "dataflow":
        return "Dataflow"
    if not beam.is_remote or str(beam.options.get("environment_type", "")).upper() == "LOOPBACK":
        return None
    named = (beam.options.get(name) for name in ENDPOINTS[beam.runner])
    to = next((str(place) for place in named if place), None)
    return None if to is None or IN_THE_POD.fullmatch(to.strip()) else to
