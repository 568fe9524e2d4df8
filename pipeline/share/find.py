"""Which runs the user means by the paths on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.common.errors import RunError, UntrainedError
from headrace.pipeline.folders import Folders
from headrace.pipeline.results.record import FILE_NAME, newest_first
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.share.events import log_files

RUNS = "runs"


def find(given: Path) -> RunFolder:
    """Find a run: by its own folder, or the latest run with a training by its pipeline's folder or config.

    Raises RunError if there is none, UntrainedError if it has no training, and ConfigError for an invalid config.
    """
    if (given / FILE_NAME).is_file():
        return _trained(_read(given))
    if given.is_dir():
        return _latest(given / RUNS if (given / RUNS).is_dir() else given, given)
    from headrace.configs.loading.loader import load

    return _latest(Folders.of(load(given)).runs, given)


def find_all(given: Iterable[Path]) -> tuple[list[RunFolder], list[UntrainedError]]:
    """Find several runs; those without a training are returned as errors.

    Raises RunError if none has a training, or if one cannot be found or read.
    """
    found, left_out = list[RunFolder](), list[UntrainedError]()
    for each in given:
        try:
            found.append(find(each))
        except UntrainedError as error:
            left_out.append(error)
    if left_out and not found:
        raise RunError("\n".join(map(str, left_out)))
    return found, left_out


def logs_of(folder: RunFolder) -> Path | None:
    """The folder of the run's TensorBoard logs. A run that reused a training has that training's logs."""
    logs = folder.directory("Trainer", "model_run")
    return logs if logs is not None and log_files(logs) else None


def _latest(runs: Path, given: Path) -> RunFolder:
    records = newest_first(runs)
    for path in records:
        folder = _read(path)
        if logs_of(folder) is not None:
            return folder
    if records:
        what = f"{given}: none of the {len(records)} runs in {runs} has a training"
        raise UntrainedError(what, f"{folder.record.pipeline} ({len(records)} runs)")
    raise RunError(f"{given}: no run in {runs}; start one with `headrace run`, or name a run's folder")


def _trained(folder: RunFolder) -> RunFolder:
    if logs_of(folder) is None:
        record = folder.record
        what = f"{folder.path}: the run is {record.status} and has no training to share"
        raise UntrainedError(what, f"{record.pipeline} {record.run_id} ({record.status})")
    return folder


def _read(path: Path) -> RunFolder:
    try:
        return RunFolder.read(path)
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path / FILE_NAME} is damaged or was written by another version ({error}); remove {path}"
        ) from error
