"""Which logs of an object store are shown, and under which names.

Kubeflow keeps what a Trainer logged at `<root>/<pipeline>/<run>/<task>/<number>/model_run/train/events...`; TensorBoard
shows it as the run `<pipeline>/<run>/train`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from headrace.pipeline.kubeflow.store import StoredObject
from headrace.pipeline.tensorboard.view import EVENTS, LOGS, PROFILE

PARTIAL = ".partial"
"""The folder, beside the logs, of what is being copied. TensorBoard finds no log there, by the names of its files."""
OF_TASK = 2
"""Folders between that of a run and its logs: the task's, and the one that Kubeflow makes for each time it runs."""


def shown(listing: Mapping[str, StoredObject], limit: int) -> tuple[dict[str, str], int]:
    """What is shown of the files below a root: the name for TensorBoard to the file; and how many trainings are not.

    Trainings come whole, the newest first, as many as fit into `limit` bytes.
    """
    trainings: dict[str, list[str]] = {}
    for inside in listing:
        if is_log(inside):
            trainings.setdefault(_training(inside), []).append(inside)
    wanted: dict[str, str] = {}
    names, room, left_out = _names(trainings), limit, 0
    for training in sorted(
        trainings, key=lambda one: max(listing[file].written for file in trainings[one]), reverse=True
    ):
        size = sum(listing[file].size for file in trainings[training])
        if size > room:
            left_out += 1
            continue
        room -= size
        wanted |= {f"{names[training]}/{file[len(training) + 1 :]}": file for file in trainings[training]}
    return wanted, left_out


def is_log(inside: str) -> bool:
    """Whether a file is one, at a path that stays in the folder that it is copied to."""
    *folders, name = inside.split("/")
    return (EVENTS in name or name.endswith(PROFILE)) and not {"", ".", ".."} & {*folders} and folders[:1] != [PARTIAL]


def _training(inside: str) -> str:
    """The folder of a training's logs."""
    folders = PurePosixPath(inside).parent.parts
    return "/".join(folders[: folders.index(LOGS) + 1] if LOGS in folders else folders)


def _names(trainings: Iterable[str]) -> dict[str, str]:
    """The name of each training: that of its run, where the run has one training alone."""
    of_run: dict[str, list[str]] = {}
    for training in trainings:
        *above, last = training.split("/")
        whole = "/".join(above) if last == LOGS else training
        run = "/".join(above[:-OF_TASK]) if last == LOGS and len(above) > OF_TASK else whole
        of_run.setdefault(run, []).append(training)
    return {
        training: run if len(those) == 1 else training.removesuffix(f"/{LOGS}")
        for run, those in of_run.items()
        for training in those
    }
