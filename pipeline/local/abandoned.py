"""What runs that were killed have left behind."""

from __future__ import annotations

import contextlib
import shutil

from headrace.configs.durable import SUFFIX, remove_left
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.metadata import Metadata
from headrace.pipeline.local.record import RunRecord, Status

PARTIAL = (".", "runs/*", "spans", "spans/*", "spans/*/*", "checkpoints/*")
"""Folders of the pipeline in which a kill may leave a file that was being written."""


def clear(folders: Folders, metadata: Metadata) -> None:
    """Remove half-written outputs, then close the books on them. Call it only while no run goes on."""
    for execution_id, node, run_id in metadata.abandoned():
        remove_outputs(folders, node, run_id)
        metadata.fail(execution_id, canceled=True)
    shutil.rmtree(folders.scratch, ignore_errors=True)
    for pattern in PARTIAL:
        for path in folders.home.glob(f"{pattern}/.*{SUFFIX}"):
            remove_left(path)
    for path in folders.runs.glob("*/run.json"):
        with contextlib.suppress(ValueError, TypeError, KeyError):  # damaged, or another version's: left as it is
            record = RunRecord.read(path.parent)
            if not record.status.ended:
                _close(record)
                record.write(path.parent)


def remove_outputs(folders: Folders, node: str, run_id: str) -> None:
    """Remove what a component has written in a run."""
    for path in folders.artifacts.glob(f"{node}/*/{run_id}"):
        shutil.rmtree(path)


def _close(record: RunRecord) -> None:
    record.status = Status.INTERRUPTED
    for node in record.nodes:
        if node.status is Status.RUNNING:
            node.status = Status.INTERRUPTED
