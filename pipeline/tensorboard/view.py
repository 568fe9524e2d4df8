"""A folder of links to the TensorBoard logs of a pipeline's trainings: one TensorBoard run for each log of each.

TensorBoard's profile plugin keeps what it computed in files beside the profile. In the Trainer's own folder they would
make the artifact look damaged, and the next run would train again; beside a link they hurt nobody.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from headrace.configs.errors import RunError
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.record import FILE_NAME, RunRecord

TRAINER = "Trainer"
LOGS = "model_run"
EVENTS = "events.out.tfevents"
PROFILE = ".xplane.pb"


def trainings(folders: Folders, run_id: str | None) -> dict[str, Path]:
    """The logs of each training by the id of the run that made it, in order; those of one that goes on too.

    run_id: only the training whose model this run has, under the run's own name. RunError where there is none.
    """
    logs = folders.artifacts / TRAINER / LOGS
    made = {path.name: path for path in sorted(logs.glob("*")) if path.is_dir()}
    if run_id is None:
        if not made:
            raise RunError(f"no training yet in {logs}; start one with `headrace run`")
        return made
    if run_id in made:
        return {run_id: made[run_id]}
    reused = _reused(folders.runs / run_id)
    if reused is None:
        there = sorted(path.parent.name for path in folders.runs.glob(f"*/{FILE_NAME}"))
        latest = f"the latest are {', '.join(there[-5:])}" if there else "there is no run yet"
        if run_id in there:
            raise RunError(f"run {run_id} came to no training, and so has no logs")
        raise RunError(f"no run {run_id} in {folders.runs}; {latest}")
    return {run_id: reused}


def _reused(run_dir: Path) -> Path | None:
    with contextlib.suppress(OSError, KeyError, ValueError, TypeError, json.JSONDecodeError):
        logs = RunRecord.read(run_dir).node(TRAINER).outputs.get(LOGS)
        if logs is not None and Path(logs.uri).is_dir():
            return Path(logs.uri)
    return None


def link(logs: dict[str, Path], view: Path) -> None:
    """Make `view/<run id>/...` hold a link to each log file, and take away the links to what is gone.

    Called again, it adds what is new.
    """
    wanted = {
        view / run_id / file.relative_to(directory): file
        for run_id, directory in logs.items()
        for file in directory.rglob("*")
        if EVENTS in file.name or file.name.endswith(PROFILE)
    }
    for there in view.rglob("*"):
        if there.is_symlink() and there not in wanted:
            there.unlink()
    for place, file in wanted.items():
        if not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(file.absolute())
