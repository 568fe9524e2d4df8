"""What components took in the last runs on this machine, for `kubeflow.resources: auto`."""

from __future__ import annotations

from pathlib import Path

from configs.config import PipelineConfig
from configs.pod_resources import Peak
from pipeline.folders import Folders
from pipeline.local.record import RunRecord

RUNS = 5
"""The newest ones count, each with what it ran itself."""


def peaks(config: PipelineConfig) -> dict[str, Peak]:
    """By component, the most of the last runs; empty where there were none."""
    folder = Folders.of(config).runs
    found: dict[str, Peak] = {}
    for record in _last(folder):
        for node in record.nodes:
            if node.peak_bytes and node.cpus is not None:
                before = found.get(node.id, Peak(0, 0.0))
                found[node.id] = Peak(max(before.memory, node.peak_bytes), max(before.cpu, node.cpus))
    return found


def _last(folder: Path) -> list[RunRecord]:
    records = []
    for run in sorted(folder.iterdir(), reverse=True)[:RUNS] if folder.is_dir() else []:
        try:
            records.append(RunRecord.read(run))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return records
