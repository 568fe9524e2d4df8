"""What components took in the last runs, for `kubeflow.resources: auto`: in pods, as the last line of each says, and
on this machine.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.configs.pod_resources import Peak
from headrace.pipeline.folders import Folders
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.local.record import RunRecord

RUNS = 5
"""The newest ones count, each with what it ran itself."""
LINE = re.compile(r"^(\w+): done in [\d.]+ s, with ([\d,]+) MiB of memory at most and ([\d.]+) CPUs on average$", re.M)
"""What `entrypoint.last_line` says in the log of a pod."""
COPY = re.compile(r"([^/]+)/([^/]+)/[^/]+/executor-logs(-\d+)?")
"""The log of a task's try, `<run>/<task>/<salt>/executor-logs-<try>`, as Kubeflow's launcher leaves it in the store."""


def peaks(config: PipelineConfig, store: Store) -> dict[str, Peak]:
    """By component, the most of the last runs in the cluster, or else of those on this machine; empty where there were
    none. Says so where the store cannot be read.
    """
    home = f"{config.kubeflow.pipeline_root.rstrip('/')}/{config.pipeline.name}"
    try:
        in_pods = _in_pods(store, home)
    except (OSError, RunError) as error:
        why = str(error).splitlines()[0]
        print(
            f"kubeflow.resources: auto goes by runs on this machine, as {home} cannot be read: {why}", file=sys.stderr
        )
        in_pods = {}
    return _here(config) | in_pods


def _in_pods(store: Store, home: str) -> dict[str, Peak]:
    logs: dict[str, dict[str, tuple[float, str]]] = defaultdict(dict)
    for name, written in store.files(home).items():
        if match := COPY.fullmatch(name):
            run, task = match[1], match[2]
            logs[run][task] = max((written, name), logs[run].get(task, (0.0, "")))
    newest = sorted(logs.values(), key=_written, reverse=True)[:RUNS]
    found: dict[str, Peak] = {}
    for name in (name for tasks in newest for _, name in tasks.values()):
        for component, mebibytes, cpus in LINE.findall(store.text(f"{home}/{name}"))[-1:]:
            took = Peak(int(mebibytes.replace(",", "")) << 20, float(cpus), in_pod=True)
            found[component] = _most(found.get(component), took)
    return found


def _written(tasks: dict[str, tuple[float, str]]) -> float:
    """When the last log of a run was written."""
    return max(written for written, _ in tasks.values())


def _here(config: PipelineConfig) -> dict[str, Peak]:
    found: dict[str, Peak] = {}
    for record in _last(Folders.of(config).runs):
        for node in record.nodes:
            if node.peak_bytes and node.cpus is not None:
                found[node.id] = _most(found.get(node.id), Peak(node.peak_bytes, node.cpus))
    return found


def _most(before: Peak | None, took: Peak) -> Peak:
    if before is None:
        return took
    return Peak(max(before.memory, took.memory), max(before.cpu, took.cpu), took.in_pod)


def _last(folder: Path) -> list[RunRecord]:
    records = []
    for run in sorted(folder.iterdir(), reverse=True)[:RUNS] if folder.is_dir() else []:
        try:
            records.append(RunRecord.read(run))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return records
