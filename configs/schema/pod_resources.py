"""CPU and memory requests and limits of a component's pod, where the config does not set them.

with_resources("Trainer", settings, {"Trainer": PeakUsage(memory=3 << 30, cpu=1.7)})      # from earlier usage
with_resources("Trainer", settings)                                                       # from the table

A namespace with a ResourceQuota accepts only pods whose containers all have requests. Kubeflow's own containers do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.configs.schema.pods import ComponentSettings

GI = 1 << 30
UNITS = {"": 1, **{unit: 1000**power for power, unit in enumerate("MGTPE", 2)}}
UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}
HEADROOM = 1.25
"""Margin for the variation between runs."""
POD = 0.6
"""GiB that a pod uses in addition to a local component: its own imports, and Kubeflow's launcher."""
LAUNCHER = 0.1
"""GiB of Kubeflow's launcher alone, which runs in the component's container."""
STEPS = (1, 1.25, 1.5, 1.75)
"""Multiples of a power of two to which sizes are rounded up, so that small variations give the same request."""


@dataclass(frozen=True)
class Resources:
    """Requests and limits of CPUs and GiB of memory."""

    cpu: float
    cpu_limit: float
    memory: float
    memory_limit: float


@dataclass(frozen=True)
class PeakUsage:
    """Maximum bytes of memory and average CPUs of a component. in_pod: measured in its pod, with all imports."""

    memory: int
    cpu: float
    in_pod: bool = False


LIGHT = Resources(cpu=0.5, cpu_limit=2, memory=1, memory_limit=3)
"""Components whose work hardly grows with the data. All import TensorFlow and TFX, which take 0.9 GB."""
DATA = Resources(cpu=1, cpu_limit=8, memory=2, memory_limit=8)
"""Components that read or write examples in batches."""
TRAINING = Resources(cpu=1, cpu_limit=16, memory=2, memory_limit=16)
"""Components that train. `train.input.cache: auto` depends on the limit: it uses up to half of what is left."""
TABLE: Mapping[str, Resources] = {
    "ExampleGen": DATA,
    "StatisticsGen": DATA,
    "Transform": DATA,
    "Canary": DATA,
    "Evaluator": DATA,
    "Drift": DATA,
    "BulkPredictor": DATA,
    "Tuner": TRAINING,
    "Trainer": TRAINING,
}
"""The measured peaks are in docs/kubeflow.md; the limits allow for much more data."""
ACCELERATED = 2
"""Factor for memory with a GPU or TPU, which loads more libraries and consumes input faster."""


def with_resources(
    component: str, settings: ComponentSettings, peaks: Mapping[str, PeakUsage] | None = None
) -> ComponentSettings:
    """Fill in CPU, memory and limits where the settings leave them out.

    What the config sets is kept, including the absence of a limit (`memory_limit: null`). A limit is never below the
    request.
    """
    peak = (peaks or {}).get(component)
    table = TABLE.get(component, LIGHT)
    chosen = table if peak is None else _measured(peak, table)
    memory, limit = chosen.memory * GI, chosen.memory_limit * GI
    if settings.accelerator is not None and peak is None:
        memory, limit = memory * ACCELERATED, limit * ACCELERATED
    if settings.shared_memory is not None:
        limit += parse_quantity(settings.shared_memory)  # /dev/shm counts as the container's memory
    configured = settings.model_fields_set
    given = {name: getattr(settings, name) for name in ("cpu", "cpu_limit", "memory", "memory_limit")}
    request = format_quantity(memory)
    if given["memory_limit"] is not None and parse_quantity(given["memory_limit"]) < memory:
        request = given["memory_limit"]
    if given["memory"] is not None and parse_quantity(given["memory"]) > memory:
        limit = max(limit, 2 * parse_quantity(given["memory"]))
    cpu, most = min(chosen.cpu, given["cpu_limit"] or math.inf), max(chosen.cpu_limit, 2 * (given["cpu"] or 0))
    found = {"cpu": cpu, "cpu_limit": most, "memory": request, "memory_limit": format_quantity(limit)}
    return settings.model_copy(update={name: value for name, value in found.items() if name not in configured})


def _measured(peak: PeakUsage, table: Resources) -> Resources:
    memory = round_up((peak.memory / GI + (LAUNCHER if peak.in_pod else POD)) * HEADROOM)
    cpu = max(0.5, math.ceil(2 * peak.cpu) / 2)
    return Resources(cpu, max(table.cpu_limit, 2 * cpu), memory, 2 * memory)


def round_up(size: float) -> float:
    """Round up to the next power of two times one of STEPS.

    >>> round_up(3.1), round_up(0.6)
    (3.5, 0.625)
    """
    power = 2.0 ** math.floor(math.log2(size))
    return next((power * step for step in STEPS if size <= power * step), 2 * power)


def parse_quantity(size: str) -> float:
    """A Kubernetes quantity such as `4Gi`, in bytes."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", size)
    return float(found[1]) * UNITS[found[2]] if found else math.nan


def format_quantity(size: float) -> str:
    """A number of bytes as a Kubernetes quantity."""
    return f"{size / GI:g}Gi" if size % GI == 0 else f"{math.ceil(size / (1 << 20))}Mi"
