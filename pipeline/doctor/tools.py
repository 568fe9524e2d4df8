"""Programs outside Python. None is needed to run a pipeline on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from headrace.pipeline.doctor.finding import Finding, note, ok

_OPTIONAL = {
    "g++": "`make env` builds one dependency from source (apt-get install g++ python3-dev)",
    "java": "running Beam on Flink",
    "go": "building the checks against Kubeflow's own compiler",
    "kubectl": "working with a cluster",
    "docker": "building the image for a cluster",
}


def tools() -> Iterator[Finding]:
    """Which optional programs are there, and what the others would be for."""
    there = [name for name in _OPTIONAL if shutil.which(name)]
    if there:
        yield ok(f"optional programs: {', '.join(there)}")
    for name, purpose in _OPTIONAL.items():
        if name not in there:
            yield note(f"no {name}; only for {purpose}")
