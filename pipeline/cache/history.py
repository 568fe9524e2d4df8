"""What earlier runs kept of their cache keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.configs.errors import RunError
from headrace.configs.suggest import did_you_mean
from headrace.pipeline.cache.differences import Difference, differences
from headrace.pipeline.cache.parts import KeyParts
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.record import NodeRecord, RunRecord, Status

MOST = 100
"""Runs that are looked through."""


@dataclass(frozen=True)
class Run:
    """A run and its folder."""

    folder: Path
    record: RunRecord

    def node(self, id_: str) -> NodeRecord | None:
        """The record of one component, if the run has it."""
        return next((node for node in self.record.nodes if node.id == id_), None)


@dataclass(frozen=True)
class Execution:
    """A component whose outputs an earlier run had, and how it differs from the one in question."""

    run: Run
    parts: KeyParts
    differences: list[Difference]


def runs(folders: Folders) -> list[Run]:
    """The latest runs that have a record, the newest first."""
    found = list(_readable(folders.runs))
    return sorted(found, key=lambda run: (run.record.started, run.record.run_id), reverse=True)[:MOST]


def chosen(found: list[Run], id_: str | None, folders: Folders) -> Run:
    """The run of that id; None: the newest. Raises RunError if there is none."""
    if not found:
        raise RunError(f"there is no run in {folders.runs}; `headrace explain-cache --next` tells what one would do")
    if id_ is None:
        return found[0]
    run = next((run for run in found if run.record.run_id == id_), None)
    if run is None:
        near = did_you_mean(id_, [run.record.run_id for run in found])
        raise RunError(f"there is no run {id_} in {folders.runs}{near}")
    return run


def most_similar(earlier: list[Run], node: str, parts: KeyParts) -> Execution | None:
    """The latest of the executions that differ in the fewest things; None if no run made that component."""
    candidates = [
        Execution(run, kept, differences(kept, parts))
        for run in earlier
        for kept in [_made(run, node)]
        if kept is not None
    ]
    return min(candidates, key=lambda one: len(one.differences), default=None)


def _made(run: Run, node: str) -> KeyParts | None:
    """The key parts of a component whose outputs a run had, made by it or taken from an earlier one."""
    record = run.node(node)
    had = record is not None and record.status in (Status.DONE, Status.CACHED)
    return KeyParts.read(run.folder, node) if had else None


def _readable(folder: Path) -> Iterator[Run]:
    for run_dir in folder.iterdir() if folder.is_dir() else ():
        try:
            yield Run(run_dir, RunRecord.read(run_dir))
        except (OSError, ValueError, TypeError, KeyError):
            continue
