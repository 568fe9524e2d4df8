"""What components used in the last runs, for `kubeflow.resources: auto`: in pods, by the last line of each pod's log,
and on this machine, by the run records.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from pathlib import Path

from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.pod_resources import PeakUsage
from headrace.pipeline.folders import Folders
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.results.record import RunRecord, newest_first

logger = logging.getLogger(__name__)

RUNS = 5
"""How many of the newest runs count, each with the components that it ran itself."""
LINE = re.compile(
    r"^([\w.-]+): done in [\d.]+ s, with ([\d,]+) MiB of memory at most and ([\d.]+) CPUs on average$", re.M
)
"""The line that `entrypoint.last_line` writes to the log of a pod."""
LOG = re.compile(r"([^/]+)/([^/]+)/[^/]+/executor-logs(-\d+)?")
"""The log of a task's try, `<run>/<task>/<salt>/executor-logs-<try>`, as Kubeflow's launcher writes it to the store."""


def peaks(config: PipelineConfig, store: Store) -> dict[str, PeakUsage]:
    """By component, the peak use in the last runs on the cluster, or else in those on this machine.

    Components without a run are missing. If the store cannot be read, a warning is logged.
    """
    home = f"{config.kubeflow.pipeline_root.rstrip('/')}/{config.pipeline.name}"
    try:
        in_pods = _in_pods(store, home)
    except (OSError, RunError) as error:
        why = str(error).splitlines()[0]
        logger.warning(f"kubeflow.resources: auto uses runs on this machine, because {home} cannot be read: {why}")
        in_pods = {}
    return _on_this_machine(config) | in_pods


def _in_pods(store: Store, home: str) -> dict[str, PeakUsage]:
    logs: dict[str, dict[str, tuple[float, str]]] = defaultdict(dict)
    for name, written in store.files(home).items():
        if match := LOG.fullmatch(name):
            run, task = match[1], match[2]
            logs[run][task] = max((written, name), logs[run].get(task, (0.0, "")))
    newest = sorted(logs.values(), key=_last_written, reverse=True)[:RUNS]
    found: dict[str, PeakUsage] = {}
    for name in (name for tasks in newest for _, name in tasks.values()):
        for component, mebibytes, cpus in LINE.findall(store.text_if_there(f"{home}/{name}") or "")[-1:]:
            used = PeakUsage(int(mebibytes.replace(",", "")) << 20, float(cpus), in_pod=True)
            found[component] = _largest(found.get(component), used)
    return found


def _last_written(tasks: dict[str, tuple[float, str]]) -> float:
    """When the last log of a run was written."""
    return max(written for written, _ in tasks.values())


def _on_this_machine(config: PipelineConfig) -> dict[str, PeakUsage]:
    found: dict[str, PeakUsage] = {}
    for record in _last_records(Folders.of(config).runs):
        for node in record.nodes:
            if node.peak_bytes and node.cpus is not None:
                found[node.id] = _largest(found.get(node.id), PeakUsage(node.peak_bytes, node.cpus))
    return found


def _largest(before: PeakUsage | None, used: PeakUsage) -> PeakUsage:
    if before is None:
        return used
    return PeakUsage(max(before.memory, used.memory), max(before.cpu, used.cpu), used.in_pod)


def _last_records(folder: Path) -> list[RunRecord]:
    records = []
    for run in newest_first(folder)[:RUNS]:
        try:
            records.append(RunRecord.read(run))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return records
