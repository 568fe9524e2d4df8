"""What the pod of a component asks for where the config does not say: CPU, memory, and limits of both.

settled("Trainer", settings, {"Trainer": Peak(memory=3 << 30, cpu=1.7)})      # from what it took before
settled("Trainer", settings)                                                  # from the table

A namespace with a ResourceQuota accepts only pods whose containers all say what they ask for. Kubeflow's own containers
do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.configs.kubeflow import ComponentSettings

GI = 1 << 30
UNITS = {"": 1, **{unit: 1000**power for power, unit in enumerate("MGTPE", 2)}}
UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}
HEADROOM = 1.25
"""A run takes more than the one before it by chance."""
POD = 0.6
"""GiB that a pod takes beside what a local component does: imports of its own, and Kubeflow's launcher."""
LAUNCHER = 0.1
"""GiB of Kubeflow's launcher alone, which is in the container beside the component."""
STEPS = (1, 1.25, 1.5, 1.75)
"""By which sizes are rounded up between powers of two, so that a peak that varies asks for the same."""


@dataclass(frozen=True)
class Resources:
    """CPUs and GiB of memory: asked for, and at most."""

    cpu: float
    cpu_limit: float
    memory: float
    memory_limit: float


@dataclass(frozen=True)
class Peak:
    """What a component took: bytes of memory at most, CPUs on average. in_pod: with all that its pod imported."""

    memory: int
    cpu: float
    in_pod: bool = False


LIGHT = Resources(cpu=0.5, cpu_limit=2, memory=1, memory_limit=3)
"""Components whose work hardly grows with the data. All import TensorFlow and TFX, which takes 0.9 GB."""
DATA = Resources(cpu=1, cpu_limit=8, memory=2, memory_limit=8)
"""Components that read or make examples, in batches."""
TRAINING = Resources(cpu=1, cpu_limit=16, memory=2, memory_limit=16)
"""Components that train. `train.input.cache: auto` goes by the limit: it keeps what fits into half of what is left."""
TABLE: Mapping[str, Resources] = {
    "ExampleGen": DATA,
    "StatisticsGen": DATA,
    "Transform": DATA,
    "Evaluator": DATA,
    "Drift": DATA,
    "Tuner": TRAINING,
    "Trainer": TRAINING,
}
"""Measured peaks are in docs/kubeflow.md; the limits are for much more data than those had."""
ACCELERATED = 2
"""With a GPU or TPU, which brings libraries of its own and takes its input faster: so many times the memory."""


def settled(component: str, settings: ComponentSettings, peaks: Mapping[str, Peak] | None = None) -> ComponentSettings:
    """The settings with CPU, memory and limits. What the config says holds, also that there is to be no limit
    (`memory_limit: null`); a limit is never below what is asked for.
    """
    peak = (peaks or {}).get(component)
    table = TABLE.get(component, LIGHT)
    chosen = table if peak is None else _measured(peak, table)
    memory, limit = chosen.memory * GI, chosen.memory_limit * GI
    if settings.accelerator is not None and peak is None:
        memory, limit = memory * ACCELERATED, limit * ACCELERATED
    if settings.shared_memory is not None:
        limit += amount(settings.shared_memory)  # what lies in /dev/shm counts as the container's memory
    said = settings.model_fields_set
    given = {name: getattr(settings, name) for name in ("cpu", "cpu_limit", "memory", "memory_limit")}
    asked = written(memory)
    if given["memory_limit"] is not None and amount(given["memory_limit"]) < memory:
        asked = given["memory_limit"]
    if given["memory"] is not None and amount(given["memory"]) > memory:
        limit = max(limit, 2 * amount(given["memory"]))
    cpu, most = min(chosen.cpu, given["cpu_limit"] or math.inf), max(chosen.cpu_limit, 2 * (given["cpu"] or 0))
    found = {"cpu": cpu, "cpu_limit": most, "memory": asked, "memory_limit": written(limit)}
    return settings.model_copy(update={name: value for name, value in found.items() if name not in said})


def _measured(peak: Peak, table: Resources) -> Resources:
    memory = rounded((peak.memory / GI + (LAUNCHER if peak.in_pod else POD)) * HEADROOM)
    cpu = max(0.5, math.ceil(2 * peak.cpu) / 2)
    return Resources(cpu, max(table.cpu_limit, 2 * cpu), memory, 2 * memory)


def rounded(size: float) -> float:
    """The next size that is a power of two by one of the steps.

    >>> rounded(3.1), rounded(0.6)
    (3.5, 0.625)
    """
    power = 2.0 ** math.floor(math.log2(size))
    return next((power * step for step in STEPS if size <= power * step), 2 * power)


def amount(size: str) -> float:
    """`4Gi` in bytes."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", size)
    return float(found[1]) * UNITS[found[2]] if found else math.nan


def written(size: float) -> str:
    """Bytes as Kubernetes writes them."""
    return f"{size / GI:g}Gi" if size % GI == 0 else f"{math.ceil(size / (1 << 20))}Mi"
